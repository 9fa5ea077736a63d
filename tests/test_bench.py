"""What `make bench` says of figures that became worse, and the picture of costs against sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from bench import __main__ as bench
from bench import figures, scenarios
from bench.chart import draw
from bench.turns import find_function

ROOT = Path(__file__).parents[1]


def test_a_figure_is_slower_when_it_is_worse_by_more_than_the_tolerance():
    kept = {"chain": {"µs/hop": 100.0}, "diamonds": {"runs/s": 1000.0, "peak MB": 50.0}}
    now = {"chain": {"µs/hop": 124.0}, "diamonds": {"runs/s": 790.0, "peak MB": 70.0}, "new": {"µs": 9.0}}
    found = list(figures.find_slower(kept, now))
    assert [line.split(",")[0] for line in found] == ["diamonds: 790 runs/s", "diamonds: 70 peak MB"]
    assert list(figures.find_slower(kept, {"chain": {"µs/hop": 10.0}, "diamonds": {"runs/s": 9e9}})) == []


def test_where_the_machine_itself_is_slower_only_processor_time_and_memory_are_compared():
    kept = {"raw": {"µs a commit": 100.0}, "chain": {"µs/hop": 100.0, "processor µs/hop": 90.0, "peak MB": 50.0}}
    now = {"raw": {"µs a commit": 900.0}, "chain": {"µs/hop": 999.0, "processor µs/hop": 190.0, "peak MB": 90.0}}
    assert [line.split(",")[0] for line in figures.find_slower(kept, now)] == [
        "chain: 190 processor µs/hop",
        "chain: 90 peak MB",
    ]
    assert len(list(figures.find_slower(kept, {**now, "raw": {"µs a commit": 101.0}}))) == 3


def test_the_figures_kept_say_where_they_are_from_and_are_of_scenarios_that_there_are():
    kept = figures.read()
    assert kept is not None
    assert {"commit", "machine", "python", "date", "figures"} == set(kept)
    assert set(kept["figures"]) == {"raw", *bench.TITLES}


def test_with_json_nothing_else_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(bench, "measure", lambda wanted, *, silent: {"chain": {"µs/hop": 1e9}} if silent else None)
    assert bench.main(["--json", "chain"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["figures"] == {"chain": {"µs/hop": 1e9}}
    assert len(said["slower"]) == 1


def test_what_became_slower_is_named(monkeypatch, capsys):
    monkeypatch.setattr(bench, "measure", lambda wanted, *, silent: {"chain": {"µs/hop": 1e9}})
    assert bench.main(["chain"]) == 0
    assert "slower: chain: 1e+09 µs/hop" in capsys.readouterr().out


def test_an_unknown_scenario_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "chian"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown: chian; there are diamonds, chain" in done.stderr


def test_the_picture_is_well_formed_and_marks_what_grows():
    text = draw({"flat": [(10, 5.0), (1000, 5.5)], "grows <&>": [(10, 5.0), (1000, 500.0)]})
    root = ElementTree.fromstring(text)
    said = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"1.10", "100.00", "grows <&>"} <= set(said)
    assert "var(" not in text


def test_turns_need_another_tree(capsys, tmp_path):
    assert bench.main(["turns"]) == 2
    assert bench.main(["turns", str(tmp_path)]) == 2
    assert "another checkout" in capsys.readouterr().err


def test_turns_find_the_functions_of_an_older_tree_under_their_older_names():
    names = ("open", "register", "run_all")
    older = SimpleNamespace(_open=1, _register=2, _run_all=3)
    newer = SimpleNamespace(open_engine=4, register=5, run_all=6, _open=7)
    assert [find_function(older, name) for name in names] == [1, 2, 3]
    assert [find_function(newer, name) for name in names] == [4, 5, 6]
    assert find_function(scenarios, "open") is scenarios.open_engine


@pytest.mark.slow
def test_an_agent_is_measured_and_keeps_little_more_than_was_said(tmp_path):
    command = [sys.executable, "-m", "bench.agents", "--one", str(tmp_path), "20", "2", "2000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 0 < found["bytes"] < 4 * found["said"]


def test_a_shape_of_agents_that_is_not_known_is_named(capsys):
    assert bench.main(["agents", "5x"]) == 2
    assert "unknown: 5x; there are peers, 50x1" in capsys.readouterr().err
