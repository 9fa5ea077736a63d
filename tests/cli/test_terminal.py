"""What a person sees: the run live on a terminal, colours where they are wanted, and no complaint about a closed pipe."""

import re
import signal
import subprocess
import sys

import pytest

from tests.cli.helpers import human, task, wait_until, workflow
from tests.cli.screen import Screen
from tests.forking import commands

pytestmark = pytest.mark.slow
COLUMNS, ROWS = 100, 30


def screen_of(process, columns=COLUMNS, rows=ROWS):
    screen = Screen(columns, rows)
    screen.feed(process.text.replace("\r\n", "\n"))
    return screen


def shows(process, *texts, columns=COLUMNS, rows=ROWS):
    """Wait until all of these are on the screen at once."""

    def look():
        shown = "\n".join(screen_of(process, columns, rows).shown)
        return all(text in shown for text in texts)

    wait_until(look, f"{texts} on the screen:\n{process.text}")
    return screen_of(process, columns, rows)


# -- the live view -----------------------------------------------------------------------------------------------------


def test_a_run_is_shown_live_and_its_last_state_stays(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(
        tmp_path,
        "live",
        task("first", "echo"),
        task("second", "wait_until", "first", args={"path": str(gate)}),
        task("third", "echo", "second", args={"value": 3}),
    )
    process = shell.start_on_terminal("run", file, "--run-id", "r1")
    screen = shows(process, "✓ first", "second  running", "· third   after second", "live  running", "1/3")
    assert not screen.cursor_visible
    gate.touch()
    process.wait(0)
    screen = screen_of(process)
    assert screen.cursor_visible
    text = screen.text
    assert text.startswith("✓ live  completed  ")
    assert text.count("live  ") == 1  # one tree, changed in place
    assert next(line for line in text.splitlines() if "third" in line).startswith("└─ ✓ third   completed")
    assert text.endswith('{\n  "third": 3\n}')


def test_the_view_is_written_once_and_then_only_what_changes(shell, tmp_path):
    gate = tmp_path / "gate"
    nodes = [task(f"done{number}", "echo") for number in range(15)]
    file = workflow(tmp_path, "calm", *nodes, task("slow", "wait_until", args={"path": str(gate)}))
    process = shell.start_on_terminal("run", file, "--run-id", "r1")
    shows(process, "slow    running", "15/16")
    before = len(process.text)
    wait_until(lambda: len(re.findall("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", process.text[before:])) >= 8, "some frames")
    assert "done" not in process.text[before:]
    assert screen_of(process).erased == 0
    gate.touch()
    process.wait(0)


def test_retries_count_down_with_their_error(shell, tmp_path):
    there = tmp_path / "there"
    retry = {"max_attempts": 5, "backoff_ms": 3000, "jitter": False}
    file = workflow(tmp_path, "flaky", task("fetch", "fail_until", args={"path": str(there)}, retry=retry))
    process = shell.start_on_terminal("run", file)
    shows(process, "↻ fetch  retrying", "attempt 1 of 5 failed", "RuntimeError: not yet")
    waits = {float(number) for number in re.findall(r"again in (\d\.\d) s", process.text)}
    wait_until(
        lambda: min(float(n) for n in re.findall(r"again in (\d\.\d) s", process.text)) < max(waits), "a countdown"
    )
    there.touch()
    assert "completed" in process.wait(0)


def test_a_map_has_a_bar_and_a_loop_its_iteration(shell, tmp_path):
    gate = tmp_path / "gate"
    inner = {"type": "task", "config": {"function": "tests.cli.work:wait_until", "args": {"path": "{{ item }}"}}}
    there = tmp_path / "there"
    there.touch()
    config = {"over": [str(there), str(there), str(gate), str(gate)], "node": inner}
    again = task("again", "wait_until", args={"path": str(gate)}, loop={"condition": "false", "max_iterations": 7})
    file = workflow(tmp_path, "both", {"id": "each", "type": "map", "config": config}, again)
    process = shell.start_on_terminal("run", file)
    shows(process, "each   waiting", "━━━━━━━━━━────────── 2/4", "↺ 1 of 7")
    gate.touch()
    process.wait(0)


def test_what_functions_print_comes_out_above_the_tree(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(
        tmp_path,
        "loud",
        task("speak", "say", args={"text": "hello from a thread"}),
        task("wait", "wait_until", "speak", args={"path": str(gate)}),
    )
    process = shell.start_on_terminal("run", file)
    shows(process, "hello from a thread", "wait   running")
    gate.touch()
    process.wait(0)
    lines = screen_of(process).text.splitlines()
    assert lines[0] == "hello from a thread"
    assert lines[1].startswith("✓ loud  completed")


def test_more_nodes_than_rows_are_folded_and_fit(shell, tmp_path):
    gate = tmp_path / "gate"
    before = [task(f"before{number}", "echo") for number in range(50)]
    slow = task("slow", "wait_until", "before0", args={"path": str(gate)})
    after = [task(f"after{number}", "echo", "slow") for number in range(50)]
    file = workflow(tmp_path, "many", *before, slow, *after)
    process = shell.start_on_terminal("run", file, size=(60, 12))
    screen = shows(process, "slow", "47 completed", "pending", "50/101", columns=60, rows=12)
    assert screen.top == 0  # nothing has scrolled away
    assert len([line for line in screen.shown if line]) <= 11
    gate.touch()
    process.wait(0)
    assert max(map(len, screen_of(process, 60, 12).lines)) <= 60


def test_a_question_folds_the_tree_and_the_answer_brings_it_back(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review", approvers=["finance"]), task("pay", "echo", "review"))
    process = shell.start_on_terminal("run", file, "--run-id", "r1")
    screen = shows(process, "◔ refund  waiting", "? review asks for a decision (for finance)", "[a]pprove")
    assert screen.cursor_visible
    assert "├─" not in screen.text
    process.type("a\n")
    process.wait_for("Comments")
    process.type("\n")
    process.wait(0)
    text = screen_of(process).text
    assert "├─ ✓ review  completed" in text
    assert text.count("├─ ") == 1


def test_ctrl_c_leaves_the_tree_and_says_how_to_go_on(shell, tmp_path):
    gate = tmp_path / "gate"
    workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}), task("b", "echo", "a"))
    process = shell.start_on_terminal("run", "long.json", "--run-id", "r1")
    shows(process, "a  running")
    process.signal(signal.SIGINT)
    process.wait_for("has 10 s to finish")
    gate.touch()
    process.wait(130)
    screen = screen_of(process)
    assert screen.cursor_visible
    assert "Stopped; nothing is lost. To go on:\n  perdure run long.json --run-id r1\n" in screen.text
    assert screen.text.endswith("Another `perdure run` on this database goes on with it, too, unless it has --only.")


def test_watch_shows_the_same_tree(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}))
    first = shell.start("run", file, "--run-id", "r1").wait_for("queued")
    second = shell.start_on_terminal("runs", "watch", "r1")
    shows(second, "long  running", "a  ")
    gate.touch()
    second.wait(0)
    assert screen_of(second).text.startswith("✓ long  completed")
    first.wait(0)


# -- colour and pipes --------------------------------------------------------------------------------------------------

COLOUR = re.compile(r"\x1b\[[\d;]*3[0-7][\d;]*m|\x1b\[[\d;]*9[0-7]m")


@pytest.fixture
def one(shell, tmp_path):
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": 1}))
    shell.run("run", file, "--run-id", "r1")
    return file


def test_there_is_colour_on_a_terminal(shell, one):
    for args in (["runs", "list"], ["runs", "show", "r1"], ["run", one]):
        process = shell.start_on_terminal(*args)
        process.wait(0)
        assert COLOUR.search(process.text), args


@pytest.mark.parametrize("args", [["runs", "list"], ["runs", "show", "r1"], ["run"], ["validate"]], ids=" ".join)
@pytest.mark.parametrize(
    ("environment", "flags"), [({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({}, ["--no-color"])], ids=str
)
def test_there_is_none_where_it_is_not_wanted(shell, one, tmp_path, args, environment, flags):
    (tmp_path / "bad.yaml").write_text("nodes: 3\n")
    more = {"run": [one], "validate": ["bad.yaml"]}.get(args[0], [])
    process = shell.start_on_terminal(*args, *more, *flags, environment=environment)
    process.wait(2 if args[0] == "validate" else 0)
    assert COLOUR.search(process.text) is None, process.text


def test_no_color_may_stand_before_the_command(shell, one):
    process = shell.start_on_terminal("--no-color", "runs", "list")
    process.wait(0)
    assert COLOUR.search(process.text) is None


def test_a_dumb_terminal_gets_lines_and_no_controls(shell, one):
    process = shell.start_on_terminal("run", one, "--run-id", "r2", environment={"TERM": "dumb"})
    process.wait(0)
    assert "run  " in process.text
    assert "\x1b" not in process.text


def test_neither_colour_nor_controls_leave_for_a_file(shell, one):
    for args in (["runs", "list"], ["runs", "show", "r1"], ["run", one, "--run-id", "r3"]):
        assert "\x1b" not in shell.start(*args).wait(0)


def test_a_closed_pipe_ends_it_quietly(shell, tmp_path):
    nodes = [task(f"node{number}", "echo", args={"value": "x" * 200}) for number in range(300)]
    file = workflow(tmp_path, "large", *nodes)
    shell.run("run", file, "--run-id", "r1")
    forked, interpreter = f"env -u PYTHONPATH {commands()}/perdure", f"{sys.executable} -m perdure"
    for command in (
        *(f"{forked} runs {what}" for what in ("list", "events r1", "events r1 --json", "export r1", "show r1")),
        f"{forked} graph {file}",
        f"{interpreter} --help",
        f"{interpreter} runs events r1",
    ):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} | head -c 1 >/dev/null"],
            cwd=tmp_path,
            env=shell.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == "", command
        assert done.returncode in (0, 141), command  # 0: all of it fitted into the pipe


def test_children_may_start_and_end_while_the_tree_is_drawn(shell, tmp_path):
    (tmp_path / "family.py").write_text(
        "import threading\n"
        "import perdure\n\n"
        "@perdure.task\n"
        "def slowly(number: int) -> int:\n"
        "    threading.Event().wait(0.02)\n"
        "    return number\n\n"
        "@perdure.workflow\n"
        "def child(number: int):\n"
        "    return slowly(number)\n\n"
        "@perdure.workflow\n"
        "def family():\n"
        "    return perdure.map(child, list(range(60)), max_concurrency=5)\n"
    )
    text = shell.start_on_terminal("run", "family.py:family").wait(0)
    assert "completed" in text
    assert "bug in Perdure" not in text
