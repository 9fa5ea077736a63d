"""Sources from what a trigger says of them: the one place that knows which kind needs what.

Addresses come from the definition and from secrets, never from items. A server is connected to by the rules for outgoing
calls, at the address that was checked; files are under the `folder_roots`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from perdure import egress
from perdure.clock import Clock
from perdure.egress.client import Request
from perdure.egress.errors import EgressError, EgressRefused
from perdure.egress.network import resolve
from perdure.egress.urls import Url, parse
from perdure.model.trigger_sources import Folder, Poll, Stream, Table
from perdure.runtime.metered_relay import MeteredRelay, RelayedConnection
from perdure.runtime.poll_handler import call
from perdure.sources import NAMED, Source, SourceFailed, SourceRefused
from perdure.sources.local_folder import FolderSource
from perdure.sources.object_folder import Fetched, ObjectFolderSource
from perdure.sources.postgres_address import read_postgres_address
from perdure.sources.postgres_table import PostgresTableSource
from perdure.sources.redis_stream import RedisStreamSource
from perdure.sources.sqlite_table import SqliteTableSource

GROUP = "perdure.triggers"
CONNECT_SECONDS = 10.0
_PORTS = {"postgresql": 5432, "postgres": 5432, "redis": 6379, "rediss": 6379}


class SourceKinds:
    def __init__(self, roots: Sequence[str], clock: Clock) -> None:
        self._roots = roots
        self._clock = clock

    async def open(self, said: dict[str, Any]) -> Source:
        """The source that a trigger names. Raises SourceRefused, SourceFailed."""
        try:
            spec: Folder | Table | Stream | Poll = msgspec.convert(said, Folder | Table | Stream | Poll)
        except msgspec.ValidationError as error:
            raise SourceRefused(f"the source is not understood: {error}") from None
        try:
            return await self._open(spec)
        except ModuleNotFoundError as error:
            raise SourceRefused(
                f"this worker has no {error.name}; install perdure[distributed] where it runs"
            ) from None

    async def _open(self, spec: Folder | Table | Stream | Poll) -> Source:
        match spec:
            case Folder() if spec.url.startswith("s3:"):
                return ObjectFolderSource(spec, _fetch, self._clock)
            case Folder():
                return FolderSource(spec, self._roots, self._clock)
            case Table():
                return self._open_table(spec)
            case Stream():
                return await _open_stream(spec)
            case Poll():
                return await _open_custom(spec)

    def _open_table(self, spec: Table) -> Source:
        scheme = spec.database.partition(":")[0]
        if scheme == "sqlite":
            return SqliteTableSource(spec, spec.database, self._roots, self._clock)
        if scheme not in ("postgresql", "postgres"):
            raise SourceRefused("the database of a table is sqlite:///… or postgresql://…")
        import asyncpg  # type: ignore[import-untyped]  # noqa: F401  (said at once if it is not there)

        address = read_postgres_address(spec.database)

        async def connect() -> Any:
            host, port = await check_address(spec.database)
            limits: dict[str, Any] = {"timeout": CONNECT_SECONDS, "command_timeout": 60, "statement_cache_size": 0}
            *better, last = address.list_encryptions()
            for encryption in better:
                with suppress(ConnectionError):  # it does not encrypt
                    return await _connect(host, port, ssl=encryption, **address.make_arguments(), **limits)
            return await _connect(host, port, ssl=last, **address.make_arguments(), **limits)

        # The server is the author's: what the driver raises where it lies is any error there is.
        return PostgresTableSource(spec, connect, self._clock, (Exception,), lambda made: bool(made.is_worn))


async def _connect(host: str, port: int, **how: Any) -> RelayedConnection:
    """A connection to a PostgreSQL server, which sends no more than is read of it."""
    import asyncpg

    async with asyncio.timeout(CONNECT_SECONDS):
        relay = await MeteredRelay.open(host, port)
    try:
        return RelayedConnection(await asyncpg.connect(host="127.0.0.1", port=relay.port, **how), relay)
    except BaseException:
        relay.close()
        raise


async def _fetch(url: str, headers: dict[str, str]) -> Fetched:
    """Get a part of a bucket. What is read of one answer is bounded."""
    try:
        asked = {**headers, "accept-encoding": "identity"}
        answer = await egress.shared().send(Request(url=parse(url), headers=asked, redirects=0, as_sent=True))
    except EgressRefused as error:
        raise SourceRefused(f"the bucket may not be called: {error.message}") from None
    except EgressError as error:
        raise SourceFailed(f"the bucket cannot be read: {error.message}") from None
    return Fetched(answer.status, answer.body)


class _RedisSource(RedisStreamSource):
    """A stream that closes its client."""

    def __init__(self, spec: Stream, client: Any, too_large: Any) -> None:
        # The server is the author's: what the driver raises where it lies is any error there is.
        super().__init__(spec, client, (Exception,), too_large)
        self._own = client

    async def close(self) -> None:
        await self._own.aclose()


async def _open_stream(spec: Stream) -> Source:
    import redis.asyncio as redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    from perdure.runtime.stream_connection import AnswerTooLarge, EncryptedStreamConnection, StreamConnection

    parts = _split(spec.redis, ("redis", "rediss"))
    options: dict[str, Any] = {"socket_timeout": CONNECT_SECONDS, "socket_connect_timeout": CONNECT_SECONDS}
    kind: type[StreamConnection] = StreamConnection
    if parts.scheme == "rediss":  # the address is dialled, and the certificate must be that of the name
        kind, options = EncryptedStreamConnection, {**options, "server_name": parts.hostname}
    host, port = await check_address(spec.redis)
    options |= {
        "host": host,
        "port": port,
        "username": unquote(parts.username or "") or None,
        "password": unquote(parts.password or "") or None,
        "db": int(parts.path.strip("/") or 0) if parts.path.strip("/").isdecimal() or not parts.path.strip("/") else 0,
        "retry": Retry(NoBackoff(), 0),  # a poll that failed is sent again by itself
    }
    client = redis.Redis.from_pool(redis.ConnectionPool(kind, **options))
    return _RedisSource(spec, client, (AnswerTooLarge,))


async def _open_custom(spec: Poll) -> Source:
    made = get_class(spec.type)()
    await call(made.open, dict(spec.config))
    return made


def list_sources() -> tuple[str, ...]:
    """The names of the custom sources that this process has."""
    return tuple(sorted({*NAMED, *_list_entries()}))


def get_class(name: str) -> type[Source]:
    """The class that a custom source names: one that was imported, or one that an installed distribution brings. Raises
    SourceRefused."""
    found: Any = NAMED.get(name)
    if found is None:
        entry = _list_entries().get(name)
        if entry is None:
            known = ", ".join(list_sources()) or "none"
            message = f"there is no source {name!r} here (known: {known}); install it, or give the module with --import"
            raise SourceRefused(message)
        try:
            found = entry.load()
        except Exception as error:  # whatever the module does
            raise SourceRefused(f"source {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, Source):
        raise SourceRefused(f"{name!r} is no perdure.Source")
    return found


@functools.lru_cache(maxsize=1)
def _list_entries() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _split(url: str, schemes: Sequence[str]) -> Any:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = None, None
    if parts is None or parts.scheme not in schemes or not parts.hostname or (port is not None and not port):
        raise SourceRefused(f"the address must be {schemes[0]}://HOST…, with a host")
    return parts


async def check_address(url: str) -> tuple[str, int]:
    """The address and the port of the server that a URL names, if it may be called. Raises SourceRefused, SourceFailed. The message
    holds neither a password nor what is behind the name."""
    parts = _split(url, tuple(_PORTS))
    host, port = parts.hostname.lower(), parts.port or _PORTS[parts.scheme]
    try:
        literal = ip_address(host)
    except ValueError:
        literal = None
    known = Url(scheme="http", host=host, port=port, path="/", address=literal)
    try:
        policy = egress.get_policy()
        policy.check_port(known)
        found = [literal] if literal is not None else [ip_address(one) for one in await resolve(host, port)]
        for one in found:
            policy.check(known, one)
    except EgressRefused:
        raise SourceRefused(f"{host}:{port} may not be called; the setting egress_allow can list it") from None
    except OSError:
        raise SourceFailed(f"{host} cannot be resolved; check the name, and that DNS answers") from None
    return str(found[0]), port
