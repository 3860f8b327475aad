"""Check an ID token: signature, issuer, audience, times, nonce.

Only algorithms with a public key count, whatever a token says of itself. So `none` is refused. A token that
is signed with a secret is refused too, also if that secret is a public key.
"""

from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ExpiredTokenError,
    InvalidKeyIdError,
    JoseError,
    UnsupportedAlgorithmError,
)

from muster.domain.errors import Unproven
from muster.integrations.oidc.discovery import Discovery, why

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY = 60
LONGEST = 65_536


class IdTokens:
    def __init__(self, discovery: Discovery, *, client_id: str) -> None:
        self._discovery = discovery
        self._client_id = client_id

    async def verified(self, token: object, *, nonce: str, now: float) -> Mapping[str, Any]:
        """Return the claims of an ID token. Raises Unproven, and NotYet if the keys are not available."""
        if not isinstance(token, str) or len(token) > LONGEST:
            raise Unproven("cannot sign in: the identity provider's answer has no ID token")
        try:
            claims = await self._signed(token)
            self._check(claims, nonce=nonce, now=int(now))
        except JoseError as error:
            raise Unproven(f"cannot sign in: {self._words(error)}") from error
        return claims

    async def _signed(self, token: str) -> dict[str, Any]:
        try:
            return jwt.decode(token, await self._discovery.keys(), algorithms=ALGORITHMS).claims
        except (InvalidKeyIdError, BadSignatureError):
            keys = await self._discovery.keys(anew=True)  # the provider may have changed them
            return jwt.decode(token, keys, algorithms=ALGORITHMS).claims

    def _check(self, claims: Mapping[str, Any], *, nonce: str, now: int) -> None:
        registry = jwt.JWTClaimsRegistry(
            now=now,
            leeway=LEEWAY,
            iss={"essential": True, "value": self._discovery.issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        registry.validate(dict(claims))
        audience = claims["aud"]
        several = isinstance(audience, list) and len(audience) > 1
        if (several or "azp" in claims) and claims.get("azp") != self._client_id:
            raise Unproven("cannot sign in: the ID token was issued to another client")

    def _words(self, error: JoseError) -> str:
        issuer = self._discovery.issuer
        match error:
            case BadSignatureError() | InvalidKeyIdError():
                return f"the ID token's signature is not that of {issuer}"
            case UnsupportedAlgorithmError():
                return f"the ID token is signed in a way that Muster does not accept ({why(error)})"
            case ExpiredTokenError():
                return "the ID token has expired; check the clocks of this server and the identity provider"
            case _:
                return f"the ID token is not valid ({why(error)})"
