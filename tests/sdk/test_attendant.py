"""The attendant of a run, which is the same for the command line and for `perdure.run`: what it asks, and when it leaves."""

import asyncio
from typing import Any

import pytest

from perdure.kernel.state import State
from perdure.sdk.asks import Ask, Waiting
from perdure.sdk.attendant import Attendant


class Run:
    """A run as a follower shows it, the desk that knows its questions, and an asker with answers to them."""

    def __init__(self, *names, answers, repeats=False, votes=1, run_id="r"):
        self.state = State(run_id="r")
        self.changed = asyncio.Event()
        self.asks = []
        self.repeats = repeats
        self.open = dict.fromkeys(names, votes)
        self.run_id = run_id
        self.answers = list(answers)
        self.asked = []

    async def look(self):
        return Waiting([Ask("approval", name, self.run_id, "node", "command") for name in self.open], busy=False)

    async def vote(self, ask, decision):
        self.open[ask.name] -= 1
        if not self.open[ask.name]:
            del self.open[ask.name]
        if ask.run_id == "r":
            self.changed.set()

    async def ask(self, ask, vote):
        self.asked.append(ask.name)
        answer = self.answers.pop(0)
        if answer == "voted":
            await vote(None)
        return answer

    async def attended(self, *, asks=True, leaves=True):
        run: Any = self
        async with asyncio.timeout(30):
            waiting = await Attendant(run, run, run if asks else None, leaves=leaves).run()
        assert self.asks == waiting.asks
        return [one.name for one in waiting.asks]


@pytest.mark.parametrize(
    ("run", "asked", "left"),
    [
        (Run("a", "b", answers=["voted", "later"]), ["a", "b"], ["b"]),
        (Run("a", "b", answers=["later", "voted"]), ["a", "b"], ["a"]),
        (Run("a", answers=["refused", "refused", "later"]), ["a", "a", "a"], ["a"]),
        (Run("a", "b", answers=["gone", "later"]), ["a", "b"], ["a", "b"]),
        (Run("a", "b", answers=["voted", "voted", "later"], votes=2, repeats=True), ["a", "a", "b"], ["b"]),
        (Run("a", "b", answers=["voted", "later"], votes=2), ["a", "b"], ["a", "b"]),
        (Run("a", "b", answers=["voted", "later"], run_id="child"), ["a", "b"], ["b"]),
    ],
    ids=["vote", "later", "refused", "gone", "again", "once", "child"],
)
async def test_each_question_is_asked_until_it_is_settled(run, asked, left):
    assert await run.attended() == left
    assert run.asked == asked


async def test_without_an_asker_it_leaves_at_once():
    run = Run("a", answers=[])
    assert await run.attended(asks=False) == ["a"]
    assert run.asked == []


async def test_it_stays_until_a_person_leaves_a_question_open():
    run = Run("a", "b", answers=["gone", "later"])
    assert await run.attended(leaves=False) == ["a", "b"]
    run = Run("a", answers=["gone"])
    attending = asyncio.create_task(run.attended(leaves=False))
    for _ in range(20):
        await asyncio.sleep(0)
    assert run.asked == ["a"]
    assert not attending.done()
    attending.cancel()
