"""Sign for jobs, as GitHub does: public keys, and tokens for running jobs."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

KEY = "key-1"
LASTS = 300


@cache
def _key() -> Any:
    """Create the key once: it takes a while."""
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 — only here

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    def __init__(self, now: Callable[[], float], *, url: str = "http://github.test/_oidc") -> None:
        self.url = url
        self.request_token = "runner-s-own-token"
        self.claims: dict[str, Any] = {}
        """Of the job that asks next."""
        self.kids = [KEY]
        """The names of the keys that it publishes."""
        self.beside: list[Any] = []
        """Entries that it publishes beside them."""
        self.asked = 0
        self._now = now
        self._key = _key()

    def sign(self, *, key: Any = None, algorithm: str = "RS256", kid: str = KEY, **claims: Any) -> str:
        import jwt  # noqa: PLC0415

        now = int(self._now())
        repository, ref = claims.get("repository"), claims.get("ref")
        file = f"{repository}/.github/workflows/test.yml@{ref}"
        whole = {
            "iss": self.url,
            "aud": "muster",
            "iat": now,
            "nbf": now,
            "exp": now + LASTS,
            "sub": f"repo:{repository}:ref:{ref}",
            "repository_id": str(crc32(str(repository).encode())),
            "event_name": "push",
            "workflow_ref": file,
            "job_workflow_ref": file,
            **claims,
        }
        return jwt.encode(
            {name: value for name, value in whole.items() if value is not None},
            self._key if key is None else key,
            algorithm=algorithm,
            headers={"kid": kid},
        )

    def answer(self, target: str, authorization: str) -> Any | None:
        """Return the answer at a path of its own, or None for another path."""
        parts = urlsplit(target)
        prefix = urlsplit(self.url).path
        if parts.path == f"{prefix}/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/.well-known/jwks"}
        if parts.path == f"{prefix}/.well-known/jwks":
            self.asked += 1
            return {"keys": [*self.beside, *(self._public(kid) for kid in self.kids)]}
        if parts.path == f"{prefix}/token" and authorization.endswith(f" {self.request_token}"):
            audience = parse_qs(parts.query).get("audience", [""])[0]
            return {"value": self.sign(**{**self.claims, "aud": audience})}
        return None

    def _public(self, kid: str) -> dict[str, Any]:
        from jwt.algorithms import RSAAlgorithm  # noqa: PLC0415

        key: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return {**key, "kid": kid, "use": "sig", "alg": "RS256"}
