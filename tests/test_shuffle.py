"""`make stress`: the order is one that the seed decides, the same in every process, and what belongs together stays together."""

import itertools
import subprocess
from pathlib import Path

import pytest

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
    assert f"failed with {orders[1]}\n" in capfd.readouterr().out
    assert main(["--seed", "abc", "--busy", "0"]) == 0
    assert orders[3:] == ["abc"]


@pytest.mark.slow
def test_nothing_is_left_busy(monkeypatch):
    started = []
    popen = subprocess.Popen

    def start(command):
        started.append(popen(command))
        return started[-1]

    def run(command, check):
        assert [process.poll() for process in started] == [None, None]
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("tests.stress.subprocess.Popen", start)
    monkeypatch.setattr("tests.stress.subprocess.run", run)
    main(["--rounds", "1"])
    assert None not in [process.poll() for process in started]
