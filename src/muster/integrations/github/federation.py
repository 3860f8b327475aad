"""Sign in jobs of GitHub Actions with the token that GitHub signs for them (OIDC).

The issuer's keys are fetched once and kept. A token that names another key causes another fetch, a few times
in half a minute at most. So forged tokens can't make this server ask GitHub all day. A key that may not be
looked up yet is answered "ask again", never refused. An unreadable entry invalidates no other key.

Only RS256 counts, whatever a token says of itself. Only tokens for this server count: another server that was
shown one could use it here.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from muster.domain.errors import Forbidden, InvalidRequest, NotYet, Unproven
from muster.integrations.github.credentials import signing
from muster.integrations.github.requests import repository
from muster.integrations.github.trust import Confinement, Trust, Workload, confined
from muster.ports.clock import Clock

logger = logging.getLogger(__name__)

KEYS_FOR = 3600.0
LOOK_AGAIN = 30.0
LOOKS_MOST = 3
"""Within so many seconds, for keys that aren't known."""
LEEWAY = 60.0
LONGEST = 16_384
RETRY = 5.0
REQUIRED = ("iss", "aud", "exp", "iat", "sub", "repository", "ref", "run_id", "run_attempt")


class GitHubFederation:
    def __init__(
        self,
        http: httpx.AsyncClient,
        clock: Clock,
        *,
        issuer: str,
        audiences: Sequence[str],
        rules: Sequence[Trust] = (),
    ) -> None:
        self.rules = rules
        self._jwt = signing()
        self._http = http
        self._clock = clock
        self._issuer = issuer
        self._audiences = tuple(audiences)
        self._keys: Mapping[str, Any] = {}
        self._looked_at = float("-inf")
        self._looks: list[float] = []
        """When keys were fetched for the sake of one that wasn't known, in the last LOOK_AGAIN seconds."""
        self._missed: dict[str, float] = {}
        """Keys that such a look didn't find, and when."""
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        await self._http.aclose()

    def recognises(self, token: str) -> bool:
        return token.count(".") == 2 and len(token) <= LONGEST and token.startswith("ey")  # noqa: PLR2004

    async def admit(self, token: str) -> Confinement:
        try:
            job = await self.verify(token)
        except Forbidden as error:
            raise Unproven(str(error)) from error
        return confined(self.rules, job)

    async def verify(self, token: str) -> Workload:
        jwt = self._jwt
        try:
            named = jwt.get_unverified_header(token).get("kid")
        except jwt.InvalidTokenError as error:
            raise Forbidden(f"cannot accept the OIDC token: it can't be read ({error})") from error
        key = await self._key(str(named))
        try:
            # Times are judged by our own clock, so the library must not.
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audiences,
                issuer=self._issuer,
                options={
                    "require": list(REQUIRED),
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.InvalidTokenError as error:
            raise Forbidden(f"cannot accept the OIDC token: {self._why(error)}") from error
        self._check_times(claims)
        return _workload(claims)

    def _why(self, error: Exception) -> str:
        ours = " or ".join(self._audiences)
        words = {
            "InvalidSignatureError": f"its signature is not {self._issuer}'s",
            "InvalidAudienceError": f"it is for another audience; ask GitHub for the audience {ours}",
            "InvalidIssuerError": f"it was not issued by {self._issuer}",
            "InvalidAlgorithmError": "it is not signed with RS256",
        }
        return words.get(type(error).__name__, str(error).lower())

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now()
        try:
            ends, begins = float(claims["exp"]), float(claims.get("nbf", claims["iat"]))
        except (TypeError, ValueError) as error:
            raise Forbidden("cannot accept the OIDC token: its times can't be read") from error
        if not now < ends + LEEWAY:
            raise Forbidden(
                f"cannot accept the OIDC token: it expired {now - ends:.0f} s ago; ask for a new one"
            )
        if not begins <= now + LEEWAY:
            raise Forbidden("cannot accept the OIDC token: it is not valid yet; check this server's clock")

    # --- keys -------------------------------------------------------------------------------------

    async def _key(self, name: str) -> Any:
        async with self._turn:
            now = self._clock.now()
            self._looks = [at for at in self._looks if now - at < LOOK_AGAIN]
            self._missed = {each: at for each, at in self._missed.items() if now - at < LOOK_AGAIN}
            if now - self._looked_at >= KEYS_FOR:
                await self._look()
            elif name not in self._keys and name not in self._missed:
                if len(self._looks) >= LOOKS_MOST:
                    raise self._too_early(self._looks[0] + LOOK_AGAIN - now)
                self._looks.append(now)
                if not await self._look():
                    raise self._too_early(RETRY)
            if name not in self._keys:
                self._missed.setdefault(name, now)
                raise Forbidden(f"cannot accept the OIDC token: {self._issuer} has no such key")
            return self._keys[name]

    def _too_early(self, wait: float) -> NotYet:
        words = f"its key is new, and the keys of {self._issuer} can't be looked up again yet"
        return NotYet(f"cannot check the OIDC token: {words}; ask again in {wait:.0f} s", wait)

    async def _look(self) -> bool:
        """Fetch the keys. False: the issuer gives none, so the earlier ones stay."""
        try:
            found = await self._fetch(f"{self._issuer}/.well-known/openid-configuration")
            listed = (await self._fetch(str(found["jwks_uri"])))["keys"]
            fresh = self._readable(listed)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            if self._keys:
                self._looked_at = self._clock.now() - KEYS_FOR + LOOK_AGAIN
                return False  # those that were good a moment ago are better than none
            raise NotYet(
                f"cannot check OIDC tokens: the keys of {self._issuer} can't be had", RETRY
            ) from error
        self._keys, self._looked_at = fresh, self._clock.now()
        return True

    def _readable(self, listed: Sequence[Any]) -> dict[str, Any]:
        """Return the keys by name, without malformed entries and other uses. Raises ValueError if none is
        left."""
        found: dict[str, Any] = {}
        for each in listed:
            try:
                if each["kty"] == "RSA" and each.get("use", "sig") == "sig":
                    found[str(each["kid"])] = self._jwt.PyJWK(each, algorithm="RS256").key
            except Exception as error:  # the library raises many kinds for bytes that are no key
                extra = {"issuer": self._issuer, "error": type(error).__name__}
                logger.warning("cannot read a key of the issuer", extra=extra)
        if not found:
            raise ValueError("there is no key among them")
        return found

    async def _fetch(self, url: str) -> Any:
        answer = await self._http.get(url)
        answer.raise_for_status()
        return answer.json()


def _workload(claims: Mapping[str, Any]) -> Workload:
    try:
        return Workload(
            repository=repository("repository", claims["repository"]),
            ref=str(claims["ref"]),
            run_id=int(claims["run_id"]),
            attempt=int(claims["run_attempt"]),
            environment=str(claims.get("environment") or ""),
            workflow_ref=str(claims.get("job_workflow_ref") or claims.get("workflow_ref") or ""),
            event=str(claims.get("event_name") or ""),
            repository_id=int(claims.get("repository_id") or 0),
        )
    except (ValueError, TypeError, InvalidRequest) as error:
        raise Forbidden("cannot accept the OIDC token: its claims can't be read") from error
