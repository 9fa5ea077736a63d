"""The address of a Redis server and the credentials for it, read from a URL. It opens nothing."""

from __future__ import annotations

import re
import ssl
from typing import Any
from urllib.parse import urlsplit

import msgspec
from redis.connection import parse_url

from perdure.errors import SettingsInvalid

PORT = 6379


class Address(msgspec.Struct, frozen=True):
    host: str = "localhost"
    port: int = PORT
    path: str = ""
    """The path of a Unix socket; with one, host and port mean nothing."""
    username: str = ""
    password: str = ""
    database: int = 0
    tls: bool = False
    ca_file: str = ""
    others: tuple[tuple[str, int], ...] = ()
    """More servers of the same cluster, to ask when this one is away."""

    def __str__(self) -> str:
        """The place without the password."""
        place = self.path or ",".join(f"{host}:{port}" for host, port in ((self.host, self.port), *self.others))
        return f"{place}/{self.database}" if self.database else place

    def __repr__(self) -> str:
        return f"Address({self})"

    def at(self, host: str, port: int) -> Address:
        """The address of another server with the same credentials; a missing host is this one's."""
        if not port:  # it listens on no port, so it must be the server that was asked
            return self
        return msgspec.structs.replace(self, host=host or self.host, port=port, path="", others=())

    def each(self) -> tuple[Address, ...]:
        """The servers this address names, one by one."""
        alone = msgspec.structs.replace(self, others=())
        return (alone, *(alone.at(host, port) for host, port in self.others))

    def tls_context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.ca_file or None) if self.tls else None


def parse(url: str) -> Address:
    """`redis://[user:password@]host[:port][,host:port…][/database]`, `rediss://…` for TLS, `unix:///path[?db=n]`."""
    try:
        first, others = _split(url)
        found: dict[str, Any] = dict(parse_url(first))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise SettingsInvalid(
            "the URL of Redis: expected redis://host:port/database, rediss://… or unix:///path; "
            "of a cluster also several servers, redis://host:port,host:port"
        ) from error
    return Address(
        host=found.get("host") or "localhost",
        port=found.get("port") or PORT,
        path=found.get("path") or "",
        username=found.get("username") or "",
        password=found.get("password") or "",
        database=found.get("db") or 0,
        tls=url.startswith("rediss:"),
        ca_file=found.get("ssl_ca_certs") or "",
        others=others,
    )


def _split(url: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The URL with its first server only, and the other servers. Raises ValueError."""
    scheme, _, rest = url.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]  # urlsplit refuses several servers if one is in brackets
    user, at, places = authority.rpartition("@")
    first, *more = places.split(",")
    if not more:
        return url, ()
    others = [urlsplit(f"//{one}") for one in more]
    if not all(one.hostname for one in others):
        raise ValueError("a server without a name")
    return f"{scheme}://{user}{at}{first}{rest.removeprefix(authority)}", tuple(
        (one.hostname or "", one.port or PORT) for one in others
    )
