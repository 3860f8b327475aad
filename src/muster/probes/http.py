"""Probes over HTTP: one request, one status line, no redirects, and only to addresses in the allowed ranges.

The name is resolved here and the connection made to the address that was checked, so that a name which
resolves to something else a moment later leads nowhere. Nothing secret is sent, and nothing but the status is
read; so a certificate that nobody vouches for is as good as another.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, urlsplit

from muster.domain.errors import InvalidRequest

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
LINE_MOST = 4096
URL_MOST = 2048
RESOLVERS = 32
"""Names that may be looked up at once."""
_PORTS = {"http": 80, "https": 443}
_SUCCESS = range(200, 300)


class HttpProber:
    def __init__(self, *, allowed: Sequence[str], timeout: float) -> None:
        self._allowed: tuple[Network, ...] = tuple(ip_network(each) for each in allowed)
        self._timeout = timeout
        self._resolvers = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="muster-probe-dns")
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    async def check(self, url: str) -> None:
        parts = _parsed(url)
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._resolved(parts)
        except (OSError, TimeoutError):
            return
        outside = next((each for each in found if not self._may(each)), None)
        if outside is not None:
            rule = f"must lead to an allowed address range, not to {outside}; see allowed in [probes]"
            raise InvalidRequest("address", url, rule)

    async def passes(self, url: str) -> bool:
        try:
            parts = _parsed(url)
            async with asyncio.timeout(self._timeout):
                found = await self._resolved(parts)
                if not found or not all(self._may(each) for each in found):
                    return False
                return await self._answers(parts, found[0])
        except (InvalidRequest, OSError, TimeoutError, ValueError):
            return False

    def _may(self, address: Address) -> bool:
        # An IPv4 address in IPv6 clothes is the IPv4 address.
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return any((mapped or address) in network for network in self._allowed)

    async def _resolved(self, parts: SplitResult) -> list[Address]:
        host = parts.hostname or ""
        with suppress(ValueError):
            return [ip_address(host)]
        # Threads of its own: names that hang must not hold up whoever else needs one.
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._resolvers, resolve, host, _port(parts))
        return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]

    async def _answers(self, parts: SplitResult, address: Address) -> bool:
        tls = self._tls if parts.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            str(address),
            _port(parts),
            limit=LINE_MOST,
            ssl=tls,
            server_hostname=parts.hostname if tls else None,
        )
        try:
            writer.write(_request(parts))
            await writer.drain()
            words = (await reader.readline()).split()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return len(words) > 1 and words[0].startswith(b"HTTP/") and int(words[1]) in _SUCCESS


def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    return list(socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP))


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


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def _request(parts: SplitResult) -> bytes:
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (f"GET {path} HTTP/1.1", f"Host: {parts.netloc}", "User-Agent: muster-probe", "Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")
