"""Claims: after `kill -9`, exactly the tasks that ran are known."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perdure.runtime.worker.claim_file import SLOT_BYTES, Claims, Owner, Running, claim_name
from tests.runtime.harness import make_task, wait_until, working


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "perdure.db.claims"


def test_nothing_is_left_where_there_is_no_file(path):
    assert Claims.read_left(path) == []


def test_what_was_entered_and_not_left_is_read_by_the_next(path):
    claims = Claims(path, 3)
    claims.enter(0, "r1/a/1.1")
    claims.enter(1, "r1/b/1.1")
    claims.enter(2, "r1/c/1.1")
    claims.leave(1)
    assert Claims.read_left(path) == ["r1/a/1.1", "r1/c/1.1"]
    assert path.stat().st_size == 4 * SLOT_BYTES  # the last one says whose they are
    assert path.stat().st_mode & 0o777 == 0o600


def test_opening_clears(path):
    Claims(path, 2).enter(0, "r1/a/1.1")
    Claims(path, 4)
    assert Claims.read_left(path) == []


def test_closing_takes_the_file_away(path):
    claims = Claims(path, 1)
    claims.close()
    claims.close()
    assert not path.exists()


def test_a_shorter_name_in_the_same_slot_is_read_alone(path):
    claims = Claims(path, 1)
    claims.enter(0, "a long name that was here before")
    claims.leave(0)
    claims.enter(0, "short")
    assert Claims.read_left(path) == ["short"]


def test_names_too_long_for_a_slot_are_told_apart(path):
    one, other = "ü" * 600 + "1", "ü" * 600 + "2"
    claims = Claims(path, 2)
    claims.enter(0, one)
    claims.enter(1, other)
    assert Claims.read_left(path) == [claim_name(one), claim_name(other)]
    assert claim_name(one) != claim_name(other)
    assert claim_name("short") == "short"


def test_a_damaged_file_gives_no_nonsense(path):
    path.write_bytes(b"\xff" * SLOT_BYTES + b"\x00" * 100)
    assert Claims.read_left(path) == []


async def test_a_worker_claims_what_runs_and_nothing_else(path):
    claims, entered, go = Claims(path, 2), threading.Event(), threading.Event()

    def handler(config, ctx):
        entered.set()
        go.wait(20)

    async with working(handler, concurrency=2, claims=claims) as h:
        await h.publish(make_task("a"), make_task("once", effect="at_most_once"))
        await wait_until(entered.is_set, "the handler has begun")
        assert Claims.read_left(path) == [make_task("a").task_id]
        go.set()
        await h.result()
        await wait_until(lambda: h.worker.free_slots == 1, "the slot is free")
        assert Claims.read_left(path) == []


async def test_a_worker_needs_a_claim_for_each_slot(path):
    with pytest.raises(ValueError, match="claims for 4 slots"):
        async with working(claims=Claims(path, 3)):
            pass


@pytest.mark.slow
async def test_a_killed_process_leaves_the_names_of_what_it_ran(path):
    code = (
        "import sys, threading; from perdure.runtime.worker.claim_file import Claims; claims = Claims(sys.argv[1], 4);"
        "claims.enter(0, 'r1/a/1.1'); claims.enter(1, 'r1/b/1.1'); claims.leave(0);"
        "print('ready', flush=True); threading.Event().wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"ready\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert Claims.read_left(path) == ["r1/b/1.1"]


# -- seen by others ----------------------------------------------------------------------------------------------------


def test_what_runs_is_read_with_its_worker_and_since_when_while_that_lives(path):
    claims = Claims(path, 2, owner=Owner("local-1", "box", 7))
    claims.enter(1, "r1/a/1.1", 12.5)
    assert Claims.read_live(path) == (Owner("local-1", "box", 7), [Running("r1/a/1.1", 12.5)])
    claims.leave(1)
    assert Claims.read_live(path) == (Owner("local-1", "box", 7), [])
    claims.close()
    assert Claims.read_live(path) is None


def test_looking_at_claims_does_not_take_them_away(path):
    claims = Claims(path, 1, owner=Owner("w"))
    for _ in range(3):
        assert Claims.read_live(path) is not None
    claims.close()


@pytest.mark.slow
async def test_nothing_is_seen_of_a_process_that_was_killed_though_its_claims_are_left(path):
    code = (
        "import sys, threading; from perdure.runtime.worker.claim_file import Claims; claims = Claims(sys.argv[1], 4);"
        "claims.enter(0, 'r1/a/1.1', 1.0); print('ready', flush=True); threading.Event().wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"ready\n"
    assert Claims.read_live(path) == (Owner(""), [Running("r1/a/1.1", 1.0)])
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert Claims.read_live(path) is None
    assert Claims.read_left(path) == ["r1/a/1.1"]


@pytest.mark.slow
def test_a_forked_child_that_outlives_its_parent_does_not_keep_it_alive(path):
    code = (
        "import os, sys, threading; from perdure.runtime.worker.claim_file import Claims; claims = Claims(sys.argv[1], 1);"
        "claims.enter(0, 'r1/a/1.1', 1.0)\n"
        "if os.fork() == 0:\n    print(os.getpid(), flush=True); threading.Event().wait()\n"
        "os._exit(0)"
    )
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.wait()
        assert Claims.read_live(path) is None
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()
