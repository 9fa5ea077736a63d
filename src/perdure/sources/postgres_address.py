"""What the address of a PostgreSQL server in a trigger says, and all that a worker tells that server.

The driver fills what is missing from its environment: the user, the password, certificates and tickets of the worker itself. The
server is chosen by the author of a trigger, so everything is given and nothing is left to be filled in (X08).
"""

from __future__ import annotations

import ssl
import sys
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from perdure.sources import SourceRefused

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_KEYS = ("application_name", "sslmode")
"""The options that an address may have. Others name files of the worker, other servers or settings of the session."""


class ByName(ssl.SSLContext):
    """Verifies the certificate by the name that was written. The driver is told the address that was checked and dialled, and would
    verify by that one."""

    name = ""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.name or server_hostname, session)


class PostgresAddress(msgspec.Struct, frozen=True):
    host: str
    """As it is written, without brackets."""
    user: str
    password: str
    database: str
    sslmode: str
    application_name: str = ""

    def list_encryptions(self) -> tuple[ssl.SSLContext | bool, ...]:
        """The ways to connect, the first that the server takes. No context has a certificate of the worker."""
        match self.sslmode:
            case "disable":
                return (False,)
            case "require":
                return (_make_encryption(self.host),)
            case "verify-ca" | "verify-full":
                return (_make_encryption(self.host, verify=True, by_name=self.sslmode == "verify-full"),)
            case _:
                return _make_encryption(self.host), False

    def make_arguments(self) -> dict[str, Any]:
        """What `asyncpg.connect` is given besides host, port and encryption. An empty password is one: none would be looked up."""
        return {
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "direct_tls": False,
            "target_session_attrs": "any",
            "krbsrvname": "",
            # The library that this system lacks: a server that asks for a ticket of the worker gets an error.
            "gsslib": "gssapi" if sys.platform == "win32" else "sspi",
            "server_settings": {"application_name": self.application_name} if self.application_name else None,
        }


def read_postgres_address(url: str) -> PostgresAddress:
    """Raises SourceRefused, whose message holds nothing of the address but the names of its options."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise SourceRefused("the address must be postgresql://USER@HOST…, with a host") from None
    unknown = sorted(options.keys() - set(_KEYS))
    if unknown:
        raise SourceRefused(
            f"the address of the database has the option {unknown[0][:100]!r}; it may have {' and '.join(_KEYS)}"
        )
    mode = options.get("sslmode", "prefer")
    if mode not in SSL_MODES:
        raise SourceRefused(f"sslmode of the address of the database is one of {', '.join(SSL_MODES)}")
    user = unquote(parts.username or "")
    if not user:
        raise SourceRefused("the address of the database names no user; write postgresql://USER@HOST/DATABASE")
    database = unquote(parts.path.removeprefix("/")) or user
    found = (user, unquote(parts.password or ""), database, options.get("application_name", ""))
    if any("\0" in one for one in found):
        raise SourceRefused("the address of the database has a NUL character")
    return PostgresAddress(parts.hostname or "", found[0], found[1], found[2], mode, found[3])


def _make_encryption(host: str, *, verify: bool = False, by_name: bool = False) -> ssl.SSLContext:
    context = ByName(ssl.PROTOCOL_TLS_CLIENT)
    context.name = host
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = by_name
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if verify:
        context.load_default_certs()
    if ssl.HAS_ALPN:
        context.set_alpn_protocols(["postgresql"])
    return context
