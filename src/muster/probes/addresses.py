"""Resolve the names of services, and say where probes may go.

A look-up can't be cancelled. So each has its own thread, there is at most one per name, and callers wait a
bounded time. After that, the last known addresses are good enough.

Probes go to the allowed ranges, without the addresses where clouds give secrets to machines. Such an address
is asked only if it was allowed by itself, not as a part of a larger range. Many of them lie inside private
networks.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

METADATA = (
    "169.254.0.0/16",  # link-local: nearly all clouds
    "fe80::/10",
    "fd00:ec2::/32",  # AWS: instance metadata, pod identity, DNS, time
    "fd20:ce::/32",  # Google Cloud
    "168.63.129.16/32",  # Azure
    "192.0.0.192/32",  # Oracle
    "fd00:c1::a9fe:a9fe/128",
    "100.100.100.200/32",  # Alibaba
    "fd00:100::100:200/128",
    "fd00:a9fe:a9fe::1/128",  # Akamai
    "fd00:42::42/128",  # Scaleway
)
_METADATA: tuple[Network, ...] = tuple(ip_network(each) for each in METADATA)
_NAT64 = IPv6Network("64:ff9b::/96")
_IPV4_BITS = 0xFFFFFFFF
RESOLVERS = 256
"""Names that may be looked up at once: as many as there are probes at once."""
REMEMBERED = 300.0
"""Seconds for which an answer serves while no newer one is to be had."""
KNOWN_MOST = 10_000
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class Ranges:
    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed: tuple[Network, ...] = tuple(ip_network(each) for each in allowed)

    def may(self, address: Address) -> bool:
        # An IPv4 address in IPv6 clothes is the IPv4 address.
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        meant = mapped or address
        around = [network for network in self._allowed if meant in network]
        secret = next((network for network in _METADATA if _translated(meant) in network), None)
        if secret is None:
            return bool(around)
        return any(_inside(network, secret) for network in around)


def _translated(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address of a translator."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        return IPv4Address(int(address) & _IPV4_BITS)
    return address


def _inside(network: Network, outer: Network) -> bool:
    return network.network_address in outer and network.broadcast_address in outer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    at: float
    answer: asyncio.Future[list[Address]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    at: float
    addresses: list[Address]


class Names:
    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._resolvers = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="muster-probe-dns")
        self._asked: dict[str, _Asked] = {}
        self._known: dict[str, _Known] = {}
        """The longest unanswered first."""

    async def addresses(self, host: str) -> list[Address]:
        """Return the addresses of a name. Raises OSError if it has none, TimeoutError if that isn't known in
        time."""
        now = asyncio.get_running_loop().time()
        asked = self._asked.get(host) or self._ask(host, now)
        if (left := asked.at + self._patience - now) > 0:
            await asyncio.wait((asked.answer,), timeout=left)
        if asked.answer.done() and not _unsettled(asked.answer):
            return asked.answer.result()
        known = self._known.get(host)
        if known is not None and now - known.at <= REMEMBERED:
            return known.addresses
        if asked.answer.done():
            return asked.answer.result()
        raise TimeoutError(f"cannot look up {host} in time")

    def _ask(self, host: str, now: float) -> _Asked:
        answer = asyncio.get_running_loop().run_in_executor(self._resolvers, resolve, host)
        asked = self._asked[host] = _Asked(at=now, answer=answer)
        answer.add_done_callback(lambda done: self._answered(host, done))
        return asked

    def _answered(self, host: str, answer: asyncio.Future[list[Address]]) -> None:
        del self._asked[host]
        if answer.cancelled() or _unsettled(answer):
            return
        self._known.pop(host, None)
        if answer.exception() is not None:
            return
        at = answer.get_loop().time()
        self._known[host] = _Known(at=at, addresses=answer.result())
        if len(self._known) > KNOWN_MOST:
            del self._known[next(iter(self._known))]


def _unsettled(answer: asyncio.Future[list[Address]]) -> bool:
    """Return whether a look-up failed for another reason than that the name doesn't exist."""
    error = answer.exception()
    return error is not None and not (isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME)


def resolve(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:  # an empty or too long part of a name
        raise socket.gaierror(socket.EAI_NONAME, f"{host!r} is no name of a host") from error
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
