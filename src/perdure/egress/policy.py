"""Which hosts may be called: public addresses on ports 80 and 443, and what the setting `egress_allow` adds.

It owns the rule and the grammar of the setting. It must not resolve names or open connections: it is asked with the
address a name resolved to, and that address is the one connected to.

    api.internal:8443       this name, wherever in private space it leads, on this port
    *.corp.example          every name below it, on 80 and 443
    10.1.0.0/16:*           these addresses on every port
    127.0.0.1:8000          this address and port; [::1]:8000 for IPv6

A name opens private, loopback and carrier-NAT addresses only. Link-local ones, where clouds hand out credentials, must
be listed as addresses: the owner of a name must not be able to point it there.
"""

from __future__ import annotations

import logging
import re
from ipaddress import ip_address, ip_network

import msgspec

from perdure.egress.addresses import LOOPBACK, PRIVATE, PUBLIC, SHARED, Address, Network, classify, unwrap
from perdure.egress.errors import EgressRefused
from perdure.egress.urls import Url, read_host
from perdure.errors import SettingsInvalid

logger = logging.getLogger("perdure.egress")

PORTS = frozenset({80, 443})
SETTING = "PERDURE_EGRESS_ALLOW"

_BY_NAME = frozenset({PRIVATE, LOOPBACK, SHARED})
_ENTRY = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:/[0-9]+)?)\]|([^\[\]:]+)|([0-9A-Fa-f:.]+(?:/[0-9]+)?))(?::([0-9]+|\*))?")


class Entry(msgspec.Struct, frozen=True):
    name: str = ""
    """A host; `.corp.example` means every name below it."""
    network: Network | None = None
    port: int | None = None
    """None: the ports that every call may use. 0: every port."""

    def has_port(self, port: int, usual: frozenset[int]) -> bool:
        return port in usual if self.port is None else self.port in (0, port)

    def has_host(self, url: Url) -> bool:
        if not self.name or url.address is not None:
            return False
        return url.host.endswith(self.name) if self.name.startswith(".") else url.host == self.name

    def has_address(self, address: Address) -> bool:
        network = self.network
        return network is not None and address.version == network.version and address in network


class Policy(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...] = ()
    ports: frozenset[int] = PORTS
    """The ports on which public addresses may be called."""

    @classmethod
    def parse(cls, text: str) -> Policy:
        """The policy of a setting: entries between commas or spaces. Raises SettingsInvalid with every bad one."""
        entries: list[Entry] = []
        problems: list[str] = []
        for word in text.replace(",", " ").split():
            try:
                entries.append(_read_entry(word))
            except ValueError as error:
                problems.append(f"{word!r}: {error}")
        if problems:
            raise SettingsInvalid(
                f"setting egress_allow: {'; '.join(problems)}; write host, address or network, and :port or :* where "
                "80 and 443 are not meant, such as api.internal:8443, 10.1.0.0/16:* or [::1]:8000"
            )
        return cls(tuple(entries))

    def check_port(self, url: Url) -> None:
        """Refuse a port before the name is looked up. Raises EgressRefused."""
        if url.port not in self.ports and not any(entry.has_port(url.port, self.ports) for entry in self.entries):
            raise self._refuse_port(url)

    def check(self, url: Url, address: Address) -> None:
        """Raise EgressRefused unless this address may be called for this URL."""
        address = unwrap(address)
        kind = classify(address)
        fitting = [
            entry
            for entry in self.entries
            if entry.has_address(address) or (entry.has_host(url) and (kind == PUBLIC or kind in _BY_NAME))
        ]
        if kind != PUBLIC and not fitting:
            named = "is" if url.address is not None else "leads to"
            # The same message for every kind: the author of the URL is not told what the internal network is made of.
            logger.warning("%s is refused: it %s a %s address", url.host, named, kind)
            raise EgressRefused(
                f"{url.shown} is refused: {url.host} {named} an address that is not public; "
                f"the operator of Perdure can allow it{_how(url)} (the log says which kind it is: a link-local one is listed as an address)"
            )
        usual = kind == PUBLIC and url.port in self.ports
        if not usual and not any(entry.has_port(url.port, self.ports) for entry in fitting):
            raise self._refuse_port(url)

    def _refuse_port(self, url: Url) -> EgressRefused:
        usual = ", ".join(str(port) for port in sorted(self.ports))
        return EgressRefused(
            f"{url.shown} is refused: port {url.port} is not one of {usual}; the operator of Perdure can allow it{_how(url)}"
        )


def _how(url: Url) -> str:
    """The line to type; what is allowed already goes before it, with a comma."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f": export {SETTING}='{host}:{url.port}'"


def _read_entry(word: str) -> Entry:
    match = _ENTRY.fullmatch(word)
    if match is None:
        raise ValueError("not understood")
    port = None if match[4] is None else 0 if match[4] == "*" else int(match[4])
    if match[4] == "0" or (port is not None and port > 65_535):
        raise ValueError("a port is a number from 1 to 65535, or *")
    text = match[1] or match[2] or match[3]
    if match[2] is None or "/" in text:
        return Entry(network=ip_network(text), port=port)
    if text.startswith("*."):
        text = text[1:]
    try:
        name, address = read_host(text.removeprefix("."))
    except EgressRefused as error:
        raise ValueError(error.message) from None
    if address is not None:
        return Entry(network=ip_network(ip_address(name)), port=port)
    return Entry(name=f".{name}" if text.startswith(".") else name, port=port)
