"""URLs of outgoing calls, read strictly: a URL that two programs could read in two ways is refused.

It owns the one reading everything else works with: the host that is checked is the host that is connected to. Refused
are user names, other schemes, numbers that some programs take for addresses, zones, trailing dots, backslashes, control
characters and look-alike letters. It must not know which hosts are allowed.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, urlencode

import msgspec

from perdure.egress.addresses import Address
from perdure.egress.errors import EgressRefused
from perdure.plain_text import cut, hide

MAX_LENGTH = 8_000
DEFAULT_PORTS = {"http": 80, "https": 443}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"//([^/?#]*)")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")

_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = _PATH_SAFE + "?"


class Url(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    """The host in lower case, ASCII; an IPv6 address without brackets."""
    port: int
    path: str
    query: str = ""
    address: Address | None = None
    """The address, if the host is one."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL for messages: without query values, and without too much of the path."""
        path, _, query = hide(self.target).partition("?")
        names = [part.partition("=")[0] for part in query.split("&")] if query else []
        shown = f"?{'&'.join(f'{cut(name, 40)}=***' for name in names[:10])}" if names else ""
        return f"{self.scheme}://{hide(self.authority)}{cut(path, 100)}{shown}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def add_query(self, pairs: list[tuple[str, str]]) -> Url:
        if not pairs:
            return self
        added = urlencode(pairs, quote_via=quote)
        return msgspec.structs.replace(self, query=f"{self.query}&{added}" if self.query else added)

    def join(self, location: str) -> Url:
        """The URL that a redirect leads to."""
        if _SCHEME.match(location):
            return parse(location)
        if location.startswith("//"):
            return parse(f"{self.scheme}:{location}")
        _check_characters(location)
        rest = location.partition("#")[0]
        if not rest:
            raise EgressRefused("the redirect names no URL")
        path, question, query = rest.partition("?")
        if not path:
            path, query = self.path, query if question else self.query
        elif not path.startswith("/"):
            path = f"{self.path.rpartition('/')[0]}/{path}"
        return msgspec.structs.replace(self, path=_without_dots(_quote_path(path)), query=_quote_query(query))


def parse(text: str) -> Url:
    """The URL read strictly. Raises EgressRefused; its message holds nothing of the URL that could be secret."""
    if len(text) > MAX_LENGTH:
        raise EgressRefused(f"the URL has {len(text)} characters, {MAX_LENGTH} are allowed; put data into the body")
    _check_characters(text)
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() not in DEFAULT_PORTS:
        raise EgressRefused("the URL must begin with http:// or https://")
    name = scheme[1].lower()
    authority = _AUTHORITY.match(text, scheme.end())
    if authority is None:
        raise EgressRefused(f"the URL must begin with {name}:// and a host")
    if "@" in authority[1]:
        raise EgressRefused("the URL has a user name or password in it; use `auth` instead")
    host, address, port = _read_authority(authority[1])
    rest = text[authority.end() :].partition("#")[0]
    path, _, query = rest.partition("?")
    return Url(
        scheme=name,
        host=host,
        port=port or DEFAULT_PORTS[name],
        path=_quote_path(path or "/"),
        query=_quote_query(query),
        address=address,
    )


def _check_characters(text: str) -> None:
    if _CONTROL.search(text) or text != text.strip():
        raise EgressRefused("the URL has a control character, a line break, or a space at an end")
    if "\\" in text.partition("?")[0]:
        raise EgressRefused("the URL has a backslash; programs differ in what it means: write / or %5C")


def _read_authority(text: str) -> tuple[str, Address | None, int | None]:
    if text.startswith("["):
        literal, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise EgressRefused("the host has unbalanced brackets")
        host, address = _read_ipv6(literal)
        return host, address, _read_port(rest[1:]) if rest else None
    host, colon, port = text.partition(":")
    number = _read_port(port) if colon else None
    if not host:
        raise EgressRefused("the URL has no host")
    name, found = read_host(host)
    return name, found, number


def _read_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65_535:
        raise EgressRefused("the port must be a number from 1 to 65535, without leading zeros")
    return int(text)


def _read_ipv6(text: str) -> tuple[str, Address]:
    if "%" in text:
        raise EgressRefused("the host has a zone id; addresses with a zone are not accepted")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise EgressRefused("the host in brackets is not an IPv6 address") from None
    return str(address), address


def read_host(text: str) -> tuple[str, Address | None]:
    """A name in lower case, or an IPv4 address in its one plain form."""
    name = text.lower() if text.isascii() else _read_idna(text)
    labels = name.split(".")
    if labels[-1] == "":
        raise EgressRefused("the host ends with a dot; leave it out")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return name, IPv4Address(name)
        except AddressValueError:
            raise EgressRefused("the host is a number; write an address as four plain decimal numbers") from None
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise EgressRefused("the host is not a name: letters, digits, '-' and '_' in parts of at most 63, with dots")
    if any(label.startswith("xn--") for label in labels):
        _check_idna(name)
    return name, None


def _read_idna(text: str) -> str:
    """International names by the strict rules of 2008: nothing is mapped, so no letter passes for another."""
    import idna

    lowered = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    try:
        return idna.encode(lowered, strict=True, uts46=False).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise EgressRefused("the host has letters that are not allowed in international names") from None


def _check_idna(name: str) -> None:
    import idna

    try:
        idna.decode(name, strict=True, uts46=False)
    except (idna.IDNAError, UnicodeError):
        raise EgressRefused("the host has a part that begins with xn-- and is not an international name") from None


def _quote_path(path: str) -> str:
    return _quote(path, _PATH_SAFE)


def _quote_query(query: str) -> str:
    return _quote(query, _QUERY_SAFE)


def _quote(text: str, safe: str) -> str:
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError:
        raise EgressRefused("the URL is not valid Unicode") from None


def _without_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return "/" + "/".join(kept)
