"""Sources as a worker opens them: by what a trigger says, by the rules for outgoing calls, on real servers."""

from __future__ import annotations

import asyncio
import ssl
import sys
from types import SimpleNamespace
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis.asyncio

from perdure import egress
from perdure.clock import SystemClock
from perdure.egress.policy import Policy
from perdure.runtime.source_kinds import SourceKinds, check_address, get_class
from perdure.sources import Source, SourceFailed, SourceRefused
from perdure.sources.postgres_address import read_postgres_address
from tests.attack.marks import attack
from tests.egress.test_client import make_certificate
from tests.waiting import until_true

KEY = "perdure-test-kinds"


@pytest.fixture
def kinds(tmp_path):
    return SourceKinds((str(tmp_path),), SystemClock())


@pytest.fixture
def allowed():
    egress.configure(Policy.parse("127.0.0.1:* localhost:*"))
    yield
    egress.configure(None)


@pytest.fixture
def closed():
    egress.configure(Policy())
    yield
    egress.configure(None)


async def test_a_table_of_postgresql_is_read_through_a_connection_that_writes_nothing(kinds, allowed, postgres_servers):
    server = postgres_servers.get()
    url = server.url(await server.create_database(), tcp=True)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY, what text)")
        await connection.execute("INSERT INTO orders (what) SELECT 'w' || n FROM generate_series(1, 3) n")
        spec = {"kind": "table", "database": url, "table": "orders", "cursor": ["id"], "from": "start", "settle": 0}
        source = await kinds.open(spec)
        try:
            found: list = []

            async def read() -> bool:
                polled = await source.poll(None)
                found[:] = [item.data["what"] for item in polled.items]
                return len(found) == 3

            await until_true(read, "the rows are read")
            assert found == ["w1", "w2", "w3"]
            inner = source._connection
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await inner.execute("INSERT INTO orders (what) VALUES ('x')")
        finally:
            await source.close()
    finally:
        await connection.close()


async def test_entries_of_a_redis_stream_are_read(kinds, allowed, redis_server):
    address = str(redis_server.socket)
    with redis_server.proxy() as proxy:
        async with redis.asyncio.Redis(unix_socket_path=address) as client:
            await client.delete(KEY)
            await client.xadd(KEY, {"n": "1"})
            url = f"redis://{proxy.host}:{proxy.port}"
            source = await kinds.open({"kind": "stream", "redis": url, "key": KEY, "from": "start"})
            try:
                polled = await source.poll(None)
                assert len(polled.items) == 1
            finally:
                await source.close()
                await client.delete(KEY)


@pytest.mark.parametrize(
    "query",
    [
        "host=10.0.0.7&port=1",
        "passfile=/etc/passwd",
        "sslkey=/k",
        "service=x",
        "user=x",
        "search_path=x",
        "sslmode=any",
        "x",
    ],
)
async def test_the_query_of_a_url_leads_nowhere_else(kinds, allowed, query):
    url = f"postgresql://u@127.0.0.1:5432/d?{query}"
    with pytest.raises(SourceRefused, match="address"):
        await kinds.open({"kind": "table", "database": url, "table": "nothing", "cursor": ["id"]})


class _Asking:
    """A server that encrypts nothing, asks for the password in clear text, and keeps what it is told."""

    def __init__(self, asked: int = 3) -> None:
        self.told: list[bytes] = []
        self._asked = asked

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                message = await reader.readexactly(size - 4)
                if message == (80877103).to_bytes(4):  # may it be encrypted?
                    writer.write(b"N")
                    continue
                self.told.append(message)
                writer.write(b"R" + (8).to_bytes(4) + self._asked.to_bytes(4))
                await reader.readexactly(1)
                size = int.from_bytes(await reader.readexactly(4))
                self.told.append(await reader.readexactly(size - 4))
                return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller has gone
        finally:
            writer.close()


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """A worker with credentials of its own, in every place where a driver looks for some."""
    own = {"PGUSER": "ownuser", "PGPASSWORD": "ownword", "PGDATABASE": "owndata", "PGSERVICE": "own"}
    files = {
        "PGPASSFILE": "*:*:*:*:ownword\n",
        "PGSERVICEFILE": "[own]\nuser=ownuser\npassword=ownword\n",
        "PGSSLCERT": "own",
        "PGSSLKEY": "own",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        own[name] = str(path)
    for name, value in own.items():
        monkeypatch.setenv(name, value)


@attack("X08", "a table on a server of the author's, which asks the worker for a password")
@pytest.mark.parametrize(
    ("login", "told"),
    [("u@", b"\0"), ("u:@", b"\0"), ("u%40x:p%2Fw@", b"p/w\0")],
)
async def test_a_worker_tells_a_database_nothing_of_its_own(kinds, allowed, worker, login, told):
    server = _Asking()
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        spec = {"kind": "table", "database": f"postgresql://{login}127.0.0.1:{port}", "table": "t", "cursor": ["id"]}
        source = await kinds.open(spec)
        with pytest.raises(SourceFailed):
            await source.poll(None)
        await source.close()
    assert server.told[-1] == told
    user = login.partition(":")[0].rstrip("@").replace("%40", "@").encode()
    assert b"user\0" + user + b"\0database\0" + user + b"\0" in server.told[0]
    assert b"own" not in b"".join(server.told)


@attack("X08", "a table whose address names no user, so that the worker's would be told")
async def test_a_database_without_a_user_is_refused(kinds, allowed, worker):
    spec = {"kind": "table", "database": "postgresql://127.0.0.1:5999/d", "table": "t", "cursor": ["id"]}
    with pytest.raises(SourceRefused, match="names no user"):
        await kinds.open(spec)


@attack("X08", "a server that asks for a Kerberos ticket of the worker")
async def test_a_worker_has_no_ticket_for_a_database(kinds, allowed, monkeypatch):
    def step(*_: object, **__: object) -> None:
        raise AssertionError("a ticket was asked for")

    monkeypatch.setitem(
        sys.modules, "gssapi", SimpleNamespace(Name=step, NameType=SimpleNamespace(hostbased_service=1))
    )
    server = _Asking(7)
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        spec = {"kind": "table", "database": f"postgresql://u@127.0.0.1:{port}", "table": "t", "cursor": ["id"]}
        source = await kinds.open(spec)
        with pytest.raises(SourceFailed):
            await source.poll(None)
        await source.close()
    assert len(server.told) == 1


@pytest.mark.parametrize(
    ("mode", "ways"), [("disable", 1), ("allow", 2), ("prefer", 2), ("require", 1), ("verify-ca", 1)]
)
def test_no_way_to_encrypt_has_a_certificate_of_the_worker(worker, mode, ways):
    found = read_postgres_address(f"postgresql://u@h/d?sslmode={mode}").list_encryptions()
    assert len(found) == ways
    assert all(one is False or isinstance(one, ssl.SSLContext) for one in found)
    first = found[0]
    assert isinstance(first, ssl.SSLContext) == (mode != "disable")
    if isinstance(first, ssl.SSLContext):
        assert first.verify_mode == (ssl.CERT_REQUIRED if mode == "verify-ca" else ssl.CERT_NONE)


async def test_the_login_of_a_stream_is_written_as_in_any_url(kinds, allowed):
    source = await kinds.open(
        {"kind": "stream", "redis": "redis://u%40x:p%2Fw@127.0.0.1:1/2?db=7&username=x", "key": "k"}
    )
    given = source._own.connection_pool.connection_kwargs
    assert (given["username"], given["password"], given["db"]) == ("u@x", "p/w", 2)
    await source.close()


@pytest.mark.parametrize(
    "url", ["postgresql://u:word@127.0.0.1:5432/x", "redis://:word@10.0.0.7:6379", "postgresql://u:word@[::1]/x"]
)
async def test_a_server_inside_is_not_called_and_no_password_is_told(closed, url):
    with pytest.raises(SourceRefused, match="egress_allow") as refused:
        await check_address(url)
    assert "word" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["postgresql:///x?host=/tmp", "redis:///0", "mysql://h/x", "postgresql://h:99999/x", ""]
)
async def test_an_address_without_a_host_is_no_address(allowed, url):
    with pytest.raises(SourceRefused, match="with a host"):
        await check_address(url)


@pytest.mark.parametrize(
    "spec", [{"kind": "folder"}, {"kind": "webhook"}, {}, {"kind": "table", "database": "mysql://h"}]
)
async def test_what_is_no_source_is_refused(kinds, spec):
    with pytest.raises(SourceRefused):
        await kinds.open(spec)


def test_a_custom_source_is_found_by_its_name_and_must_be_one():
    class Mine(Source, name="kinds_mine"):
        pass

    assert get_class("kinds_mine") is Mine
    with pytest.raises(SourceRefused, match="kinds_mine"):
        get_class("kinds_other")


class _Encrypting:
    """A server of a name, by its certificate. It notes what it is told once that was accepted, and answers nothing."""

    def __init__(self, context: ssl.SSLContext, *, asked: bool) -> None:
        self._context, self._asked = context, asked
        self.told: list[bytes] = []
        self.names: list[str | None] = []
        context.sni_callback = lambda _, name, __: self.names.append(name)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._asked:  # of PostgreSQL, whether it encrypts
                await reader.readexactly(8)
                writer.write(b"S")
            await writer.start_tls(self._context)
            self.told.append(await reader.read(1000))
        except OSError:
            pass  # the caller has gone
        finally:
            writer.close()


SPECS: dict[str, dict[str, Any]] = {
    "table": {
        "kind": "table",
        "database": "postgresql://u@localhost:%d/d?sslmode=verify-full",
        "table": "t",
        "cursor": ["id"],
    },
    "stream": {"kind": "stream", "redis": "rediss://localhost:%d/0", "key": "k"},
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(("name", "is_taken"), [("localhost", True), ("elsewhere.example", False)])
@attack("X08", "a server with a certificate of another name")
async def test_a_certificate_is_verified_by_the_name_that_is_written(
    kinds, allowed, monkeypatch, tmp_path, kind, name, is_taken
):
    certificate = make_certificate(tmp_path, name)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = _Encrypting(context, asked=kind == "table")
    host, _ = await check_address("redis://localhost")
    async with await asyncio.start_server(server, host, 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        spec = {key: value % port if "%d" in value else value for key, value in SPECS[kind].items()}
        source = await kinds.open(spec)
        with pytest.raises(SourceFailed):
            await source.poll(None)
        await source.close()
    assert set(server.names) == {"localhost"}
    assert any(server.told) is is_taken


FLOOD = b"*1\r\n$8\r\n12345678\r\n" * 100 + b"*1\r\n$200000\r\n" + b"x" * 200_000 + b"\r\n"
"""Few pieces: so many bytes are read that each piece is a part of the test's time."""


@pytest.mark.slow
@attack("S13", "a server of a stream that sends without end")
@pytest.mark.parametrize(
    "answer",
    [
        b"*1\r\n" * 1_000_000,
        b"*2000000000\r\n" + b":1\r\n" * 200_000,
        b"$-7\r\n",
        b"$2000000000\r\n",
        b"*2000000000\r\n" + b"$1000000\r\n" + b"x" * 1_000_000 + b"\r\n",
    ],
)
async def test_a_server_that_sends_without_end_is_left(kinds, allowed, answer):
    sent = 0

    async def talk(reader, writer):
        nonlocal sent
        try:
            await reader.read(1000)
            writer.write(answer)
            while sent < 100_000_000:
                writer.write(FLOOD)
                sent += len(FLOOD)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        source = await kinds.open({"kind": "stream", "redis": f"redis://127.0.0.1:{port}", "key": "k", "from": "start"})
        with pytest.raises(SourceFailed):
            await source.poll(None)
        await source.close()
    finally:
        server.close()
    assert sent < 80_000_000  # in all its tries; at a time, 8 MiB


@attack("S13", "entries that are more than fit into one answer")
async def test_large_entries_come_few_at_a_time_and_one_that_is_too_large_is_an_item_without_content(
    kinds, allowed, redis_server
):
    address = str(redis_server.socket)
    with redis_server.proxy() as proxy:
        async with redis.asyncio.Redis(unix_socket_path=address) as client:
            await client.delete(KEY)
            try:
                for number, size in enumerate([300_000] * 40 + [9_000_000, 10, 17_000_000, 20, 18_000_000], 1):
                    await client.xadd(KEY, {"n": "x" * size}, id=f"{number}-0")
                url = f"redis://{proxy.host}:{proxy.port}"
                source = await kinds.open({"kind": "stream", "redis": url, "key": KEY, "from": "start"})
                cursor, found, more = None, [], True
                while more:
                    polled = await source.poll(cursor)
                    found += polled.items
                    cursor, more = polled.cursor, polled.more
                    assert len(polled.items) <= 15
                # The largest is the last one, which is told beside whatever is read.
                await client.xadd(KEY, {"n": "y"}, id="99-0")
                last = await source.poll(cursor)
                assert [item.data["fields"] for item in last.items] == [{"n": "y"}]
                await source.close()
            finally:
                await client.delete(KEY)
    assert [item.id for item in found] == [f"{number}-0" for number in range(1, 46)]
    assert [item.id for item in found if item.error] == ["41-0", "43-0", "45-0"]


NOTICE = b"N" + (200_000).to_bytes(4) + b"SNOTICE\0M" + b"x" * (200_000 - 4 - 9 - 2) + b"\0\0"
"""A message that a driver reads, and asks for nothing."""
READY = (
    b"S"
    + (24).to_bytes(4)
    + b"server_version\x0016.4\0"
    + b"R"
    + (8).to_bytes(4)
    + (0).to_bytes(4)
    + b"Z"
    + (5).to_bytes(4)
    + b"I"
)


@pytest.mark.slow
@attack("S13", "a server of a table that sends without end, before a login and after it")
@pytest.mark.parametrize(
    "answer", [b"E" + (2_000_000_000).to_bytes(4), READY + b"T" + (2_000_000_000).to_bytes(4), READY]
)
async def test_a_database_that_sends_without_end_is_left(kinds, allowed, answer):
    sent = 0

    async def talk(reader, writer):
        nonlocal sent
        try:
            while (await reader.read(1000)).endswith((80877103).to_bytes(4)):  # may it be encrypted?
                writer.write(b"N")
            writer.write(answer)
            while sent < 100_000_000:
                writer.write(NOTICE)
                sent += len(NOTICE)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        spec = {"kind": "table", "database": f"postgresql://u:p@127.0.0.1:{port}", "table": "t", "cursor": ["id"]}
        source = await kinds.open(spec)
        with pytest.raises(SourceFailed):
            await source.poll(None)
        await source.close()
    assert sent < 60_000_000
