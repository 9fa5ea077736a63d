"""`make stress`: the order is one that the seed decides, the same in every process, and what belongs together stays together."""

import itertools
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from perdure.simulation import plan
from tests.load import CHUNK, KINDS, draw_chunks, kind_of
from tests.shuffle import shuffle
from tests.stress import main


class Item:
    def __init__(self, folder, file, test):
        self.path = Path(folder, file)
        self.nodeid = f"{folder}/{file}::{test}"


def items():
    return [Item(*names) for names in itertools.product("abcd", "xyz", map(str, range(5)))]


def order(seed):
    found = items()
    shuffle(found, seed)
    return [item.nodeid for item in found]


def test_the_same_seed_is_the_same_order_and_another_is_another():
    assert order("1") == order("1")
    assert len({tuple(order(str(seed))) for seed in range(20)}) == 20
    assert sorted(order("1")) == sorted(item.nodeid for item in items())


@pytest.mark.parametrize("parts", [1, 2])
def test_tests_of_a_file_and_files_of_a_folder_stay_together(parts):
    for seed in range(20):
        groups = [tuple(name.split("::")[0].split("/")[:parts]) for name in order(str(seed))]
        assert len([one for one, _ in itertools.groupby(groups)]) == len(set(groups))


def test_every_round_has_an_order_of_its_own_and_one_that_fails_fails_it_all(monkeypatch, capfd):
    orders = []

    def run(command, check):
        orders.append(command[command.index("--shuffle") + 1])
        return subprocess.CompletedProcess(command, len(orders) == 2)

    monkeypatch.setattr("tests.stress.subprocess.run", run)
    assert main(["--rounds", "3", "--busy", "0"]) == 1
    assert len(set(orders)) == 3
    assert f"failed: make stress SEED={orders[1]}\n" in capfd.readouterr().out
    assert main(["--seed", "abc", "--busy", "0"]) == 0
    assert orders[3:] == ["abc"]


@pytest.fixture
def loads(monkeypatch):
    """The processes that keep the machine busy."""
    started = []
    popen = subprocess.Popen

    def start(command, **how):
        started.append(popen(command, **how))
        return started[-1]

    monkeypatch.setattr("tests.stress.subprocess.Popen", start)
    return started


def rounds(monkeypatch, body):
    """Instead of pytest."""

    def run(command, check):
        body()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("tests.stress.subprocess.run", run)


def test_every_kind_of_history_that_the_simulator_has_is_drawn_and_is_in_the_architecture():
    begins = {value for name, value in vars(plan).items() if name.endswith("_FROM")}
    assert {seeds.start for seeds in KINDS.values()} == begins | {0}
    page = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text()
    assert [seed for seed in begins if f"{seed:,}" not in page] == []
    for loads in (1, 2, 3):
        drawn = [*itertools.chain(*(itertools.islice(draw_chunks(one, loads), len(KINDS)) for one in range(loads)))]
        assert {kind_of(chunk.start) for chunk in drawn} == set(KINDS)
        assert all(kind_of(chunk.start) == kind_of(chunk[-1]) and len(chunk) == CHUNK for chunk in drawn)


@pytest.mark.slow
def test_the_load_simulates_fresh_histories_and_nothing_is_left_busy(monkeypatch, loads, capfd):
    said: list[str] = []

    def work():
        assert [process.poll() for process in loads] == [None, None]
        until(lambda: len(told(said, capfd, r"histories of \w+ \w+ from seed")) >= 2)

    rounds(monkeypatch, work)
    assert main(["--rounds", "1"]) == 0
    assert None not in [process.poll() for process in loads]
    one, several = told(said, capfd, r"histories of \w+ \w+ from seed (\d+) on")
    assert {kind_of(int(one)), kind_of(int(several))} == {"of one process", "of several coordinators"}
    assert len(told(said, capfd, r"\d+ histories of \w+ \w+: \d+ from \d+")) == 2
    assert "every round passed, and no history broke a promise" in "".join(said)


def told(said, capfd, pattern):
    said.append(capfd.readouterr().out)
    return re.findall(pattern, "".join(said))


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


@pytest.mark.slow
def test_a_history_that_breaks_a_promise_fails_it_all_and_says_how_to_repeat_it(monkeypatch, capfd):
    script = "import signal; print('from 40'); print('done'); print('broken 41 R2: stands still'); print('done', flush=True); signal.pause()"
    popen = subprocess.Popen
    command = [sys.executable, "-c", script]
    monkeypatch.setattr("tests.stress.subprocess.Popen", lambda _, **how: popen(command, **how))
    said: list[str] = []
    rounds(monkeypatch, lambda: until(lambda: told(said, capfd, "broke a promise")))
    assert main(["--rounds", "1", "--busy", "1"]) == 1
    assert told(said, capfd, "a history broke a promise: R2: stands still; again with: make sim SEED=41\n")
    assert told(said, capfd, "2 histories of one process: 2 from 40\n")
    assert told(said, capfd, "failed: make sim SEED=41\n")


@pytest.mark.slow
def test_a_load_that_ends_by_itself_fails_it_all(monkeypatch, loads, capfd):
    monkeypatch.setattr("tests.stress.sys.executable", shutil.which("true"))
    rounds(monkeypatch, lambda: loads[0].wait())
    assert main(["--rounds", "1", "--busy", "1"]) == 1
    assert "a load ended by itself" in capfd.readouterr().out


@pytest.mark.slow
def test_the_load_ends_with_whoever_started_it_even_when_that_is_killed():
    load = "subprocess.Popen([sys.executable, '-m', 'tests.load', '0', '1', str(os.getpid())])"
    command = [sys.executable, "-c", f"import os, signal, subprocess, sys; {load}; signal.pause()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().startswith("from ")
        assert parent.stdout.readline() == "done\n"
        parent.kill()
        for _ in parent.stdout:  # up to its end: nobody is left who could write
            pass
