"""Send one message to a webhook's address, and say what the answer means."""

import hmac
from base64 import b64decode, b64encode
from binascii import Error

import httpx

from muster.domain.errors import ProviderError
from muster.integrations.webhooks.tables import Webhook
from muster.outgoing import NoAnswer, Outgoing

PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """Return the key. After `whsec_` it is Base64; any other text is the key itself."""
    if secret.startswith(PREFIX):
        try:
            return b64decode(secret.removeprefix(PREFIX), validate=True)
        except Error:
            return secret.encode()
    return secret.encode()


def headers(secret: str, message_id: str, body: bytes, *, now: float) -> dict[str, str]:
    """Return the headers of a message. Without a secret there is no signature."""
    moment = str(int(now))
    said = {"webhook-id": message_id, "webhook-timestamp": moment}
    if secret:
        signed = b".".join((message_id.encode(), moment.encode(), body))
        code = hmac.digest(key_of(secret), signed, "sha256")
        said["webhook-signature"] = f"v1,{b64encode(code).decode()}"
    return said


RETRY_AFTER_MOST = 3600.0
_LATER = (408, 425, 429)
_SERVER_ERROR = 500
_BUSY = (429, 503)
"""Their `Retry-After` is about the whole receiver."""


class NotDelivered(ProviderError):
    """The receiver did not take a message. `passing`: it may take the same message later.

    `retry_after`: seconds for which it wants no message at all.
    """

    def __init__(self, why: str, *, passing: bool, retry_after: float = 0.0) -> None:
        super().__init__(why)
        self.passing = passing
        self.retry_after = retry_after


class Receiver:
    """One address."""

    def __init__(self, webhook: Webhook, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Raises InvalidRequest for an address or secret that can't be read."""
        self._secret = webhook.secret()
        self._host = webhook.host
        always = {"Content-Type": "application/json", "User-Agent": "muster"}
        self._outgoing = Outgoing(webhook.address(), always, transport)

    async def send(self, message_id: str, body: bytes, *, now: float) -> None:
        """Send a message. Raises NotDelivered, in words that show only the host of the address."""
        said = headers(self._secret, message_id, body, now=now)
        try:
            response = await self._outgoing.post(body, said)
        except NoAnswer as error:
            why = f"{self._host} can't be reached ({type(error.__cause__).__name__})"
            raise NotDelivered(why, passing=True) from error
        if not response.is_success:
            raise _refusal(self._host, response)

    async def close(self) -> None:
        await self._outgoing.close()


def _refusal(host: str, response: httpx.Response) -> NotDelivered:
    status = response.status_code
    if response.is_redirect:
        why = f"{host} redirects elsewhere, which is not followed: set the final address"
        return NotDelivered(why, passing=False)
    passing = status in _LATER or status >= _SERVER_ERROR
    wait = response.headers.get("Retry-After", "")
    seconds = min(float(wait), RETRY_AFTER_MOST) if status in _BUSY and wait.isdecimal() else 0.0
    return NotDelivered(f"{host} answered {status}", passing=passing, retry_after=seconds)
