"""What budgets over several runs leave, as coordinators know it: what is exact, and by how much several may exceed it (rule 85)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perdure.errors import StoreUnavailable
from perdure.expressions.at_hand import Lost
from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.model.money import Budget, Usage
from perdure.purses import BudgetRow, Purse
from perdure.runtime.coordinator.purses import NeedsPurses, Purses, end_of_period, make_room
from perdure.runtime.coordinator.tasks.cache import Cache
from tests.doubles.fake_clock import FakeClock

NOON = 1_795_003_200.0  # 2026-11-18 12:00 UTC
RUN: Any = SimpleNamespace(tenant="acme", workflow="orders")


class Ledger:
    """What appends have written of one tenant."""

    def __init__(self, limit: int) -> None:
        self.budget = BudgetRow(tenant="acme", scope="tenant", calls=limit)
        self.held = 0
        self.reads = 0

    async def read_purses(self, tenant: str, day: str, month: str, *, workflow: str = "", limit: int = 1000):
        self.reads += 1
        assert (tenant, day, month) == ("acme", "2026-11-18", "2026-11-01")
        row = {name: getattr(self.budget, name) for name in self.budget.__struct_fields__}
        return [Purse(**row, held_calls=self.held)]


class Coordinator:
    """Decides one wish after the other, and writes each batch before the next."""

    def __init__(self, ledger: Ledger, clock: FakeClock) -> None:
        self.ledger, self.cache, self.granted = ledger, Cache(), 0
        self.purses = Purses(ledger, clock, self.cache)
        self.unwritten = 0

    async def wish(self, calls: int = 1) -> bool:
        command = c.BeginStep(
            at=NOON, address=Address("r1", "n", (), None, 1), step="s", wish="w", reserve=Usage(calls=calls)
        )
        self.write()  # before the next batch begins
        equipped: Any = None
        while equipped is None:
            self.purses.turn(object())
            try:
                equipped = self.purses.equip(RUN, command)
            except NeedsPurses as need:
                key = ("acme", need.key)
                self.cache.pin(key)
                self.cache.add_passing(key, await self.purses.read("acme", need))
        for key in list(self.cache._pins):
            self.cache.unpin(key)
        if any((room.free.calls or 0) < calls for room in equipped.rooms):
            return False
        self.purses.note(RUN, Usage(calls=calls))
        self.unwritten += calls
        self.granted += calls
        return True

    def write(self) -> None:
        self.ledger.held += self.unwritten
        self.unwritten = 0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


async def test_one_coordinator_never_passes_a_limit(clock):
    ledger = Ledger(100)
    one = Coordinator(ledger, clock)
    for number in range(300):
        await one.wish(1 + number % 3)
        if number % 7 == 0:
            one.write()
            await clock.advance(0.3)
    assert 97 < one.granted <= 100


async def test_a_purse_with_much_left_is_read_once_a_second(clock):
    ledger = Ledger(100_000)
    one = Coordinator(ledger, clock)
    for _ in range(100):
        assert await one.wish()
        one.write()
        await clock.advance(0.1)
    assert ledger.reads <= 11


@pytest.mark.parametrize("pause", [0.0, 0.09, 0.4, 1.5])
async def test_two_coordinators_exceed_the_budget_of_a_tenant_by_less_than_what_was_left(clock, pause):
    """H19: calls of 30 s, so nothing is settled. Each writes what it let begin only when the other has decided, as late as can be."""
    ledger = Ledger(100)
    two = [Coordinator(ledger, clock), Coordinator(ledger, clock)]
    for number in range(400):
        await two[number % 2].wish(1 + number % 3)
        await clock.advance(pause)
    granted = sum(one.granted for one in two)
    assert 97 < granted < 100 + 100  # (coordinators - 1) times what was left at the read
    for one in two:
        one.write()
    await clock.advance(2)
    assert [await one.wish(3) for one in two] == [False, False]  # both know by now


async def test_what_others_wrote_is_known_within_a_second(clock):
    ledger = Ledger(100)
    one = Coordinator(ledger, clock)
    assert await one.wish()
    one.write()
    ledger.held = 100
    assert await one.wish()
    await clock.advance(1.01)
    assert not await one.wish()


async def test_a_budget_that_cannot_be_read_lets_nothing_begin(clock):
    one = Coordinator(Ledger(5), clock)
    key = ("acme", "purses:orders")
    one.cache.pin(key)
    one.cache.add_passing(key, Lost("fetch_failed", "no such table"))
    with pytest.raises(StoreUnavailable, match="no such table"):
        await one.wish()


async def test_what_has_no_price_asks_for_no_room(clock):
    ledger = Ledger(0)
    one = Coordinator(ledger, clock)
    address = Address("r1", "n", (), None, 1)
    for command in (
        c.Begin(at=NOON, address=address),
        c.BeginStep(at=NOON, address=address, step="s", wish="w"),
        c.BeginStep(at=NOON, address=address, step="s", wish="w", reserve=Usage(calls=1), not_done=True),
        c.Lapse(at=NOON, address=address),
    ):
        assert one.purses.equip(RUN, command) is command
    assert ledger.reads == 0


def test_a_room_is_what_is_left_of_this_period():
    purse = Purse(tenant="acme", scope="tenant", usd=50, calls=9, per="day", share=0.5, spent_usd=60, spent_calls=2)
    room = make_room(purse, NOON, Usage(calls=3))
    assert (room.left, room.free) == (Budget(usd=0, calls=7), Budget(usd=0, calls=4))
    assert (room.share, room.until) == (Budget(usd=25, calls=4), NOON + 43_200)
    assert make_room(purse.__class__(tenant="a", scope="tenant", calls=9, held_calls=-4), NOON).free.calls == 9
    assert end_of_period("month", NOON) == 1_796_083_200.0  # 2026-12-01
    assert end_of_period("month", 1_796_083_200.0 + 30.5 * 86_400) == 1_798_761_600.0  # 2027-01-01
