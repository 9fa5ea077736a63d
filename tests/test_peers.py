"""`make peers` without running a peer: tables and ratios are right, and every program does the same work."""

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from bench.peers import page, turns
from bench.peers.__main__ import put_into
from bench.peers.environments import REQUIREMENTS
from bench.peers.measures import BY_NAME, MEASURES, QUICK
from bench.peers.packages import find_all
from bench.peers.perdure_embedded import build
from bench.peers.pictures import PICTURES, draw
from bench.peers.process import Failed, descendants
from bench.peers.program import Harness, Shape
from bench.peers.subjects import PEERS, SUBJECTS
from bench.peers.table import find_best_peer, ratio, settle, settle_all, table_of_figures, table_of_ratios
from bench.peers.turns import Crash, read_record
from perdure.model import compile_definition

FOLDER = Path(page.__file__).parent
DUTIES = {"open", "prepare", "run", "resume", "close"}


def some_figures(**diamonds):
    return settle_all({subject.name: {"diamonds": [diamonds.get(subject.name, 1.0)]} for subject in SUBJECTS})


# -- tables


def test_a_ratio_says_how_many_times_as_good_in_both_directions():
    assert ratio(200.0, 50.0, BY_NAME["diamonds"]) == 4.0
    assert ratio(2.0, 8.0, BY_NAME["hop"]) == 4.0
    assert ratio("> 60 s", 8.0, BY_NAME["hop"]) is None


def test_the_best_peer_is_a_peer_and_has_a_figure():
    figures = some_figures(perdure_embedded=999.0, dbos=20.0, restate=30.0)
    figures["celery"]["diamonds"] = "> 60 s"
    assert find_best_peer(figures, BY_NAME["diamonds"]) == ("restate", 30.0)
    for peer, value in zip(PEERS, (5.0, 3.0, 4.0, 9.0, 8.0, 7.0), strict=True):
        figures[peer.name]["hop"] = value
    assert find_best_peer(figures, BY_NAME["hop"]) == (PEERS[1].name, 3.0)
    assert find_best_peer(figures, BY_NAME["lost"]) is None


def test_turns_settle_to_their_median_and_to_a_word_when_one_was_given_up():
    assert settle([3.0, 1.0, 2.0]) == 2.0
    assert settle([3.0, "> 60 s"]) == "> 60 s"
    assert settle([]) == "–"


def test_tables_have_a_row_for_each_measure_and_a_column_for_each_subject():
    figures = some_figures(perdure_embedded=900.0, langgraph=30.0)
    rows = table_of_figures(figures)
    assert [row[0] for row in rows[1:]] == [f"{measure.title}, {measure.unit}" for measure in MEASURES]
    assert {len(row) for row in rows} == {1 + len(SUBJECTS)}
    title, row = table_of_ratios(figures)
    assert row[1] == "LangGraph, 30.0 runs/s"
    assert row[title.index("Perdure embedded")] == "30 ×"
    assert row[title.index("LangGraph")] == "1.0 ×"
    assert row[title.index("DBOS")] == "0.03 ×"


def test_the_page_names_what_could_not_be_had():
    taken: dict[str, Any] = {subject.name: {measure.name: [1.0] for measure in MEASURES} for subject in SUBJECTS}
    taken["celery"]["fan-10000"] = ["> 60 s"]
    taken["prefect"] = {}
    found = {"quick": True, "missing": {"prefect": "no wheel"}, "versions": {}, "taken": taken, "loads": {}}
    text = page.render({**found, "conditions": ["load 1.0"]})
    assert "quick form" in text
    assert "- load 1.0" in text
    assert "- Celery, 1→10,000→1: given up after 60 s\n- Prefect: no wheel\n" in text
    whole = {**found, "missing": {}, "taken": {**taken, "celery": taken["dbos"], "prefect": taken["dbos"]}}
    assert "Nothing: every subject gave every figure" in page.render({**whole, "conditions": []})


def test_figures_that_are_taken_again_replace_only_their_own_and_the_page_says_so():
    kept = {name: {"dbos": name, "celery": name} for name in ("taken", "loads", "versions")}
    new = {"taken": {"celery": 1}, "loads": {"celery": 2}, "versions": {"celery": 3}, "missing": {}}
    found = put_into(
        {**kept, "missing": {"celery": "slow"}, "conditions": ["then"]}, {**new, "conditions": ["now", "load 2"]}
    )
    assert found["taken"] == {"dbos": "taken", "celery": 1}
    assert (found["loads"]["celery"], found["versions"]["celery"], found["missing"]) == (2, 3, {})
    assert found["conditions"] == ["then", "measured again, apart from the others: Celery: now; load 2"]


@pytest.mark.parametrize("measure", PICTURES)
def test_a_picture_has_a_bar_for_each_subject_and_colours_that_are_written_out(measure):
    figures = settle_all({subject.name: {measure: [2.0]} for subject in SUBJECTS if subject.name != "dbos"})
    svg = draw(measure, figures)
    assert all(subject.title in svg for subject in SUBJECTS)
    assert svg.count("<rect") == 1 + len(SUBJECTS)
    assert "var(" not in svg
    assert "class=" not in svg


# -- a crash


def test_a_crash_counts_what_was_interrupted_repeated_and_lost(tmp_path):
    record = tmp_path / "record"
    assert read_record(record) == []
    record.write_text("r1 a 1.0\nr1 b 1.1\nr1 c 1.1\nr1 d 1.2\nr2 a 1.0\nr2 b 1.2\nr3 a 1.2\nr3 b 1.")
    crash = Crash(read_record(record))  # the last line was cut off
    assert crash.started == {"r1", "r2", "r3"}
    assert crash.interrupted == {"r2", "r3"}
    after = [*read_record(record), ("r2", "b", 11.0), ("r2", "c", 11.0), ("r2", "d", 12.5)]
    figures = crash.compare(after, restarted=10.0, patience=45.0)
    assert figures == {"resumed": 1.0, "recovered": "> 45 s", "interrupted": 2.0, "repeated": 1.0, "lost": 1.0}
    all_of_it = [*after, ("r3", "d", 14.0)]
    assert crash.compare(all_of_it, restarted=10.0, patience=45.0)["recovered"] == 4.0


@pytest.mark.parametrize("under_way", [1, 0])
def test_an_engine_that_was_killed_between_two_runs_is_killed_again(tmp_path, monkeypatch, under_way):
    orders: list[dict[str, Any]] = []

    class Program:
        """Has one run under way at a time; at the second kill, `under_way` of them."""

        launched = 10.0

        def __init__(self, subject: Any, folder: Path, environment: dict[str, str]) -> None:
            self.record = Path(environment["PEERS_RECORD"])

        def ready(self) -> None: ...

        def order(self, **order: Any) -> None:
            orders.append(order)
            steps = [f"{order.get('prefix')}-{run} {node} 1.0\n" for run in range(2) for node in "abcd"]
            if order["do"] == "resume":
                steps = ["k1-1 d 12.0\n"]
            elif order["prefix"] == "k1" and under_way:
                steps = steps[:-1]
            with self.record.open("a") as record:
                record.writelines(steps)

        def answer(self, seconds: float) -> None: ...
        def close(self) -> None: ...
        def kill(self) -> None: ...

    monkeypatch.setattr(turns, "Process", Program)
    scale = QUICK._replace(kill_runs=2)
    turn = turns.Turn(SUBJECTS[0], tmp_path, {}, list, scale, lambda measure, value: None)
    if not under_way:
        with pytest.raises(Failed, match="killed 5 times, and no run was under way"):
            turn.killed()
        assert not turn.figures
        return
    turn.killed()
    assert [order.get("prefix") for order in orders] == ["k0", "k1", None]
    assert turn.figures == {"resumed": 2.0, "recovered": 2.0, "interrupted": 1.0, "repeated": 0.0, "lost": 0.0}


# -- programs


def test_every_program_has_a_subject_and_every_subject_a_program():
    programs = {
        path.stem for path in FOLDER.glob("*.py") if re.search(r"^    main\(\w+\(\)\)$", path.read_text(), re.MULTILINE)
    }
    assert programs == {subject.name for subject in SUBJECTS}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_program_does_the_same_work_and_says_whose_documentation_it_follows(subject):
    source = (FOLDER / f"{subject.name}.py").read_text()
    tree = ast.parse(source)
    assert re.search(r"Written as .*(docs\.[a-z.]+/|docs/)", ast.get_docstring(tree) or "", re.DOTALL)
    duties = [
        {one.name for one in node.body if isinstance(one, ast.AsyncFunctionDef)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]
    assert any(found >= DUTIES for found in duties)
    assert re.search(r"^    at_once = \d+", source, re.MULTILINE)
    if not subject.is_own:  # Perdure's graphs are compiled, below
        words = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        words |= {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
        words |= set("abcd") if "abcd" in words else set()
        assert words >= {"a", "b", "c", "d", "first", "last", "chain", "diamond"}


def test_perdure_is_given_the_same_graphs():
    edges = {"chain": 99, "diamond": 4, "fan": 2000}
    for kind, size in (("chain", 100), ("diamond", 0), ("fan", 1000)):
        ir = compile_definition(build(Shape(kind, size))).get_ir()
        nodes = build(Shape(kind, size))["nodes"]
        assert len(ir.nodes) == len(nodes) == {"chain": 100, "diamond": 4, "fan": 1002}[kind]
        assert sum(len(node["dependencies"]) for node in nodes) == edges[kind]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_requirements_are_pinned_and_name_no_host(peer):
    lines = (REQUIREMENTS / f"{peer.name}.txt").read_text().split()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!]*", line)] == []
    names = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    assert {re.split(r"\[", package)[0] for package in peer.packages} <= names
    for packages in REQUIREMENTS.glob(f"{peer.name}.npm"):
        assert all(re.fullmatch(r"@?[a-z/-]+@[0-9.]+", one) for one in packages.read_text().split())


class Counting:
    at_once = 3

    def __init__(self):
        self.runs = []
        self.under_way = self.most = 0

    async def run(self, shape, run):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.runs.append(run)

    async def open(self, folder):
        raise AssertionError("the program does that")

    async def close(self):
        raise AssertionError("the program does that")

    async def prepare(self, shape):
        self.shape = shape

    async def resume(self, shape, runs):
        self.runs += runs


async def test_the_harness_counts_the_runs_that_ended_and_never_names_one_twice():
    subject = Counting()
    harness = Harness(subject)
    many = await harness.do({"do": "many", "shape": "diamond", "prefix": "m", "seconds": 0.01})
    assert many["runs"] == len(subject.runs) > 0
    assert subject.most <= 3
    order = {"do": "each", "shape": "chain", "size": 100, "prefix": "e", "seconds": 0, "pause": 0}
    each = await harness.do({**order, "least": 2, "most": 5})
    assert subject.shape == Shape("chain", 100)
    assert len(each["times"]) == 2
    await harness.do({"do": "together", "shape": "diamond", "prefix": "t", "runs": 7})
    assert sum(run.startswith("t-") for run in subject.runs) == 7
    assert len(set(subject.runs)) == len(subject.runs)
    await harness.do({"do": "resume", "shape": "diamond", "runs": ["again"]})
    assert subject.runs[-1] == "again"


def test_packages_are_found_with_what_they_require_and_not_with_other_extras():
    found = find_all(["perdure"])
    assert {"perdure", "msgspec", "starlette", "anyio"} <= found.keys()
    assert "asyncpg" not in found
    assert "asyncpg" in find_all(["perdure[distributed]"])


def test_a_process_is_found_with_all_under_it():
    assert descendants(2**30) == [2**30]
