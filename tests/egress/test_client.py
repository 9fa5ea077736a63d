"""The client against real sockets: pinned connections, redirects, limits, and what failures are called."""

import asyncio
import datetime
import functools
import gzip
import ssl
import tracemalloc
import zlib

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perdure.egress.client import MAX_HEADER_BYTES, Request
from perdure.egress.errors import AnswerInvalid, AnswerTooLarge, EgressRefused, NetworkFailed, TimedOut
from perdure.egress.policy import Policy
from perdure.egress.transport import Transport
from perdure.egress.urls import parse
from tests.egress.server import PUBLIC, Wire, client, names, reply, serving

pack = functools.partial(gzip.compress, mtime=0)
NAMES = {"a.test": [PUBLIC], "b.test": [PUBLIC], "c.test": ["93.184.216.35"], "two.test": ["93.184.216.35", PUBLIC]}


def ask(url="http://a.test/", **more):
    return Request(url=parse(url), **more)


def public(server, **more):
    return client(resolve=names(NAMES), backend=Wire(server), **more)


# -- connections -------------------------------------------------------------------------------------------------------


async def test_connections_are_used_again_by_the_same_name_and_not_by_another_at_the_same_address():
    async with serving(lambda seen: reply(body=b"x")) as server, public(server) as c:
        for _ in range(5):
            await c.send(ask("http://a.test/x"))
        assert server.connections == 1
        await c.send(ask("http://b.test/x"))
        assert server.connections == 2
        await c.send(ask("http://a.test/y"))
        assert server.connections == 2
    assert [seen.headers["host"] for seen in server.seen] == [*["a.test"] * 5, "b.test", "a.test"]


async def test_a_name_at_a_new_address_gets_a_new_connection():
    table = {"a.test": [PUBLIC]}
    async with serving(lambda seen: reply()) as old, serving(lambda seen: reply()) as new:
        wire = Wire(old, new)
        async with client(resolve=names(table), backend=wire) as c:
            await c.send(ask())
            table["a.test"] = ["93.184.216.35"]
            await c.send(ask())
    assert (old.connections, new.connections) == (1, 1)
    assert wire.called == [(PUBLIC, 80), ("93.184.216.35", 80)]


async def test_the_next_address_is_tried_when_one_does_not_answer():
    async with serving(lambda seen: reply(body=b"second")) as server:
        wire = Wire(server)
        async with client(resolve=names(NAMES), backend=wire) as c:
            assert (await c.send(ask("http://two.test/"))).body == b"second"
    assert wire.called == [("93.184.216.35", 80), (PUBLIC, 80)]


def make_certificate(folder, name):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file


async def test_tls_is_checked_for_the_name_though_the_connection_goes_to_the_address(tmp_path):
    file = make_certificate(tmp_path, "a.test")
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    ours = ssl.create_default_context(cafile=str(file))
    async with serving(lambda seen: reply(body=b"safe"), theirs) as server:
        wire = Wire(server)
        async with client(resolve=names(NAMES), backend=wire, ssl_context=ours) as c:
            assert (await c.send(ask("https://a.test/"))).body == b"safe"
            assert (server.names, wire.called) == (["a.test"], [(PUBLIC, 443)])
            assert server.seen[0].headers["host"] == "a.test"
            # The same address and an open connection, but the certificate is not for this name.
            with pytest.raises(NetworkFailed, match="certificate is not valid"):
                await c.send(ask("https://b.test/"))
        async with client(resolve=names(NAMES), backend=wire) as strict:
            with pytest.raises(NetworkFailed, match="certificate is not valid") as caught:
                await strict.send(ask("https://a.test/"))
    assert not caught.value.sent
    assert len(server.seen) == 1


async def test_proxy_variables_are_not_obeyed(monkeypatch):
    async with serving(lambda seen: reply(body=b"direct")) as server, serving(lambda seen: reply()) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{proxy.port}")
        async with public(server) as c:
            assert (await c.send(ask())).body == b"direct"
    assert proxy.connections == 0


# -- redirects ---------------------------------------------------------------------------------------------------------


def redirects(table):
    """`/path` to a status and where it leads; others answer with what they saw."""

    def answer(seen):
        if seen.target in table:
            status, location = table[seen.target]
            return reply(status, location=location)
        return reply(body=seen.method.encode() + b" " + seen.body)

    return answer


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (301, "GET", b"GET "),
        (301, "POST", b"GET "),
        (302, "POST", b"GET "),
        (303, "POST", b"GET "),
        (303, "PUT", b"GET "),
        (302, "PUT", b"PUT data"),
        (307, "POST", b"POST data"),
        (308, "PATCH", b"PATCH data"),
    ],
)
async def test_a_redirect_keeps_or_changes_the_method_as_the_standard_says(status, method, expected):
    async with serving(redirects({"/from": (status, "/to")})) as server, public(server) as c:
        body = b"" if method == "GET" else b"data"
        headers = {"content-type": "text/plain"}
        answer = await c.send(ask("http://a.test/from", method=method, body=body, headers=headers))
    assert (answer.status, answer.body, answer.url.path) == (200, expected, "/to")
    assert ("content-type" in server.seen[1].headers) == (expected != b"GET " or method == "GET")


async def test_only_three_redirects_are_followed():
    table = {f"/{n}": (302, f"/{n + 1}") for n in range(4)}
    async with serving(redirects(table)) as server, public(server) as c:
        assert (await c.send(ask("http://a.test/1"))).status == 200
        with pytest.raises(EgressRefused, match="redirects again after 3"):
            await c.send(ask("http://a.test/0"))
        assert (await c.send(ask("http://a.test/0", redirects=0))).status == 302
    assert [seen.target for seen in server.seen] == ["/1", "/2", "/3", "/4", "/0", "/1", "/2", "/3", "/0"]


async def test_credentials_cookies_and_keys_do_not_follow_to_another_origin():
    table = {"/same": (302, "/to"), "/other": (302, "http://b.test/to")}
    secret = {"authorization": "Bearer canary", "cookie": "canary", "x-api-key": "canary", "accept": "text/html"}
    async with serving(redirects(table)) as server, public(server) as c:
        await c.send(ask("http://a.test/same", headers=secret))
        await c.send(ask("http://a.test/other", headers=secret))
    kept, dropped = server.seen[1].headers, server.seen[3].headers
    assert {name: kept[name] for name in secret} == secret
    assert (dropped["host"], dropped["accept"]) == ("b.test", "text/html")
    assert "canary" not in str(dropped)


async def test_a_body_does_not_follow_to_another_origin():
    async with serving(redirects({"/x": (307, "http://b.test/to")})) as server, public(server) as c:
        with pytest.raises(EgressRefused, match=r"redirects to http://b\.test") as caught:
            await c.send(ask("http://a.test/x", method="POST", body=b"data"))
    assert caught.value.sent
    assert len(server.seen) == 1


async def test_https_does_not_lead_to_http(tmp_path):
    file = make_certificate(tmp_path, "a.test")
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    ours = ssl.create_default_context(cafile=str(file))
    async with (
        serving(redirects({"/x": (302, "http://a.test/to")}), theirs) as server,
        public(server, ssl_context=ours) as c,
    ):
        with pytest.raises(EgressRefused, match="from https to http"):
            await c.send(ask("https://a.test/x"))
    assert len(server.seen) == 1


# -- limits ------------------------------------------------------------------------------------------------------------


def make_bomb(megabytes):
    """So many megabytes of nothing, about a thousandth of that on the wire; every block is the same."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = bytes(1_000_000)
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)) * (megabytes - 1)


async def test_a_bomb_ends_at_the_limit_and_not_in_memory():
    bomb = make_bomb(10_000)
    head = f"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()

    async def send(seen, writer):
        writer.write(head)
        for start in range(0, len(bomb), 65_536):
            writer.write(bomb[start : start + 65_536])
            await writer.drain()

    async with serving(send) as server, public(server) as c:
        tracemalloc.start()
        try:
            with pytest.raises(AnswerTooLarge, match="more than 12000000 bytes"):
                await c.send(ask(max_bytes=12_000_000))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(bomb) < 12_000_000
    assert peak < 20_000_000


@pytest.mark.parametrize("body", [b"x" * 1001, pack(b"x" * 1001)])
async def test_the_limit_is_exact(body):
    encoding = "identity" if body[:1] == b"x" else "gzip"
    async with serving(lambda seen: reply(body=body, content_encoding=encoding)) as server, public(server) as c:
        assert len((await c.send(ask(max_bytes=1001))).body) == 1001
        with pytest.raises(AnswerTooLarge):
            await c.send(ask(max_bytes=1000))


async def test_an_endless_body_ends_at_the_limit():
    async def endless(seen, writer):
        writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()

    async with serving(endless) as server, public(server) as c:
        with pytest.raises(AnswerTooLarge):
            await c.send(ask(max_bytes=100_000))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", pack(b"hello")),
        ("x-gzip", pack(b"hel") + pack(b"lo")),
        ("gzip", pack(b"hello") + bytes(100)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
        ("GZIP", pack(b"hello")),
    ],
)
async def test_packed_bodies_are_unpacked(encoding, body):
    async with serving(lambda seen: reply(body=body, content_encoding=encoding)) as server, public(server) as c:
        assert (await c.send(ask())).body == b"hello"
    assert server.seen[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 131_072, 1_000_000])
async def test_no_byte_is_lost_where_pieces_meet(size):
    body = bytes(size)
    async with (
        serving(lambda seen: reply(body=pack(body), content_encoding="gzip")) as server,
        public(server) as c,
    ):
        assert (await c.send(ask())).body == body


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"hello"),
        ("gzip, gzip", pack(pack(b"x"))),
        ("gzip", b"hello"),
        ("gzip", pack(b"hello" * 999)[:-20]),
    ],
)
async def test_bodies_that_cannot_be_unpacked_are_no_answer(encoding, body):
    async with serving(lambda seen: reply(body=body, content_encoding=encoding)) as server, public(server) as c:
        with pytest.raises(AnswerInvalid):
            await c.send(ask())


@pytest.mark.parametrize("lines", [1, 1000])
async def test_headers_have_a_limit(lines):
    long = {f"x-{n}": "y" * (MAX_HEADER_BYTES // lines) for n in range(lines)}
    async with serving(lambda seen: reply(**long)) as server, public(server) as c:
        with pytest.raises(AnswerTooLarge, match="headers"):
            await c.send(ask())


async def test_headers_without_end_have_a_limit():
    async def endless(seen, writer):
        writer.write(b"HTTP/1.1 200 X\r\n")
        while True:
            writer.write(b"x: " + b"y" * 4096 + b"\r\n")
            await writer.drain()

    async with serving(endless) as server, public(server) as c:
        with pytest.raises(AnswerTooLarge, match="headers"):
            await c.send(ask())


@pytest.mark.parametrize("where", ["accept", "head", "body", "redirect"])
async def test_the_whole_call_has_one_time_limit(where):
    async def slow(seen, writer):
        if where == "redirect" and seen.target == "/":
            return reply(302, location="/next")
        if where == "body":
            writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(1000):  # a byte now and then keeps other clients waiting for ever
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
        return await asyncio.Event().wait()

    async with serving(slow) as server, public(server) as c:
        with pytest.raises(TimedOut, match=r"has not answered in 0\.2 s") as caught:
            await c.send(ask(seconds=0.2))
    assert caught.value.sent


async def test_a_timeout_before_the_request_left_says_so():
    async def resolve(host, port):
        await asyncio.Event().wait()

    async with client(resolve=resolve) as c:
        with pytest.raises(TimedOut) as caught:
            await c.send(ask(seconds=0.05))
    assert not caught.value.sent


# -- failures ----------------------------------------------------------------------------------------------------------


async def test_failures_to_connect_say_that_nothing_was_sent():
    async with client(Policy.parse("127.0.0.1:*"), resolve=names({})) as c:
        with pytest.raises(NetworkFailed, match="cannot be resolved") as unknown:
            await c.send(ask("http://nowhere.test/"))
        with pytest.raises(NetworkFailed, match="Connection refused") as refused:
            await c.send(ask("http://127.0.0.1:1/x?token=canary"))
    assert not unknown.value.sent
    assert not refused.value.sent
    assert "canary" not in refused.value.message


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_a_connection_that_breaks_says_that_something_may_have_been_done(answer):
    async def broken(seen, writer):
        writer.write(answer)
        await writer.drain()

    async with serving(broken) as server, public(server) as c:
        with pytest.raises(NetworkFailed) as caught:
            await c.send(ask(method="POST", body=b"x"))
    assert caught.value.sent


async def test_an_upgrade_nobody_asked_for_is_no_answer():
    async def upgrade(seen, writer):
        writer.write(b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    async with serving(upgrade) as server, public(server) as c:
        with pytest.raises((AnswerInvalid, NetworkFailed)):
            await c.send(ask(seconds=5))


async def test_a_cancelled_call_leaves_no_connection_behind():
    asked = asyncio.Event()

    async def hang(seen, writer):
        asked.set()
        await asyncio.Event().wait()

    async with serving(hang) as server, public(server) as c:
        call = asyncio.ensure_future(c.send(ask()))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert c._pool.connections == []


# -- other clients -----------------------------------------------------------------------------------------------------


async def test_a_library_with_an_httpx2_client_obeys_the_same_rules():
    async with (
        serving(redirects({"/in": (302, "http://127.0.0.1/")})) as server,
        public(server) as c,
        httpx2.AsyncClient(transport=Transport(c), follow_redirects=True, trust_env=False) as library,
    ):
        answer = await library.post("http://a.test/x", json={"a": 1})
        assert answer.text == 'POST {"a":1}'
        for url in ("http://127.0.0.1/", "http://2130706433/", "http://a.test/in"):
            with pytest.raises(httpx2.ConnectError):
                await library.get(url)
    assert [seen.target for seen in server.seen] == ["/x", "/in"]
