"""Where a Redis server is and how to be let in, from a URL. It opens nothing."""

from __future__ import annotations

import ssl
from typing import Any

import msgspec
from redis.connection import parse_url

from weft.errors import SettingsInvalid

PORT = 6379


class Address(msgspec.Struct, frozen=True):
    host: str = "localhost"
    port: int = PORT
    path: str = ""
    """Of a Unix socket; then host and port mean nothing."""
    username: str = ""
    password: str = ""
    database: int = 0
    tls: bool = False
    ca_file: str = ""

    def __str__(self) -> str:
        """Never with the password."""
        place = self.path or f"{self.host}:{self.port}"
        return f"{place}/{self.database}" if self.database else place

    def __repr__(self) -> str:
        return f"Address({self})"

    def tls_context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.ca_file or None) if self.tls else None


def parse(url: str) -> Address:
    """`redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, `unix:///path[?db=n]`."""
    try:
        found: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise SettingsInvalid(
            "the URL of Redis: expected redis://host:port/database, rediss://… or unix:///path"
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
    )
