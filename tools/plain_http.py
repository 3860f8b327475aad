"""Spare clients that only speak http:// the reading of this machine's certificates, 20 ms of CPU each."""

import ssl
from typing import Final

NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate, so an address that is https:// after all is refused."""
