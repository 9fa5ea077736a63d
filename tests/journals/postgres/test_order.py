"""Notices and commands become visible in the order of their numbers: whoever reads on after the last one misses nothing."""

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.conformance.journal.commits import commit
from tests.journals.postgres.helpers import until_waiting

WRITERS, EACH = 6, 40


@pytest.fixture
async def journals(url, open_journal):
    return [await open_journal(url, writers=1, readers=2) for _ in range(WRITERS)]


async def read_on(read, number_of, expected: int) -> list[bytes]:
    """As the listener does: only what is after the last one."""
    seen: list[bytes] = []
    after = 0
    while len(seen) < expected:
        rows = await read(after=after)
        seen += [row.body for row in rows]
        after = number_of(rows[-1]) if rows else after
    return seen


async def test_a_reader_of_notices_misses_none_of_many_writers(journals):
    async def write(number: int) -> None:
        for turn in range(EACH):
            body = b"%d %d" % (number, turn)
            await journals[number].append([commit(f"child {number} {turn}", notices=(("parent", body),))])

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        reading = group.create_task(read_on(journals[0].read_notices, lambda notice: notice.notice_id, WRITERS * EACH))
        for number in range(WRITERS):
            group.create_task(write(number))
    assert len(set(reading.result())) == WRITERS * EACH


async def test_a_reader_of_commands_misses_none_of_many_writers(journals):
    async def write(number: int) -> None:
        for turn in range(EACH):
            await journals[number].put_command("run", b"%d %d" % (number, turn))

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        reading = group.create_task(
            read_on(journals[0].read_commands, lambda command: command.position, WRITERS * EACH)
        )
        for number in range(WRITERS):
            group.create_task(write(number))
    assert len(set(reading.result())) == WRITERS * EACH


async def test_a_later_number_waits_for_an_earlier_one_to_be_seen(journals, url, admin):
    first, second = journals[:2]
    slow = await asyncpg.connect(url)
    async with asyncio.TaskGroup() as group, slow.transaction():
        await slow.execute("SELECT perdure.put_command('slow', 'run', 0, 0, '')")
        put = group.create_task(second.put_command("run", b"", command_id="quick"))
        await until_waiting(admin, 1)
        assert await first.read_commands() == []
        assert not put.done()
    await slow.close()
    assert [command.command_id for command in await first.read_commands()] == ["slow", "quick"]
