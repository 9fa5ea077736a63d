"""What people read: each thing that a newcomer of 80 columns stumbled over."""

import json
import re

import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from perdure.cli.frame.problems import look_at
from perdure.cli.run import tell_left
from perdure.cli.terminal import output
from perdure.cli.terminal.speech import style, wrap
from tests.cli.helpers import DEADLINE_SECONDS, human, task, workflow
from tests.cli.screen import Screen
from tests.kernel.rules.graphs import node, start

RUN = "01a1de7831ce72dcb25bd8fa24ecd22d"


def on_terminal(shell, *args, columns=80):
    """The lines that a command writes on a terminal, without colours."""
    process = shell.start_on_terminal(*args, size=(columns, 30))
    process.popen.wait(DEADLINE_SECONDS)
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", process.wait(process.popen.returncode)).replace("\r", "").splitlines()


# -- maps --------------------------------------------------------------------------------------------------------------


def mapped(**more):
    item = {"type": "task", "retry": 1, "config": {"function": "tests.cli.work:boom", "args": {"x": "{{ item }}"}}}
    return {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": item}, **more}


def test_a_parked_map_is_one_dead_letter_with_the_list_it_went_over(shell, tmp_path):
    file = workflow(tmp_path, "many", mapped(on_failure="park"))
    shell.run("run", file, "--run-id", "x", "--no-wait", "-i", "list=[7,8]", code=3)
    assert [one["dead_letter_id"] for one in shell.json("dlq", "list")["items"]] == ["x:m"]
    shown = shell.json("dlq", "show", "x:m")
    assert shown["problem"] is None
    assert shown["config"]["over"] == [7, 8]
    assert shown["config"]["node"]["config"]["args"] == {"x": "{{ item }}"}
    text = shell.run("dlq", "show", "x:m").stdout
    assert "is missing" not in text
    assert '"over"' in text


def test_a_map_is_compensated_though_its_items_read_what_only_they_have(shell, tmp_path):
    undo = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": "{{ config.over }}"}}}
    item = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": "{{ item }}"}}}
    made = {"id": "m", "type": "map", "config": {"over": [1, 3], "node": item}, "compensator": undo}
    file = workflow(tmp_path, "undone", made, task("z", "boom", "m", retry=1), on_failure={"compensate": True})
    view = shell.json("run", file, "--no-wait", code=1)
    assert (view["state"], view["nodes"]["m"]["state"]) == ("failed", "compensated")


# -- the path ----------------------------------------------------------------------------------------------------------


def test_the_path_of_a_loop_goes_back_to_its_head(shell, tmp_path):
    loop = {"condition": "output.n < 2", "max_iterations": 3, "loop_back_to": "draft"}
    draft = {"id": "draft", "type": "transform", "config": {"value": 1}}
    review = {
        "id": "review",
        "type": "transform",
        "dependencies": ["draft"],
        "config": {"value": {"n": "{{ loop.iteration }}"}},
        "loop": loop,
    }
    shell.run("run", workflow(tmp_path, "again", draft, review), "--run-id", "l")
    steps = shell.json("runs", "path", "l")["items"]
    assert [(one["node"], one["taken"], one["back"]) for one in steps] == [
        ("draft", ["review"], False),
        ("review", ["draft"], True),
        ("draft", ["review"], False),
        ("review", [], False),
    ]
    lines = [line.split() for line in shell.run("runs", "path", "l").stdout.splitlines()]
    assert ["review[1]", "draft", "loop.back"] in [line[-3:] for line in lines]


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")


def test_the_id_that_names_a_row_is_never_cut_and_columns_go_below_instead(terminal, capsys):
    name = f"{RUN}:ask-the-head-of-the-department"
    rows = [[name, "pending", "ann, bob", "4 s ago", "in 3 min 20 s", '{"amount": 12}']]
    output.print_table(["approval", "state", "for", "asked", "until", "shown"], rows, flexible="shown")
    _, line, below, shown = capsys.readouterr().out.splitlines()
    assert line.split() == [name, "pending"]
    assert below == "  for: ann, bob  asked: 4 s ago  until: in 3 min 20 s"
    assert shown == '  shown: {"amount": 12}'


def test_an_id_that_is_longer_than_the_terminal_is_whole(terminal, capsys):
    output.print_table(["approval", "state"], [["x" * 100, "pending"]])
    assert "x" * 100 in capsys.readouterr().out


def test_columns_that_say_nothing_go_first(terminal, capsys):
    columns = ["key_id", "name", "roles", "scopes", "created", "expires", "last used", "state"]
    rows = [["0123456789abcdef", "continuous", "operator, author", "", "3 min ago", "", "", "valid"]] * 2
    output.print_table(columns, rows, flexible="scopes")
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["key_id", "name", "roles", "created", "state"]
    assert [line.split()[-1] for line in lines] == ["valid", "valid"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(599, "9 min 59 s"), (600, "10 min"), (3599, "59 min"), (3600, "1 h 00 min")]
)
def test_a_duration_of_many_minutes_has_no_seconds_in_a_table(terminal, seconds, text):
    assert output.brief(seconds) == text


@pytest.mark.slow
def test_the_error_of_a_run_is_said_once(shell, tmp_path):
    shell.run("run", workflow(tmp_path, "bad", task("a", "boom", retry=1)), code=1)
    assert "error: " not in shell.run("runs", "list").stdout.splitlines()[1]


@pytest.mark.slow
def test_keys_fit_eighty_columns(shell):
    shell.run("keys", "create", "continuous-integration", "--role", "operator", "--role", "author")
    head, line = on_terminal(shell, "keys", "list")
    assert head.split()[-1] == "state"
    assert re.fullmatch(r"[0-9a-f]+  continuous-integration  operator, author  (just now|\d+ s ago) +valid", line)


def test_lines_of_a_run_that_is_undone_stay_in_columns(shell, tmp_path):
    undo = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": 1}}}
    made = task("a", "echo", args={"value": 1}, compensator=undo)
    file = workflow(tmp_path, "undone", made, task("z", "boom", "a", retry=1), on_failure={"compensate": True})
    said = shell.run("run", file, code=1).stderr.splitlines()
    details = {line.index(more) for line in said for more in ("because z failed", "undone version 1") if more in line}
    plan = next(line for line in said if "compensating" in line)
    assert details == {plan.index("compensating") + len("compensating  ")}


def test_one_item_is_no_items(shell, tmp_path):
    item = {"type": "transform", "config": {"value": "{{ item }}"}}
    shell.run(
        "run",
        workflow(tmp_path, "one", {"id": "m", "type": "map", "config": {"over": [1], "node": item}}),
        "--run-id",
        "r",
    )
    assert "1 item completed, 0 failed" in shell.run("runs", "show", "r").stdout


# -- long lines --------------------------------------------------------------------------------------------------------


def test_text_is_broken_between_words_and_never_inside_what_is_copied():
    said = "Run r waits for its turn, which `perdure runs explain r` explains; watch it with: perdure runs watch r"
    assert wrap(said, 44).split("\n") == [
        "Run r waits for its turn, which",
        "  `perdure runs explain r` explains; watch",
        "  it with: perdure runs watch r",
    ]
    assert wrap("Watch it with: perdure runs watch r", 30) == "Watch it with:\n  perdure runs watch r"
    assert wrap(said, 0) == said
    assert wrap("  perdure run a-file.yaml --run-id r", 10) == "  perdure run a-file.yaml --run-id r"
    assert wrap("an odd ` tick", 9) == "an odd `\n  tick"


def test_colours_take_no_room():
    red = style("Error: ", fg="red", bold=True)
    assert wrap(f"{red}no such run", 18) == f"{red}no such run"


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [("runs", "show", "nosuch"), ("run", "nosuch.yaml"), ("runs", "list", "--state", "no")]
)
def test_errors_fit_eighty_columns(shell, tmp_path, args):
    shell.run("run", workflow(tmp_path, "flow", task("a", "echo", args={"value": 1})), "--run-id", "r")
    lines = on_terminal(shell, *args)
    assert all(len(line) <= 80 for line in lines), lines


def test_the_mark_of_a_problem_is_seen_where_the_line_is_longer_than_the_terminal(shell, tmp_path):
    (tmp_path / "long.yaml").write_text(
        "name: long\nnodes:\n"
        "  - {id: a, type: transform, config: {value: 1}}\n"
        '  - {id: review, type: transform, dependencies: [a], config: {value: {n: "some more text"}}, unknwon: 1}\n'
    )
    lines = on_terminal(shell, "validate", "long.yaml")
    number = next(n for n, line in enumerate(lines) if "| " in line)
    line, mark = lines[number], lines[number + 1]
    assert all(len(one) <= 80 for one in lines), lines
    assert line[mark.index("^") : mark.rindex("^") + 1] == "unknwon"


def test_the_part_of_a_line_around_a_column():
    line = "".join(chr(ord("a") + n % 26) for n in range(200))
    for column in (1, 2, 30, 100, 199, 200):
        part, at = look_at(line, column, 50)
        assert len(part) == 50
        assert part[at - 1] in (line[column - 1], "…")
        assert (part[0] == "…", part[-1] == "…") == (column > 20, column < 160)
    assert look_at("short", 3, 50) == ("short", 3)


# -- ends that somebody asked for --------------------------------------------------------------------------------------


def asked(tmp_path):
    return workflow(tmp_path, "asked", human("ask", approvers=["ann", "bob"], quorum=2))


@pytest.mark.slow
def test_a_cancelled_run_says_who_and_why_and_is_no_error(anywhere, tmp_path):
    file = asked(tmp_path)
    run_id = json.loads(CliRunner().invoke(app, ["run", file, "--no-wait", "--json"]).stdout)["run_id"]
    anywhere.run("runs", "cancel", run_id, "--reason", "too slow")
    said = anywhere.run("run", file, "--run-id", run_id, code=1).stderr
    assert re.search(rf"^Run {run_id} was cancelled by \w+: too slow$", said, re.MULTILINE)
    assert "Error" not in said
    assert re.search(r"^state +cancelled by \w+: too slow$", anywhere.run("runs", "show", run_id).stdout, re.MULTILINE)


@pytest.mark.slow
def test_a_run_that_was_rolled_back_says_by_whom(shell, tmp_path):
    undo = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": 1}}}
    file = workflow(tmp_path, "back", task("a", "echo", args={"value": 1}, compensator=undo))
    shell.run("run", file, "--run-id", "b")
    shell.run("runs", "rollback", "b", "--by", "ann")
    said = shell.run("run", file, "--run-id", "b", code=1).stderr
    assert said.splitlines()[-1] == "Run b was rolled back by ann"
    assert "rolled_back by ann" in shell.run("runs", "show", "b").stdout


def test_a_paused_run_says_who_paused_it(shell, tmp_path):
    shell.run("run", asked(tmp_path), "--run-id", "p", "--no-wait", code=3)
    shell.run("runs", "pause", "p", "--by", "bob", "--reason", "lunch")
    assert "paused by bob: lunch" in shell.run("runs", "show", "p").stdout


@pytest.mark.slow
def test_an_approval_that_nobody_decided_is_cancelled_and_others_are_decided(shell, tmp_path):
    file = asked(tmp_path)
    for run_id in ("c", "d"):
        shell.run("run", file, "--run-id", run_id, "--no-wait", code=3)
    shell.run("approvals", "approve", "c", "--by", "ann")
    shell.run("runs", "cancel", "c")
    shell.run("approvals", "reject", "d", "--by", "bob")
    lines = shell.run("approvals", "list", "--state", "all").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["c:ask:1", "cancelled"], ["d:ask:1", "decided"]]
    views = shell.json("approvals", "list", "--state", "all")["items"]
    assert [view["decided_at"] is None for view in views] == [True, False]
    assert re.search(r"^state +cancelled$", shell.run("approvals", "show", "c:ask:1").stdout, re.MULTILINE)


# -- much, and the end of watching -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["x" * 300_000, ["y" * 5_000] * 90, "z" * 2_000_000])
def test_a_long_output_is_cut_on_a_terminal_and_says_how_to_see_all(terminal, capsys, value):
    output.print_pretty({"text": value})
    shown = capsys.readouterr()
    assert len(shown.out) < 2 * output.MAX_ROOM
    assert "--json has everything" in shown.err


@pytest.mark.slow
def test_the_last_picture_of_a_run_that_waits_says_so_also_where_its_child_waits(shell, tmp_path):
    workflow(tmp_path, "child", task("a", "boom", retry=1, on_failure="park"))
    shell.run("workflows", "push", tmp_path / "child.json")
    file = workflow(tmp_path, "parent", {"id": "c", "type": "workflow", "config": {"workflow": "child"}})
    for one in (str(tmp_path / "child.json"), file):
        process = shell.start_on_terminal("run", one, "--no-wait", size=(80, 30))
        process.popen.wait(DEADLINE_SECONDS)
        screen = Screen(80, 30)
        screen.feed(process.wait(3))
        head = next(line.split() for line in screen.lines if "0/1" in line)
        assert (head[0], head[2]) == ("◔", "waiting"), head


async def test_leaving_at_once_says_what_is_not_tried_again():
    run = start(node("a"), node("pay", effect="at_most_once"))
    run.begin("a")
    assert tell_left(run.state) == "Leaving at once; what was under way is tried again when the run goes on."
    run.begin("pay")
    assert "but pay: what may happen at most once is parked" in tell_left(run.state)
