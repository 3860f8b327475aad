"""Say where probes may go: the allowed ranges, without the addresses where clouds give secrets to machines.

Such an address is asked only if it was allowed by itself, not as a part of a larger range. Many of them lie
inside private networks.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

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
