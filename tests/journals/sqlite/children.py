"""Other processes for these tests: `child(mode, path)` starts this file as a program, which prints what it did, line by line.

A test waits for a line, never for time.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import PerdureError
from perdure.journal import Accepted, Commit, HeldBy
from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.commits import commit, event
from tests.journals.whole import next_commit
from tests.processes import die_with_parent

ROOT = Path(__file__).parents[3]


@contextmanager
def child(mode: str, path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.journals.sqlite.children", mode, str(path), *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """The next line, or what the child died of."""
    assert process.stdout is not None
    assert process.stderr is not None
    text = process.stdout.readline()
    assert text, f"the child ended: {process.stderr.read()}"
    return text.rstrip("\n")


def kill(process: subprocess.Popen[str]) -> list[str]:
    """SIGKILL, then whatever it had printed before."""
    process.kill()
    assert process.stdout is not None
    # Not communicate: it reads past the buffer that `line` has filled, and would begin in the middle of a line.
    output = process.stdout.read()
    process.wait()
    return output.split("\n")[:-1]  # the last one may be cut


def say(*words: object) -> None:
    print(*words, flush=True)


async def write(path: Path, generation: str) -> None:
    """Eight runs grow as fast as they can; every answer is printed once it is there."""
    journal = await SqliteJournal.open(path, partitions=8)

    async def grow(run_id: str) -> None:
        found = await journal.find_commit(run_id)
        seq = found.seq if found else 0
        while True:
            (answer,) = await journal.append([next_commit(run_id, seq, int(generation))])
            assert isinstance(answer, Accepted), answer
            say(run_id, seq, answer.seq)
            seq = answer.seq

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(grow(f"run{number}"))


async def hold(path: Path) -> None:
    """Hold the journal, write all the time, answer commands."""
    journal = await SqliteJournal.open(path, partitions=8)
    held = await journal.hold()
    say(f"held by {held.pid} {held.host}" if isinstance(held, HeldBy) else "holding")
    while True:
        found = await journal.find_commit("busy")
        await journal.append([commit("busy", found.seq if found else 0)])
        for command in await journal.read_commands():
            await journal.answer_command(command.command_id, b"answer to " + command.body)


async def command(path: Path, count: str) -> None:
    """Put commands and wait for their answers, as a second terminal would."""
    journal = await SqliteJournal.open(path)
    for number in range(int(count)):
        command_id = await journal.put_command("busy", b"%d" % number)
        answer = None
        while answer is None:
            answer = await journal.find_answer(command_id)
        say(answer.decode())
    await journal.close()


async def open_once(path: Path) -> None:
    """Wait for a line, then open: many children do it at the same moment."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    journal = await SqliteJournal.open(path, partitions=8)
    say(journal.partition_count, await journal.incarnation())
    await journal.close()


async def unprivileged(path: Path) -> None:
    """Open as somebody without rights on the file, for writing, then for reading."""
    # Python loads modules late, and may not be able to once the rights are gone: use everything once before.
    with tempfile.TemporaryDirectory() as folder:
        for read_only in (False, True):
            journal = await SqliteJournal.open(Path(folder) / "perdure.db", read_only=read_only)
            await journal.find_run("r1")
            await journal.close()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        await SqliteJournal.open(path)
        say("opened")
    except PerdureError as error:
        say(error.code, str(error))
    try:
        journal = await SqliteJournal.open(path, read_only=True)
        say("read", (await journal.get_run("r1")).seq)
        await journal.close()
    except PerdureError as error:
        say(error.code, str(error))


async def fill(path: Path) -> None:
    """Append until files may not grow any more, say so, let them grow, and append the same again."""
    journal = await SqliteJournal.open(path, partitions=8)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    seq = 0
    while True:
        try:
            (answer,) = await journal.append([_large(seq)])
            assert isinstance(answer, Accepted), answer
            seq = answer.seq
        except PerdureError as error:
            say(error.code, seq)
            break
    say("read", len(await journal.read_events("r1", limit=10**6)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for _ in range(3):
        (answer,) = await journal.append([_large(seq)])
        assert isinstance(answer, Accepted), answer
        seq = answer.seq
    say("done", seq)
    await journal.close()


def _large(seq: int) -> Commit:
    return commit("r1", seq, events=tuple(event(seq + number, b"x" * 8_000) for number in range(1, 6)))


if __name__ == "__main__":
    die_with_parent()
    modes = {"write": write, "hold": hold, "command": command, "open": open_once, "fill": fill}
    modes |= {"unprivileged": unprivileged}
    asyncio.run(modes[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))  # type: ignore[operator]
