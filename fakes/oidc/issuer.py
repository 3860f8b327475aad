"""Answer discovery, keys, code exchange and userinfo; each answer can be spoilt."""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet

ISSUER = "https://id.example.com"
LASTS = 300


class HostileIssuer(httpx.AsyncBaseTransport):
    """Implements httpx's transport: a client that has it asks this provider, whatever the address."""

    def __init__(self, now: Callable[[], float], *, client_id: str = "muster") -> None:
        self.person: dict[str, Any] = {
            "sub": "u-1",
            "email": "ada@example.com",
            "email_verified": True,
            "groups": ["platform"],
        }
        self.claims: dict[str, Any] = {}
        """Put into the next ID tokens over what is right; None leaves a claim out."""
        self.document: dict[str, Any] = {}
        """Likewise, of the discovery document."""
        self.algorithm = "ES256"
        self.forger: Key | None = None
        """Signs in place of the provider's own key."""
        self.unsigned = False
        self.down = False
        self.exchange: httpx.Response | None = None
        """Answers the next exchanges of a code."""
        self.asked: list[str] = []
        self._now = now
        self._client_id = client_id
        self._codes: dict[str, dict[str, str]] = {}
        self.keys: list[Key] = []
        self.rotate()

    def rotate(self) -> None:
        """Sign with a new key from now on, and publish that alone."""
        self.keys = [ECKey.generate_key("P-256", {"kid": f"key-{self._now()}-{len(self.asked)}"})]

    def authorise(self, address: str) -> dict[str, str]:
        """Take a person who arrives at the authorization endpoint; return the answer's parameters."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append(path)
        if self.down:
            raise httpx.ConnectError("Connection refused")
        match path:
            case "/.well-known/openid-configuration":
                return httpx.Response(200, json={**self._described(), **self.document})
            case "/keys":
                return httpx.Response(200, json=KeySet(self.keys).as_dict())
            case "/token":
                return self.exchange or self._exchanged(await request.aread())
            case "/me":
                return httpx.Response(200, json=self.person)
            case _:
                return httpx.Response(404, json={})

    def _described(self) -> dict[str, Any]:
        return {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/auth",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/me",
            "authorization_response_iss_parameter_supported": True,
        }

    def _exchanged(self, body: bytes) -> httpx.Response:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge:
            return httpx.Response(400, json={"error": "invalid_grant"})
        return httpx.Response(200, json={"access_token": "at", "id_token": self._id_token(asked["nonce"])})

    def _id_token(self, nonce: str) -> str:
        now = int(self._now())
        right = {"iss": ISSUER, "aud": self._client_id, "iat": now, "exp": now + LASTS, "nonce": nonce}
        claims = {**right, "sub": self.person["sub"], **self.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.unsigned:
            return f"{_encoded({'alg': 'none', 'typ': 'JWT'})}.{_encoded(claims)}."
        key = self.forger or self.keys[0]
        return jwt.encode({"alg": self.algorithm, "kid": self.keys[0].kid}, claims, key)


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
