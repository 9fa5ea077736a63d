"""Clients that do not take what they asked for: an answer waits in memory, and its connection with it, for so long (S13)."""

import asyncio
import socket
from typing import Any

import pytest

from perdure.api import protocol
from perdure.api.protocol import TAKE_BYTES, TAKE_SECONDS, Outlet
from tests.api.helpers import API, serving
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE, until_true

LARGE = {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": "{{ inputs.s ~ inputs.s }}"}}]}


class Pipe:
    """A transport of which the test says how much is taken."""

    def __init__(self):
        self.waiting = 0
        self.aborted = False

    def write(self, data):
        self.waiting += len(data)

    def get_write_buffer_size(self):
        return self.waiting

    def get_extra_info(self, name):
        return None

    def abort(self):
        self.aborted = True


class Loop:
    """A loop whose time the test moves."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def call_later(self, seconds, call):
        timer = Timer(self.now + seconds, call)
        self.timers.append(timer)
        return timer

    def pass_time(self, seconds):
        self.now += seconds
        for timer in [one for one in self.timers if one.at <= self.now]:
            self.timers.remove(timer)
            if not timer.cancelled:
                timer.call()


class Timer:
    def __init__(self, at, call):
        self.at, self.call, self.cancelled = at, call, False

    def cancel(self):
        self.cancelled = True


def opened():
    pipe: Any = Pipe()
    loop: Any = Loop()
    return pipe, loop, Outlet(pipe, loop)


def test_who_takes_enough_in_time_gets_all():
    pipe, loop, outlet = opened()
    outlet.write(b"x" * 8 * 1024 * 1024)
    while pipe.waiting:
        pipe.waiting -= TAKE_BYTES
        loop.pass_time(TAKE_SECONDS)
        assert not pipe.aborted
    assert loop.timers == []


@pytest.mark.parametrize("taken", [0, 1, TAKE_BYTES - 1])
def test_who_takes_too_little_is_given_up(taken):
    pipe, loop, outlet = opened()
    outlet.write(b"x" * 8 * 1024 * 1024)
    pipe.waiting -= TAKE_BYTES
    loop.pass_time(TAKE_SECONDS)
    pipe.waiting -= taken
    assert not pipe.aborted
    loop.pass_time(TAKE_SECONDS)
    assert pipe.aborted


def test_what_is_written_meanwhile_does_not_count_as_taken():
    pipe, loop, outlet = opened()
    outlet.write(b"x" * TAKE_BYTES)
    for _ in range(3):
        outlet.write(b"x" * TAKE_BYTES)
    loop.pass_time(TAKE_SECONDS)
    assert pipe.aborted


def test_an_answer_that_was_just_written_has_its_whole_time():
    pipe, loop, outlet = opened()
    outlet.write(b"x")
    pipe.waiting = 0
    loop.pass_time(TAKE_SECONDS - 1)
    outlet.write(b"x" * 8 * 1024 * 1024)
    loop.pass_time(TAKE_SECONDS / 2)
    assert not pipe.aborted
    loop.pass_time(TAKE_SECONDS)
    assert pipe.aborted


def test_a_connection_that_ended_is_not_looked_at_again():
    pipe, loop, outlet = opened()
    outlet.write(b"x")
    outlet.end()
    loop.pass_time(TAKE_SECONDS)
    assert not pipe.aborted


@attack("S13", "a reader that takes nothing holds an answer of megabytes for ever")
@pytest.mark.slow
async def test_an_answer_that_nobody_takes_is_given_up(tmp_path, monkeypatch):
    opened = []

    class Kept(Outlet):
        def __init__(self, *given):
            super().__init__(*given)
            opened.append(self)

    def held():
        return sum(one.get_write_buffer_size() for one in opened if not one.is_closing())

    monkeypatch.setattr(protocol, "Outlet", Kept)
    async with serving(tmp_path, real=True) as server:
        run_id = (await server.start(LARGE, {"s": "x" * 900_000}))["run_id"]
        monkeypatch.setattr(protocol, "TAKE_SECONDS", 0.2)
        host, _, port = server.url.removeprefix("http://").partition(":")
        loop = asyncio.get_running_loop()
        with socket.socket() as client:  # it reads nothing, ever
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, (host, int(port)))
            ask = f"GET {API}/runs/{run_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            await loop.sock_sendall(client, ask * 8)  # more than the operating system holds
            await until_true(lambda: held() > 0, "an answer waits to be taken", DEADLINE)
            await until_true(lambda: held() == 0, "it was given up", DEADLINE)
