"""The network that misbehaves on command does what it says, and only when it is told to."""

import contextlib
import socket
import threading
import time

import pytest

from tests.proxy import Proxy


@pytest.fixture
def echo():
    """A server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()

    def talk(connection):
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1000):
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()
    server.close()


@pytest.fixture
def proxy(echo):
    with Proxy(echo) as proxy:
        yield proxy


def connect(proxy, seconds=10.0):
    return socket.create_connection((proxy.host, proxy.port), timeout=seconds)


def say(connection, text):
    connection.sendall(text)
    return connection.recv(1000)


def test_bytes_pass(proxy):
    with connect(proxy) as one, connect(proxy) as other:
        assert (say(one, b"a"), say(other, b"b")) == (b"a", b"b")
    assert proxy.connections == 2


def test_a_cut_ends_every_connection_and_new_ones_may_come(proxy):
    with connect(proxy) as one:
        assert say(one, b"a") == b"a"
        proxy.cut()
        with contextlib.suppress(ConnectionError):
            assert one.recv(1) == b""
    with connect(proxy) as other:
        assert say(other, b"b") == b"b"


def test_a_silence_holds_bytes_back_until_it_is_healed(proxy):
    with connect(proxy) as one:
        say(one, b"a")
        proxy.go_silent()
        one.sendall(b"b")
        one.settimeout(0.05)
        with pytest.raises(TimeoutError):
            one.recv(1)
        proxy.heal()
        one.settimeout(10)
        assert one.recv(1) == b"b"


def test_nobody_listens_after_a_refusal(proxy):
    proxy.refuse()
    with pytest.raises(ConnectionError):
        connect(proxy)
    proxy.heal()
    with connect(proxy) as one:
        assert say(one, b"a") == b"a"


def test_a_slow_network_takes_its_time_both_ways(proxy):
    proxy.slow_down(0.05)
    with connect(proxy) as one:
        start = time.monotonic()
        assert say(one, b"a") == b"a"
        assert time.monotonic() - start >= 0.1


@pytest.mark.parametrize("plan", [lambda proxy: proxy.cut_after(3), lambda proxy: proxy.cut_at(b"def")])
def test_an_answer_is_cut_half_way_once(proxy, plan):
    with connect(proxy) as one:
        plan(proxy)
        got = b""
        with contextlib.suppress(ConnectionError):
            one.sendall(b"abcdef")
            while data := one.recv(1000):
                got += data
        assert got in {b"abc", b""}  # a reset may overtake what was on its way
    with connect(proxy) as other:
        assert say(other, b"abcdef") == b"abcdef"


def test_a_request_is_cut_before_the_server_sees_it(proxy):
    with connect(proxy) as one:
        assert say(one, b"a") == b"a"
        proxy.cut_at_request()
        with contextlib.suppress(ConnectionError):
            one.sendall(b"b")
            assert one.recv(1) == b""
    with connect(proxy) as other:
        assert say(other, b"c") == b"c"
