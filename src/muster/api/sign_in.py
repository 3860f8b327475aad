"""Sign people in on the page, and let them sign in their terminals.

This module owns the way from an answer of the identity provider to a session. State, nonce and verifier are
derived from one secret, which the browser keeps in a cookie until it comes back. So the server stores nothing
for a sign-in that was only begun, and any replica can finish it. A session's secret is always new.
"""

import base64
import hashlib
import hmac
import logging
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.api.access import SECRET_PREFIX, mint
from muster.domain.access import ApiToken, TokenKind, named_after
from muster.domain.errors import MusterError, Unproven
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.sign_in import Challenge, Person, SignInProvider, Uncovered
from muster.ports.store import Store

logger = logging.getLogger(__name__)

BEGUN_FOR = 600.0
"""Seconds in which a person signs in at the provider."""
TO_MOST = 1000
SESSION_PREFIX = f"{SECRET_PREFIX}session_"
_TO = re.compile(r"/(?!/)[\x21-\x5b\x5d-\x7e]*", re.ASCII)
"""A path of this server: browsers take `//` and a backslash for the beginning of another host."""
_AGAIN = "sign in again from this page"
REFUSALS_MOST = 10
REFUSALS_WITHIN = 60.0
"""So many refused sign-ins of a minute are told as events, of each replica; all of them are logged."""
_WORDS_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A sign-in that a browser has begun: what its cookie holds."""

    secret: str = field(repr=False)
    to: str

    @property
    def cookie(self) -> str:
        return f"{self.secret}.{base64.urlsafe_b64encode(self.to.encode()).decode()}"

    @property
    def challenge(self) -> Challenge:
        return Challenge(
            state=self._derived("state"), nonce=self._derived("nonce"), verifier=self._derived("verifier")
        )

    def _derived(self, purpose: str) -> str:
        digest = hmac.digest(self.secret.encode(), purpose.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    @classmethod
    def of_cookie(cls, text: str | None) -> "Begun":
        """Read the cookie. Raises Unproven if this browser has none."""
        secret, _, to = (text or "").partition(".")
        try:
            if secret:
                return cls(secret=secret, to=page_path(base64.urlsafe_b64decode(to).decode()))
        except ValueError:
            pass
        words = f"this browser has not begun it, or more than {BEGUN_FOR / 60:g} minutes ago"
        raise Unproven(f"cannot sign in: {words}; {_AGAIN}")


def page_path(text: str) -> str:
    """Return a path of the page to go to, or its first page for anything else."""
    return text if len(text) <= TO_MOST and _TO.fullmatch(text) else "/"


class SignInDesk:
    def __init__(
        self, provider: SignInProvider, access: AccessStore, store: Store, clock: Clock, ids: Ids
    ) -> None:
        self.provider = provider
        self._access = access
        self._store = store
        self._clock = clock
        self._ids = ids
        self._told: deque[float] = deque(maxlen=REFUSALS_MOST)

    async def begin(self, to: str) -> tuple[str, Begun]:
        """Return where to send the browser, and what it has to keep. Raises NotYet."""
        begun = Begun(secret=self._ids.secret(), to=page_path(to))
        return await self.provider.address(begun.challenge), begun

    async def finish(
        self, answer: Mapping[str, str], begun: Begun, *, earlier: str | None
    ) -> tuple[ApiToken, str]:
        """Return the session of the person who signed in, and its secret. End the browser's earlier one.

        Raises Unproven, Forbidden or NotYet.
        """
        challenge = begun.challenge
        if not hmac.compare_digest(answer.get("state", "").encode(), challenge.state.encode()):
            raise Unproven(f"cannot sign in: the answer belongs to another sign-in; {_AGAIN}")
        try:
            person = await self._person(answer, challenge)
        except MusterError as error:
            await self._refused(error)
            raise
        if earlier is not None:
            await self._end(earlier)
        return await self._session(person)

    async def _person(self, answer: Mapping[str, str], challenge: Challenge) -> Person:
        if "error" in answer:
            said = " ".join(f"{answer['error']} {answer.get('error_description', '')}".split())
            shown = "".join(each for each in said if each.isprintable())[:_WORDS_MOST]
            raise Unproven(f"cannot sign in: {self.provider.name} says {shown}; {_AGAIN}")
        if not answer.get("code"):
            raise Unproven(f"cannot sign in: the answer has no code; {_AGAIN}")
        return await self.provider.person(answer["code"], challenge, issuer=answer.get("iss"))

    async def _session(self, person: Person) -> tuple[ApiToken, str]:
        now, lifetimes = self._clock.now(), self.provider.lifetimes
        token_id, name = self._ids.new("tok"), named_after(person.name)
        return await mint(
            self._access,
            ids=self._ids,
            name=name,
            role=person.role,
            now=now,
            expires_at=now + lifetimes.session,
            actor=f"{name} ({token_id})",
            token_id=token_id,
            kind=TokenKind.SESSION,
            idle_timeout=lifetimes.idle,
            claims=person.claims,
            prefix=SESSION_PREFIX,
        )

    async def _end(self, secret: str) -> None:
        token = await self._access.token_for(hashlib.sha256(secret.encode()).hexdigest())
        if token is not None and token.kind is TokenKind.SESSION and token.valid(now=self._clock.now()):
            await self._access.revoke_token(token.id, now=self._clock.now(), actor=token.actor)

    async def _refused(self, error: MusterError) -> None:
        logger.warning("refused a sign-in", extra={"error": str(error)})
        now = self._clock.now()
        if len(self._told) == REFUSALS_MOST and now - self._told[0] < REFUSALS_WITHIN:
            return
        self._told.append(now)
        actor = error.person if isinstance(error, Uncovered) else "an unknown person"
        await self._store.note(
            "sign-in", "sign_in_refused", reason=None, detail=str(error), now=now, actor=actor
        )
