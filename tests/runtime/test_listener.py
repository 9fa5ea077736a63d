"""How notices are read: after the highest one seen, and now and then from the first."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from perdure.contents import TooMuch
from perdure.journal import Command, DueTimer, Notice
from perdure.kernel.commands import Refused
from perdure.runtime.coordinator.ownership.listener import Listener
from perdure.runtime.coordinator.requests import Reply, Request, encode_request
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.triggers import trigger_id
from tests.attack.marks import attack
from tests.doubles.fake_clock import FakeClock
from tests.engine.helpers import DEADLINE


class Notices:
    """A journal with notices and nothing else, which remembers from where it was read."""

    def __init__(self, *numbers: int) -> None:
        self.there = set(numbers)
        self.read: list[int] = []

    async def read_notices(self, partitions: Any, after: int, limit: int) -> list[Notice]:
        self.read.append(after)
        found = sorted(number for number in self.there if number > after)[:limit]
        return [Notice(number, f"run{number}", "child", b"{}") for number in found]

    async def read_commands(self, partitions: Any, limit: int) -> list[Any]:
        return []


class Due(Notices):
    """A journal with timers that are due, too."""

    due: list[DueTimer]

    async def list_due_timers(self, now: float, limit: int, partitions: Any = None) -> list[DueTimer]:
        return self.due

    async def next_timer(self, partitions: Any = None) -> float | None:
        return None


class Commands(Notices):
    """A journal with a command for each of these runs, which remembers how they were answered."""

    def __init__(self, *runs: str) -> None:
        super().__init__()
        self.runs = runs
        self.answers: dict[str, str] = {}

    async def read_commands(self, partitions: Any, limit: int) -> list[Any]:
        bodies = {run: encode_request(Request(kind="cancel", run_id=run)) for run in self.runs}
        return [Command(number, f"of {run}", run, 0.0, body) for number, (run, body) in enumerate(bodies.items())]

    async def answer_command(self, command_id: str, body: bytes) -> None:
        self.answers[command_id.removeprefix("of ")] = msgspec.json.decode(body, type=Reply).code


async def learn() -> None:
    pass


def listening(journal: Notices) -> tuple[Listener, FakeClock, list[int]]:
    told: list[int] = []
    coordinator = SimpleNamespace(
        share=SimpleNamespace(partitions=None),
        put=lambda message: told.append(message.notice_id),
        incarnation=SimpleNamespace(learn=learn),
    )
    clock = FakeClock()
    return Listener(cast(Any, journal), cast(Any, coordinator), clock), clock, told


async def test_notices_that_wait_are_not_read_again_at_every_look():
    journal = Notices(*range(1, 2501))
    listener, clock, told = listening(journal)
    await listener.listen()
    assert told == list(range(1, 2501))
    journal.read.clear()
    journal.there.add(2501)
    await clock.advance(0.1)
    await listener.listen()
    await listener.listen()
    assert journal.read == [2500, 2501], "each look begins behind the highest notice seen"
    assert told[2500:] == [2501]


async def test_a_notice_that_becomes_visible_after_a_higher_one_is_heard_within_a_second():
    journal = Notices(7)
    listener, clock, told = listening(journal)
    await listener.listen()
    journal.there.add(5)
    await clock.advance(1.0)
    await listener.listen()
    await listener.listen()
    assert told == [7, 5]


async def test_a_notice_whose_statement_took_seconds_is_heard_as_the_others_are_read_again():
    journal = Notices(7)
    listener, clock, told = listening(journal)
    for seconds in range(3):
        journal.there.add(8 + seconds)
        await listener.listen()
        await clock.advance(1.0)
    journal.there.add(5)
    await listener.listen()
    assert told == [7, 8, 9, 10, 5]


async def test_notices_that_have_waited_for_some_seconds_are_read_again_only_once_in_a_while():
    journal = Notices(*range(2, 101))
    listener, clock, told = listening(journal)
    for _ in range(10):
        await listener.listen()
        await clock.advance(0.5)
    journal.read.clear()
    journal.there.add(1)  # its statement took longer than any should
    for _ in range(40):
        await listener.listen()
        await clock.advance(0.5)
    assert set(journal.read) == {100}
    assert told == list(range(2, 101))
    await clock.advance(10.0)
    journal.read.clear()
    await listener.listen()
    assert journal.read == [0]
    assert told[-1] == 1


async def test_after_runs_were_taken_over_all_notices_are_told_again():
    journal = Notices(1, 2)
    listener, _, told = listening(journal)
    await listener.listen()
    await listener.listen()
    listener.look_again()
    await listener.listen()
    assert told == [1, 2, 1, 2]


@pytest.mark.parametrize("everything", [True, False])
async def test_all_notices_are_told_again_when_runs_are_taken_over_during_a_look(everything: bool):
    journal = Notices(2)
    listener, clock, told = listening(journal)
    if not everything:
        await listener.listen()
    journal.there.add(3)
    coordinator = cast(Any, listener)._coordinator
    put = coordinator.put

    def take_over(message: Any) -> None:  # after it was turned away: nobody held its run
        coordinator.put = put
        journal.there.add(1)  # of a run that was not held when the look began
        listener.look_again()

    coordinator.put = take_over
    await listener.listen()
    told.clear()
    await clock.advance(0.1)
    await listener.listen()
    assert told == [1, 2, 3]


@attack("X34", "a request that ends every process which finds it in the database")
async def test_a_command_whose_decision_fails_unexpectedly_ends_no_process(caplog):
    async def ask(run_id: str, *_: Any, **__: Any) -> Any:
        if run_id == "bad":
            raise ValueError("a bug")
        if run_id == "heavy":
            raise TooMuch("its inputs have too many parts")
        return Refused("terminal", "it has ended")

    journal = Commands("good", "bad", "heavy", "another")
    listener, _, _ = listening(journal)
    cast(Any, listener)._coordinator.ask = ask
    await listener.listen()
    answered = {"good": "terminal", "bad": "internal_error", "heavy": "too_large", "another": "terminal"}
    assert journal.answers == answered
    assert "a bug" in caplog.text


async def test_a_trigger_hears_of_runs_that_have_ended_before_a_moment_is_decided() -> None:
    """With `skip` a moment was left out though the run before it had ended, as long as its end was on its way (G26)."""
    journal = Due()
    told: list[Any] = []
    listener, clock, _ = listening(journal)
    coordinator = listener._coordinator
    coordinator.put = lambda message: told.append(getattr(message, "notice_id", getattr(message, "timer", None)))  # type: ignore[method-assign]
    coordinator.drained = learn  # type: ignore[method-assign]
    hearing = asyncio.create_task(listener.run())
    await clock.advance(0)
    journal.there.add(5)
    keeper = Timekeeper(cast("Any", journal), coordinator, clock)
    keeper.before_moments = listener.catch_up
    journal.due = [DueTimer(trigger_id("default", "x"), "trigger:receive", 0.0)]
    await asyncio.wait_for(keeper._tell(), DEADLINE)
    assert told == [5, "trigger:receive"]
    journal.there.add(6)
    journal.due = [DueTimer("plain", "retry:a", 0.0)]  # no other run waits for that
    await asyncio.wait_for(keeper._tell(), DEADLINE)
    assert told[2] == "retry:a"
    hearing.cancel()
    await asyncio.gather(hearing, return_exceptions=True)


async def test_a_moment_does_not_wait_for_notices_that_cannot_be_read() -> None:
    listener, clock, _ = listening(Notices())
    waiting = asyncio.create_task(listener.catch_up())  # nothing listens
    await clock.advance(0.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert waiting.done()
