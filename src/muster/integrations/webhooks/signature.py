"""Sign messages as the Standard Webhooks specification says. Its libraries check them."""

import hmac
from base64 import b64decode, b64encode
from binascii import Error

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
