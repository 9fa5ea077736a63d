"""Addresses against the registries of IANA, written down here row by row and independent of the code."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.egress.addresses import PUBLIC, classify, unwrap

# Special-purpose registries of IANA, with their column "globally reachable"; N/A counts as no. Multicast has registries of
# its own.
REGISTRY = {
    "0.0.0.0/8": False,
    "10.0.0.0/8": False,
    "100.64.0.0/10": False,
    "127.0.0.0/8": False,
    "169.254.0.0/16": False,
    "172.16.0.0/12": False,
    "192.0.0.0/24": False,
    "192.0.0.0/29": False,
    "192.0.0.8/32": False,
    "192.0.0.9/32": True,
    "192.0.0.10/32": True,
    "192.0.0.170/32": False,
    "192.0.0.171/32": False,
    "192.0.2.0/24": False,
    "192.31.196.0/24": True,
    "192.52.193.0/24": True,
    "192.88.99.0/24": False,
    "192.88.99.2/32": False,
    "192.168.0.0/16": False,
    "192.175.48.0/24": True,
    "198.18.0.0/15": False,
    "198.51.100.0/24": False,
    "203.0.113.0/24": False,
    "224.0.0.0/4": False,
    "240.0.0.0/4": False,
    "255.255.255.255/32": False,
    "::/128": False,
    "::1/128": False,
    "::ffff:0:0/96": False,
    "64:ff9b::/96": True,
    "64:ff9b:1::/48": False,
    "100::/64": False,
    "100:0:0:1::/64": False,
    "2001::/23": False,
    "2001::/32": False,
    "2001:1::1/128": True,
    "2001:1::2/128": True,
    "2001:1::3/128": True,
    "2001:2::/48": False,
    "2001:3::/32": True,
    "2001:4:112::/48": True,
    "2001:10::/28": False,
    "2001:20::/28": True,
    "2001:30::/28": True,
    "2001:db8::/32": False,
    "2002::/16": False,
    "2620:4f:8000::/48": True,
    "3fff::/20": False,
    "5f00::/16": False,
    "fc00::/7": False,
    "fe80::/10": False,
    "fec0::/10": False,
    "ff00::/8": False,
}
ROWS = [(ip_network(network), reachable) for network, reachable in REGISTRY.items()]

# Refused although the registry calls them reachable: they lead to one's own gateway, or are identifiers, not hosts.
STRICTER = [ip_network(network) for network in ("192.0.0.0/24", "2001::/23")]


def is_reachable(address) -> bool:
    """The most specific row decides; without one, unicast space is reachable."""
    mapped = address.ipv4_mapped if address.version == 6 else None
    if mapped is not None:
        return is_reachable(mapped)
    if address in IPv6Network("64:ff9b::/96"):
        return is_reachable(IPv4Address(int(address) & 0xFFFFFFFF))
    rows = [row for row in ROWS if address in row[0]]
    if rows:
        return max(rows, key=lambda row: row[0].prefixlen)[1]
    return address.version == 4 or address in IPv6Network("2000::/3")


def in_network(network: IPv4Network | IPv6Network) -> st.SearchStrategy:
    first, last = int(network.network_address), int(network.broadcast_address)
    number = st.one_of(st.integers(first, last), st.sampled_from([first, last, max(first - 1, 0), last + 1]))
    top = 2**network.max_prefixlen - 1
    kind = IPv4Address if network.version == 4 else IPv6Address
    return number.map(lambda n: kind(min(n, top)))


anything = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.integers(2**125, 2**126 - 1).map(IPv6Address),
    st.integers(0, 2**32 - 1).map(lambda n: IPv6Address((0xFFFF << 32) | n)),
    st.integers(0, 2**32 - 1).map(lambda n: IPv6Address((0x64FF9B << 96) | n)),
    st.sampled_from(ROWS).flatmap(lambda row: in_network(row[0])),
)


@given(anything)
def test_nothing_is_public_that_the_registries_do_not_call_reachable(address):
    if classify(address) == PUBLIC:
        assert is_reachable(address)


@given(anything)
def test_everything_the_registries_call_reachable_is_public_but_for_the_stricter_ones(address):
    plain = unwrap(address)
    if is_reachable(address) and not any(plain in network for network in STRICTER):
        inner = IPv4Address(int(plain) & 0xFFFFFFFF) if plain in IPv6Network("64:ff9b::/96") else plain
        if not any(inner in network for network in STRICTER):
            assert classify(address) == PUBLIC


@pytest.mark.parametrize("network", [row[0] for row in ROWS], ids=str)
def test_both_ends_of_every_row_are_as_the_registry_says(network):
    for address in (network.network_address, network.broadcast_address):
        strict = any(address in stricter for stricter in STRICTER)
        assert (classify(address) == PUBLIC) == (is_reachable(address) and not strict)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("8.8.8.8", "public"),
        ("93.184.216.34", "public"),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", "public"),
        ("64:ff9b::808:808", "public"),
        ("::ffff:8.8.8.8", "public"),
        ("127.0.0.1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("2002:a9fe:a9fe::", "6to4"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo"),
        ("100.64.0.1", "carrier NAT"),
        ("224.0.0.1", "multicast"),
        ("::127.0.0.1", "reserved"),
        ("fd00:ec2::254", "private"),
        ("4000::1", "reserved"),
    ],
)
def test_special_addresses_are_called_by_their_names(address, kind):
    assert classify(ip_address(address)) == kind
