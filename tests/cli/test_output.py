"""Durations, tables and the tree, as people read them."""

import asyncio

import pytest

from tests.cli.helpers import human, task, workflow
from weft.cli import output
from weft.cli.tree import render
from weft.engine import Engine


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
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)
    if width >= 80:
        assert rows[0][0] in lines[1]


def test_tables_are_not_cut_elsewhere(capsys):
    output.print_table(["a", "b"], [["1", "x" * 300]])
    assert capsys.readouterr().out == f"A  B\n1  {'x' * 300}\n"


# -- the tree ----------------------------------------------------------------------------------------------------------


async def lines_of(folder, run_id, height=40):
    engine = await Engine.open(f"sqlite:///{folder / 'weft.db'}")
    try:
        return [line.plain for line in render(await engine.state(run_id), 0, height)]
    finally:
        await engine.close(0)


@pytest.fixture
def run(shell, tmp_path):
    def run(*nodes, code=0):
        file = workflow(tmp_path, "flow", *nodes)
        shell.run("run", file, "--run-id", "r1", "--no-wait", "--db", "weft.db", code=code)
        return asyncio.run(lines_of(tmp_path, "r1"))

    return run


def test_the_tree_says_what_each_node_waits_for(run):
    head, first, second, third = run(
        task("fetch", "echo"), human("review", "fetch", approvers=["finance"]), task("pay", "echo", "review"), code=3
    )
    assert "flow  running" in head
    assert "├─ ✓ fetch   completed" in first
    assert "◔ review  waiting" in second
    assert second.endswith("for a decision by finance")
    assert third == "└─ · pay   "


def test_the_tree_shows_attempts_and_errors(run):
    lines = run(task("a", "boom", retry={"max_attempts": 2, "backoff_ms": 1}), code=1)
    assert "✗ flow  failed" in lines[0]
    assert lines[1].endswith("attempt 2, error: ValueError: kaputt")


async def test_a_tree_that_is_too_high_shows_what_matters_and_counts_the_rest(shell, tmp_path):
    nodes = [task(f"n{number}", "echo") for number in range(60)]
    file = workflow(tmp_path, "wide", *nodes, human("review", approvers=["x"]))
    process = shell.start("run", file, "--run-id", "r1", "--no-wait", "--db", "weft.db")
    process.wait(3)
    lines = await lines_of(tmp_path, "r1", height=10)
    assert len(lines) <= 12
    assert any("review" in line for line in lines)
    assert lines[-1] == "└─ … 52 completed"


def test_a_very_long_value_is_cut_on_a_terminal_only(monkeypatch, capsys):
    value = list(range(1000))
    output.print_pretty(value)
    assert capsys.readouterr().out.count("\n") == 1002
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    output.print_pretty(value)
    shown = capsys.readouterr()
    assert shown.out.count("\n") == output.MAX_LINES
    assert "902 more lines" in shown.err
