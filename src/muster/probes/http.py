"""Probe services over HTTP: one request, one status line, no redirects, only in the allowed ranges.

The name is resolved here, and the connection goes to the address that was checked. So a name that resolves to
something else a moment later leads nowhere. The addresses of a name are asked in turn until one answers.

Sends no secret and reads only the status. So a certificate needs no known issuer.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from muster.domain.errors import InvalidRequest
from muster.probes.addresses import Address, Names, Ranges

LINE_MOST = 4096
URL_MOST = 2048
ADDRESSES_MOST = 4
"""Of one name. Each has its share of the time, so that a dead one leaves some for the next."""
_PORTS = {"http": 80, "https": 443}
_SUCCESS = range(200, 300)


class HttpProber:
    def __init__(self, *, allowed: Sequence[str], timeout: float) -> None:
        self._ranges = Ranges(allowed)
        self._timeout = timeout
        # Half of the time: a name that hangs leaves the other half for what it led to before.
        self._names = Names(patience=timeout / 2)
        # Not the default context: it reads all certificates that the machine trusts, and a probe trusts any.
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    async def check(self, url: str) -> None:
        parts = _parsed(url)
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._resolved(parts)
        except (OSError, TimeoutError):
            return
        outside = next((each for each in found if not self._ranges.may(each)), None)
        if outside is not None:
            rule = f"must lead to an allowed address range, not to {outside}; see allowed in [probes]"
            raise InvalidRequest("address", url, rule)

    async def passes(self, url: str) -> bool:
        try:
            parts = _parsed(url)
            async with asyncio.timeout(self._timeout) as whole:
                found = await self._resolved(parts)
                if not all(self._ranges.may(each) for each in found):
                    return False
                return await self._one_answers(parts, found[:ADDRESSES_MOST], ends=whole.when() or 0.0)
        except (InvalidRequest, OSError, TimeoutError, ValueError):
            return False

    async def _resolved(self, parts: SplitResult) -> list[Address]:
        host = parts.hostname or ""
        with suppress(ValueError):
            return [ip_address(host)]
        return await self._names.addresses(host)

    async def _one_answers(self, parts: SplitResult, addresses: Sequence[Address], *, ends: float) -> bool:
        """Return whether the service answers with success. The first address that answers decides."""
        for number, address in enumerate(addresses):
            now = asyncio.get_running_loop().time()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout((ends - now) / (len(addresses) - number)):
                    return await self._answers(parts, address)
        return False

    async def _answers(self, parts: SplitResult, address: Address) -> bool:
        tls = self._tls if parts.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            str(address),
            parts.port or _PORTS[parts.scheme],
            limit=LINE_MOST,
            ssl=tls,
            server_hostname=parts.hostname if tls else None,
        )
        try:
            writer.write(_request(parts))
            await writer.drain()
            words = (await reader.readline()).split()
        finally:
            # Without goodbye: a peer that keeps silent would keep us waiting for its own.
            writer.transport.abort()
        if not words:
            raise ConnectionError(f"no answer from {address}")
        return len(words) > 1 and words[0].startswith(b"HTTP/") and int(words[1]) in _SUCCESS


def _parsed(url: str) -> SplitResult:
    rule = "must be a URL like http://10.0.0.7:8080/health"
    if len(url) > URL_MOST or not url.isprintable() or " " in url:
        raise InvalidRequest("address", url[:URL_MOST], rule)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        raise InvalidRequest("address", url, rule) from None
    if not usable or parts.username or parts.password or parts.fragment:
        raise InvalidRequest("address", url, rule)
    return parts


def _request(parts: SplitResult) -> bytes:
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (f"GET {path} HTTP/1.1", f"Host: {parts.netloc}", "User-Agent: muster-probe", "Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")
