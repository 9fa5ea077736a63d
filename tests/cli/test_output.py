"""Durations, tables and the tree, as people read them."""

import asyncio

import pytest

from perdure.cli.runs.details import print_node, print_run
from perdure.cli.terminal import output
from perdure.cli.terminal.lines import _describe_wait
from perdure.cli.terminal.tree import render
from perdure.engine import Engine
from perdure.kernel import commands as c
from perdure.kernel.events import NodeWaiting
from perdure.kernel.readings.run_view import run_view
from perdure.kernel.values import Error, Wait
from perdure.service.views import node_with_visits
from tests.cli.helpers import human, task, workflow
from tests.kernel.inner_triggers import Inner
from tests.kernel.rules.graphs import items, start
from tests.kernel.test_seen import MAP, seen


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""), (0, "0 ms"), (0.0994, "99 ms"), (0.0996, "0.1 s"), (59.9, "59.9 s"), (59.96, "1 min 00 s"),
        (61, "1 min 01 s"), (3600, "1 h 00 min"), (172_800, "2 days"), (-1, "0 ms"),
    ],
)  # fmt: skip
def test_durations(seconds, text):
    assert output.duration(seconds) == text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_fit_the_terminal(monkeypatch, capsys, width):
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [["01a1de7831ce72dcb25bd8fa24ecd22d", "enrich", "completed", "5 min ago", "1.1 s", "an error " * 20]]
    output.print_table(["run", "workflow", "state", "created", "took", "error"], rows, flexible="error")
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    assert "an error" in "".join(lines), "the column that matters is gone"
    if width >= 80:
        assert rows[0][0] in lines[1]


def test_tables_are_not_cut_elsewhere(capsys):
    output.print_table(["a", "b"], [["1", "x" * 300]])
    assert capsys.readouterr().out == f"A  B\n1  {'x' * 300}\n"


@pytest.mark.parametrize("long", ["before", "after", "both"])
def test_both_sides_of_a_difference_are_seen_on_eighty_columns(monkeypatch, capsys, long):
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    before, after = ("b" * (200 if long != "after" else 5)), ("a" * (200 if long != "before" else 5))
    rows = [["collect_the_payments", "output.total.amount", before, after]]
    output.print_table(["node", "where", "before", "after"], rows, flexible="after")
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["node", "where", "before", "after"]
    assert "bbbbb" in line
    assert "aaaaa" in line
    assert len(line) <= 80


def test_the_flexible_column_stands_below_before_a_state_is_cut(monkeypatch, capsys):
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "72")
    rows = [["01a1de7831ce72dcb25bd8fa24ecd22d", "enrich", "completed", "5 min ago", "1.1 s", "an error " * 20]]
    output.print_table(["run", "workflow", "state", "created", "took", "error"], rows, flexible="error")
    _, line, below = capsys.readouterr().out.splitlines()
    assert line.split() == [*rows[0][0:3], "5", "min", "ago", "1.1", "s"]
    assert below.startswith("  error: an error an error")
    assert below.endswith("…")
    assert len(below) <= 72


def test_a_table_without_rows_has_its_head(capsys):
    output.print_table(["a", "b"], [])
    assert capsys.readouterr().out == "A  B\n"


# -- the tree ----------------------------------------------------------------------------------------------------------


async def lines_of(folder, run_id, width=100, height=40):
    engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
    try:
        return [line.plain for line in render(await engine.runs.state(run_id), 0, width, height)]
    finally:
        await engine.close(0)


@pytest.fixture
def run(shell, tmp_path):
    def run(*nodes, code=0, width=100, height=40):
        file = workflow(tmp_path, "flow", *nodes)
        shell.run("run", file, "--run-id", "r1", "--no-wait", "--db", "perdure.db", code=code)
        return asyncio.run(lines_of(tmp_path, "r1", width, height))

    return run


def test_the_tree_says_what_each_node_waits_for(run):
    head, first, second, third = run(
        task("fetch", "echo"), human("review", "fetch", approvers=["finance"]), task("pay", "echo", "review"), code=3
    )
    assert head.startswith("⠋ flow  running  ━━━━━─────────── 1/3  ")
    assert "├─ ✓ fetch   completed" in first
    assert "◔ review  waiting" in second
    assert second.endswith("for a decision by finance")
    assert third == "└─ · pay     after review"


def test_the_tree_shows_attempts_and_errors(run):
    lines = run(task("a", "boom", retry={"max_attempts": 2, "backoff_ms": 1}), code=1)
    assert "✗ flow  failed" in lines[0]
    assert "attempt 2  ValueError: kaputt (work.py:" in lines[1]


def test_the_tree_shows_iterations_and_the_way_taken(run):
    lines = run(
        {
            "id": "again",
            "type": "transform",
            "config": {"value": "{{ loop.iteration }}"},
            "loop": {"condition": "output < 3", "max_iterations": 5},
        },
        {
            "id": "route",
            "type": "transform",
            "dependencies": ["again"],
            "config": {"value": 1},
            "branch": {"type": "conditional", "rules": [{"condition": "output > 0", "next_nodes": ["yes"]}]},
        },
        {"id": "yes", "type": "transform", "config": {"value": 1}},
    )
    assert lines[1].endswith("↺ 3 of 5")
    assert lines[2].endswith("→ yes")


def test_the_tree_shows_the_progress_of_a_map(run):
    config = {"over": [1, 2, 3, 4], "node": {"type": "human", "config": {}}}
    lines = run({"id": "each", "type": "map", "config": config}, code=3)
    assert "◔ each  waiting" in lines[1]
    assert lines[1].endswith("──────────────────── 0/4")


@pytest.mark.parametrize("width", [30, 50, 80])
def test_the_tree_fits_narrow_terminals(run, width):
    long = "a_node_with_a_name_that_is_much_longer_than_the_terminal_is_wide"
    lines = run(task(long, "echo"), human("review", long, approvers=["finance"]), code=3, width=width)
    row = next(line for line in lines if "review" in line)
    assert len(row.split("review")[0]) <= 6
    assert all(len(line.split("  ")[0]) <= width for line in lines)
    assert ("waiting" in row) == (width >= 60)


@pytest.mark.parametrize("height", range(1, 12))
def test_the_tree_never_has_more_lines_than_there_is_room_for(run, height):
    nodes = [task(f"n{number}", "echo") for number in range(5)]
    later = [task(f"z{number}", "echo", "review") for number in range(5)]
    lines = run(*nodes, human("review"), *later, code=3, height=height)
    assert 1 <= len(lines) <= height
    assert "flow  running" in lines[0]


@pytest.mark.slow
async def test_a_tree_that_is_too_high_folds_what_has_ended_and_what_is_to_come(shell, tmp_path):
    nodes = [task(f"n{number}", "echo") for number in range(60)]
    later = [task(f"z{number}", "echo", "review") for number in range(40)]
    file = workflow(tmp_path, "wide", *nodes, human("review", approvers=["x"]), *later)
    process = shell.start("run", file, "--run-id", "r1", "--no-wait", "--db", "perdure.db")
    process.wait(3)
    lines = await lines_of(tmp_path, "r1", height=10)
    assert len(lines) == 10
    assert lines[1] == "├─ ✓ 57 completed"  # the latest three stay in sight
    assert sum("completed  " in line for line in lines) == 3
    assert any("review" in line for line in lines)
    assert lines[-1] == "└─ … 37 pending"


def test_a_very_long_value_is_cut_on_a_terminal_only(monkeypatch, capsys):
    value = list(range(1000))
    output.print_pretty(value)
    assert capsys.readouterr().out.count("\n") == 1002
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    output.print_pretty(value)
    shown = capsys.readouterr()
    assert shown.out.count("\n") == output.MAX_LINES
    assert "902 more lines" in shown.err


def test_a_trigger_inside_a_run_shows_what_is_parked_of_it(capsys):
    run = Inner()
    run.wait()
    run.receive(items=(c.Delivered(id="x", error=Error("unreadable", "row 7")),), cursor="x")
    print_run(run_view(run.state))
    said = capsys.readouterr()
    assert "1 item parked (unreadable: row 7)" in said.out
    assert "perdure dlq list --run-id run" in said.err
    print_node({**node_with_visits(run.state, "take"), "attempts": []})
    said = capsys.readouterr()
    assert "1 item parked (unreadable: row 7)" in said.out
    assert "perdure dlq list --run-id run" in said.err


def test_a_map_says_how_many_of_its_items_are_open_and_how_many_are_executed(capsys):
    run = start(MAP, inputs={"list": [1, 2, 3]})
    items(run, "m", 3)
    view = run_view(run.state, seen=seen(run, "m", item=1))
    print_run(view)
    assert "0 items completed, 0 failed, 3 open (1 running)" in capsys.readouterr().out
    print_node({**node_with_visits(run.state, "m"), "attempts": []})
    assert "0 items completed, 0 failed, 3 open\n" in capsys.readouterr().out, "what is executed is not known"


@pytest.mark.parametrize(("seconds", "said"), [(3_600, "until 09:00:00"), (604_800, "until 2026-11-25 08:00:00 UTC")])
def test_a_wait_of_days_is_shown_with_its_date(seconds, said):
    began = 1_794_988_800.0  # 2026-11-18 08:00
    waiting = NodeWaiting(seq=1, node="paid", at=began, wait=Wait("event", name="order.paid", until=began + seconds))
    assert _describe_wait(waiting, "paid") == ("paid", "waiting", f"for the event order.paid, {said}")
