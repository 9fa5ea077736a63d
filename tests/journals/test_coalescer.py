"""Questions that are asked at the same time share a statement; each is answered as if it had been asked alone."""

import asyncio

import pytest

from perdure.clock import system
from perdure.journal import JournalCorrupt, JournalUnavailable
from perdure.journals.coalescer import Coalescer


class Server:
    """Answers with the key, once it is let; it counts statements."""

    def __init__(self):
        self.statements: list[list[int]] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def ask_all(self, keys):
        self.statements.append(keys)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return {key: f"answer {key}" for key in keys if key >= 0}


@pytest.fixture
def server():
    return Server()


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_asks_at_the_same_time_shares_a_statement_and_who_comes_later_has_the_next(server):
    coalescer = Coalescer(server.ask_all, system, most=100, at_once=1)
    async with asyncio.TaskGroup() as group:
        early = [group.create_task(coalescer.ask(key)) for key in (1, 2, 3, 2, -1)]
        await turns()
        assert server.statements == [[1, 2, 3, -1]]
        late = [group.create_task(coalescer.ask(key)) for key in (1, 4)]
        await turns()
        assert server.statements == [[1, 2, 3, -1]]  # what it is told must not be older than its question
        server.open.set()
    assert [one.result() for one in early] == ["answer 1", "answer 2", "answer 3", "answer 2", None]
    assert [one.result() for one in late] == ["answer 1", "answer 4"]
    assert server.statements == [[1, 2, 3, -1], [1, 4]]


async def test_a_statement_holds_no_more_than_it_may_and_so_many_are_under_way(server):
    coalescer = Coalescer(server.ask_all, system, most=3, at_once=2)
    server.open.set()
    answers = await asyncio.gather(*(coalescer.ask(key) for key in range(10)))
    assert answers == [f"answer {key}" for key in range(10)]
    assert all(len(keys) <= 3 for keys in server.statements)
    assert sorted(key for keys in server.statements for key in keys) == list(range(10))


async def test_who_asks_at_the_same_time_shares_a_statement_also_where_several_may_be_under_way(server):
    coalescer = Coalescer(server.ask_all, system, most=100, at_once=2)
    async with asyncio.TaskGroup() as group:
        for key in range(5):
            group.create_task(coalescer.ask(key))
        await turns()
        assert server.statements == [[0, 1, 2, 3, 4]]
        for key in range(5, 8):  # the second statement
            group.create_task(coalescer.ask(key))
        await turns()
        assert server.statements[1:] == [[5, 6, 7]]
        server.open.set()


async def test_what_one_statement_does_not_hold_goes_beside_it(server):
    coalescer = Coalescer(server.ask_all, system, most=3, at_once=2)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(coalescer.ask(key)) for key in range(7)]
        await turns()
        assert server.statements == [[0, 1, 2], [3, 4, 5]]
        server.open.set()
    assert [one.result() for one in asked] == [f"answer {key}" for key in range(7)]


async def test_an_error_is_everybodys_and_the_next_may_ask_again(server):
    coalescer = Coalescer(server.ask_all, system, most=10, at_once=1)
    server.open.set()
    server.error = OSError("away")
    found = await asyncio.gather(*(coalescer.ask(key) for key in range(4)), return_exceptions=True)
    assert [str(one) for one in found] == ["away"] * 4
    server.error = None
    assert await coalescer.ask(7) == "answer 7"


@pytest.mark.parametrize("victim", range(4))
async def test_whoever_is_cancelled_the_others_are_answered(server, victim):
    coalescer = Coalescer(server.ask_all, system, most=10, at_once=1)
    tasks = [asyncio.ensure_future(coalescer.ask(key)) for key in range(4)]
    await turns()
    tasks[victim].cancel()
    await turns()
    server.open.set()
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert [isinstance(one, asyncio.CancelledError) for one in found] == [key == victim for key in range(4)]
    assert [one for key, one in enumerate(found) if key != victim] == [
        f"answer {key}" for key in range(4) if key != victim
    ]
    assert await coalescer.ask(9) == "answer 9"


async def test_who_is_cancelled_just_when_it_should_ask_for_the_others_hands_that_on(server):
    coalescer = Coalescer(server.ask_all, system, most=2, at_once=1)
    tasks = [asyncio.ensure_future(coalescer.ask(key)) for key in range(5)]
    await turns()
    server.open.set()
    for _ in range(20):
        if tasks[0].done():
            tasks[2].cancel()  # it has just been told to lead, and has not run yet
        await asyncio.sleep(0)
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert [one for one in found if not isinstance(one, BaseException)] == [
        f"answer {key}" for key, one in enumerate(found) if not isinstance(one, BaseException)
    ]
    assert len([one for one in found if isinstance(one, str)]) >= 4
    assert await coalescer.ask(9) == "answer 9"


@pytest.mark.parametrize("kind", [JournalCorrupt, ValueError])
async def test_what_one_question_asks_for_may_be_damaged_and_the_others_are_answered(kind):
    statements: list[list[int]] = []

    async def ask_all(keys):
        statements.append(keys)
        if 2 in keys:
            raise kind("damaged")
        return {key: f"answer {key}" for key in keys}

    coalescer = Coalescer(ask_all, system, most=100, at_once=1)
    for order in ((1, 2, 3), (2, 1, 3)):  # whoever leads
        found = await asyncio.gather(*map(coalescer.ask, order), return_exceptions=True)
        assert {key: str(one) for key, one in zip(order, found, strict=True)} == {
            1: "answer 1",
            2: "damaged",
            3: "answer 3",
        }
    assert await coalescer.ask(1) == "answer 1"


async def test_an_outage_is_met_once_and_not_by_each_question():
    statements: list[list[int]] = []

    async def ask_all(keys):
        statements.append(keys)
        if len(keys) > 1 and len(statements) == 1:
            raise JournalCorrupt("damaged")
        raise JournalUnavailable("away")

    coalescer = Coalescer(ask_all, system, most=100, at_once=1)
    found = await asyncio.gather(*map(coalescer.ask, (1, 2, 3)), return_exceptions=True)
    assert [str(one) for one in found] == ["away"] * 3
    assert statements == [[1, 2, 3], [1]]
