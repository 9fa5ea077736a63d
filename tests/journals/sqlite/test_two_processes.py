"""A second process reads and commands while the first holds the file; a second coordinator is refused."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from perdure.journal import HeldBy, HolderLock
from perdure.journals.sqlite import SqliteJournal
from tests.journals.sqlite.children import child, kill, line

pytestmark = pytest.mark.slow


async def try_hold(path: Path) -> HolderLock | HeldBy:
    journal = await SqliteJournal.open(path)
    try:
        return await journal.hold()
    finally:
        await journal.close()


def test_a_second_holder_is_told_who_holds_and_the_lock_dies_with_its_process(tmp_path):
    path = tmp_path / "perdure.db"
    with child("hold", path) as first:
        assert line(first) == "holding"
        assert asyncio.run(try_hold(path)) == HeldBy(first.pid, socket.gethostname())
        with child("hold", path) as second:
            assert line(second) == f"held by {first.pid} {socket.gethostname()}"
        kill(first)
        assert not isinstance(asyncio.run(try_hold(path)), HeldBy)


def test_commands_of_a_second_process_are_answered_while_the_first_writes_all_the_time(tmp_path):
    path = tmp_path / "perdure.db"
    with child("hold", path) as holder:
        assert line(holder) == "holding"
        with child("command", path, "20") as caller:
            assert [line(caller) for _ in range(20)] == [f"answer to {number}" for number in range(20)]


def test_many_processes_make_one_file_together(tmp_path):
    path = tmp_path / "perdure.db"
    with child("open", path) as a, child("open", path) as b, child("open", path) as c, child("open", path) as d:
        everyone = [a, b, c, d]
        assert [line(each) for each in everyone] == ["ready"] * 4
        for each in everyone:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        assert [line(each) for each in everyone] == ["8 1"] * 4


@pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # 3.12 on: forking beside threads is what is tested
def test_a_forked_child_that_outlives_its_parent_does_not_hold(tmp_path):
    path = tmp_path / "perdure.db"
    read_end, write_end = os.pipe()
    ready_read, ready_write = os.pipe()

    async def fork_while_holding() -> int:
        journal = await SqliteJournal.open(path)
        held = await journal.hold()
        assert not isinstance(held, HeldBy)
        child_pid = os.fork()
        if child_pid == 0:
            os.close(write_end)
            os.write(ready_write, b"x")  # it runs, so it has dropped what it inherited
            os.read(read_end, 1)  # until the test ends
            os._exit(0)
        os.read(ready_read, 1)
        assert isinstance(await try_hold(path), HeldBy)
        await journal.close()
        return child_pid

    child_pid = asyncio.run(fork_while_holding())
    try:
        assert not isinstance(asyncio.run(try_hold(path)), HeldBy)
    finally:
        for end in (write_end, read_end, ready_read, ready_write):
            os.close(end)
        os.waitpid(child_pid, 0)
