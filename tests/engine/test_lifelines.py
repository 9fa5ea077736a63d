"""Lifelines: a process that died is known to be dead at once, one that lives or ended in order is not."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.runtime.lifelines import Lifelines, open_lifelines

HOLDER = """
import sys, time
from pathlib import Path
from perdure.runtime.lifelines import Lifelines
lifelines = Lifelines(Path(sys.argv[1]))
lifelines.tie("worker", "the other")
print("held", flush=True)
sys.stdin.read()
lifelines.close()
"""


@pytest.fixture
def holder(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_process_that_is_killed_is_found_dead_until_it_is_buried(tmp_path, holder):
    lifelines = Lifelines(tmp_path)
    lifelines.tie("worker", "me")
    assert lifelines.find_dead("worker") == []
    holder.kill()
    holder.wait()
    assert lifelines.find_dead("worker") == ["the other"]
    assert lifelines.find_dead("coordinator") == []
    lifelines.bury("worker", "the other")
    assert lifelines.find_dead("worker") == []
    lifelines.close()


def test_a_process_that_ends_in_order_leaves_nothing(tmp_path, holder):
    holder.stdin.close()
    assert holder.wait(60) == 0
    assert Lifelines(tmp_path).find_dead("worker") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_forked_child_that_outlives_its_parent_does_not_keep_it_alive(tmp_path):
    code = (
        "import os, sys, threading; from pathlib import Path; from perdure.runtime.lifelines import Lifelines\n"
        "lifelines = Lifelines(Path(sys.argv[1])); lifelines.tie('worker', 'the parent')\n"
        "if os.fork() == 0:\n    print(os.getpid(), flush=True); threading.Event().wait()\n"
        "os._exit(0)"
    )
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.wait()
        assert Lifelines(tmp_path).find_dead("worker") == ["the parent"]
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_a_folder_that_cannot_be_written_costs_no_more_than_the_lifeline(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    assert open_lifelines(tmp_path / "file" / "alive") is None
    assert open_lifelines(None) is None
    lifelines = Lifelines(tmp_path / "alive")
    (tmp_path / "alive").rmdir()
    lifelines.tie("worker", "me")
    assert "found by its silence" in caplog.text


def test_a_copy_of_a_lifeline_proves_no_death(tmp_path, holder):
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy)
    assert [path.name.startswith("worker-") for path in copy.iterdir()] == [True]
    assert Lifelines(copy).find_dead("worker") == []
    holder.kill()
    holder.wait()
    assert Lifelines(copy).find_dead("worker") == []
    assert Lifelines(tmp_path).find_dead("worker") == ["the other"]


@pytest.mark.slow
def test_another_machine_decides_by_silence(tmp_path, holder, monkeypatch):
    here = Lifelines(tmp_path)
    monkeypatch.setattr("perdure.runtime.lifelines._name_system", lambda: "another")
    there = Lifelines(tmp_path)
    holder.kill()  # its lock is let go, as it is never seen on the other machine
    holder.wait()
    assert there.find_dead("worker") == []
    assert here.find_dead("worker") == ["the other"]


def test_what_is_no_lifeline_is_passed_over(tmp_path):
    lifelines = Lifelines(tmp_path)
    lifelines.tie("worker", "the other")
    (mine,) = tmp_path.iterdir()
    lifelines.let_go()
    for number, text in enumerate((b"", b"the other", b"\xff\n1", mine.read_bytes())):
        (tmp_path / f"{mine.name}{number}").write_bytes(text)
    os.link(mine, tmp_path / f"{mine.name}linked")
    os.mkfifo(tmp_path / f"{mine.name}pipe")
    assert lifelines.find_dead("worker") == ["the other"]


def test_a_disk_that_can_only_be_read_ends_no_process_when_another_dies(tmp_path, holder, monkeypatch, caplog):
    """The coordinator beside the dead one ended by the error, and with it every other one that shared the folder."""
    lifelines = Lifelines(tmp_path)
    lifelines.tie("worker", "me")
    holder.kill()
    holder.wait()

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", refuse)
        lifelines.bury("worker", "the other")
        assert lifelines.find_dead("worker") == ["the other"]
        lifelines.close()
    assert "cannot be removed" in caplog.text
    assert sorted(Lifelines(tmp_path).find_dead("worker")) == ["me", "the other"]


def test_lifelines_of_earlier_boots_are_removed_when_they_are_old(tmp_path):
    """Those of this one stay, whatever their age: their processes may live, or have died and not been mourned."""
    other = "0123456789ab"
    first = Lifelines(tmp_path)
    first.tie("worker", "dead")
    (mine,) = tmp_path.iterdir()
    first.let_go()
    ages = {
        f"worker-{other}-old": 8,
        f"coordinator-{other}-old": 8,
        f".{mine.name}-77": 8,  # its process died before it was finished
        f"worker-{other}-new": 1,
        f".{mine.name}-78": 1,
        f"worker-{other}-locked": 8,
        "something else": 8,
    }
    now = mine.stat().st_mtime
    for name, days in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (now, now - days * 86_400))
    os.utime(mine, (now, now - 8 * 86_400))
    with (tmp_path / f"worker-{other}-locked").open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        second = Lifelines(tmp_path)
        second.tie("worker", "next")
    left = {path.name for path in tmp_path.iterdir()}
    gone = {f"worker-{other}-old", f"coordinator-{other}-old", f".{mine.name}-77"}
    assert left == {mine.name, *ages, second._path("worker", "next").name} - gone
    assert second.find_dead("worker") == ["dead"]
    second.close()
