"""What kind of address an IP address is: public, or which of the special ones.

It is an allow-list: public is what the IANA registries leave over inside the unicast space, everything else has a name.
The standard library's `is_global` is not asked: in 3.11 it takes carrier NAT for public, and knows nothing of what
hides in NAT64, 6to4 and Teredo addresses. It must not know hosts, ports or what a policy allows.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PUBLIC = "public"
LOOPBACK = "loopback"
PRIVATE = "private"
LINK_LOCAL = "link-local"
SHARED = "carrier NAT"

# IANA IPv4 special-purpose registry, and multicast. By the registry, the anycast addresses in 192.0.0.0/24 are
# reachable, but they lead to the own gateway.
_SPECIAL_4 = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", PRIVATE),
        ("100.64.0.0/10", SHARED),
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", LINK_LOCAL),
        ("172.16.0.0/12", PRIVATE),
        ("192.0.0.0/24", "protocol"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4"),
        ("192.168.0.0/16", PRIVATE),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]

_UNICAST_6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")

# Names for what lies outside 2000::/3, and for what is special inside it.
_SPECIAL_6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", LOOPBACK),
        ("64:ff9b:1::/48", "local NAT64"),
        ("2001::/32", "Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2001::/23", "protocol"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", PRIVATE),
        ("fe80::/10", LINK_LOCAL),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
]


def classify(address: Address) -> str:
    """`public`, or the kind of special address it is."""
    address = unwrap(address)
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_4 if address in network), PUBLIC)
    if address in _NAT64:
        return classify(IPv4Address(int(address) & 0xFFFF_FFFF))
    kind = next((kind for network, kind in _SPECIAL_6 if address in network), "")
    return kind or (PUBLIC if address in _UNICAST_6 else "reserved")


def unwrap(address: Address) -> Address:
    """The IPv4 address inside an IPv4-mapped IPv6 one: to the kernel it is that address too."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
