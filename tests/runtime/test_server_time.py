"""Clocks that are wrong, or are set while a process runs: the time is the database's, counted monotonically."""

import asyncio
from typing import Any

import pytest

from perdure.clock import OffsetClock
from perdure.errors import StoreUnavailable
from perdure.runtime.server_time import PAUSE_SECONDS, ServerTime
from tests.doubles.fake_clock import FakeClock

HOUR = 3600.0


class Machine(FakeClock):
    """A machine whose clock may be set, and whose monotonic clock nobody can set."""

    shift = 0.0

    def now(self):
        return super().now() + self.shift

    def pass_time(self, seconds):
        self._now += seconds


def set_by(clock, machine, server, taken=0.0):
    asked_at = machine.monotonic()
    machine.pass_time(taken)
    clock.set(server, asked_at)


def test_until_it_is_set_it_is_that_of_the_machine():
    machine = Machine()
    assert OffsetClock(machine).now() == machine.now()


def test_a_machine_that_is_hours_wrong_has_the_time_of_the_server():
    for shift in (-5 * HOUR, 5 * HOUR):
        machine = Machine()
        server, machine.shift = machine.now(), shift
        clock = OffsetClock(machine)
        set_by(clock, machine, server)
        assert clock.now() == server
        machine.pass_time(10)
        assert clock.now() == server + 10


def test_a_machine_whose_clock_is_set_meanwhile_changes_nothing():
    machine = Machine()
    clock = OffsetClock(machine)
    server = machine.now()
    set_by(clock, machine, server)
    for shift in (5 * HOUR, -5 * HOUR, 0.3):
        machine.shift = shift
        assert clock.now() == server


def test_it_goes_to_and_fro_by_no_answer_that_it_may_agree_with():
    machine = Machine()
    clock = OffsetClock(machine)
    server = machine.now()
    set_by(clock, machine, server)
    before = clock.now()
    set_by(clock, machine, server, taken=0.2)  # an answer of which nobody knows when in these 0.2 s it was given
    assert clock.now() == pytest.approx(before + 0.2)
    set_by(clock, machine, server + 7 * HOUR, taken=0.2)  # a server whose clock was set: all processes follow it
    assert clock.now() == pytest.approx(server + 7 * HOUR + 0.1)


def test_processes_of_one_machine_agree_though_each_was_answered_after_another_time():
    machine = Machine()
    clocks = [OffsetClock(machine) for _ in range(3)]
    for clock, taken, after in zip(clocks, (0.5, 0.01, 0.2), (0.5, 0.0, 0.05), strict=True):
        set_by(clock, machine, machine.now() + after, taken=taken)
    assert len({clock.now() for clock in clocks}) == 1
    assert clocks[0].now() == pytest.approx(machine.now())


async def test_the_server_is_asked_again_and_again_also_after_it_was_away(caplog):
    machine = Machine()
    clock = OffsetClock(machine)
    server, away = machine.now() + HOUR, True

    class Leases:
        async def now(self):
            if away:
                raise StoreUnavailable("it is away")
            return server

    leases: Any = Leases()
    keeping = asyncio.ensure_future(ServerTime(clock, leases).run())
    await machine.advance(3 * PAUSE_SECONDS)
    assert clock.now() == machine.now()
    assert "it is away" in caplog.text
    away = False
    await machine.advance(PAUSE_SECONDS)
    assert clock.now() == server
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
