"""What stands in data reaches no terminal as anything but text (S22)."""

import ast
import json
import os
import re
from pathlib import Path

import click
import pytest

from perdure.cli.terminal import speech
from perdure.plain_text import clean_json, clean_line, clean_text
from tests.attack.marks import attack
from tests.cli.helpers import Shell, workflow

CLI = Path(speech.__file__).parent.parent
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[8mhidden\x9b2Kc1\x85\x7fdel\r"
    "over\x08\u202eturned\u2066iso\u2069\u200bzero\ufeffend"
)
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[ABKJ])|\r")
"""Colours, and what the painter moves. Those that data brings are told apart by what stands beside them."""
BROUGHT = ("\x1b[31mred", "\x1b[8mhidden", "\rover", "\x1b[2J")

WORK = f"""
import logging
import perdure

HOSTILE = {HOSTILE!r}

@perdure.task
def say():
    print("printed " + HOSTILE)
    logging.getLogger("mine").warning("logged %s", HOSTILE)
    return {{"said": HOSTILE, HOSTILE: 1}}

@perdure.task
def fail():
    raise ValueError("raised " + HOSTILE)
"""


def assert_clean(text, what):
    for one in BROUGHT:
        assert one not in text, f"{what}: {one!r} in {text!r}"
    found = FORBIDDEN.search(OURS.sub("", text))
    assert found is None, f"{what}: {found[0]!r} in {text!r}"


@attack("S22", "an escape sequence in whatever is printed")
@pytest.mark.parametrize("character", [*map(chr, [*range(32), *range(0x7F, 0xA0)]), *"\u202e\u2066\u200b\ufeff\u2028"])
def test_no_control_character_is_printed_as_it_is(character, capsys):
    speech.echo(f"a{character}b")
    printed = capsys.readouterr().out
    assert printed == (f"a{character}b\n" if character in "\n\t" else clean_text(f"a{character}b") + "\n")
    assert character in "\n\t" or character not in printed[:-1]
    assert "\n" not in clean_line(f"a{character}b")


@attack("S22", "data that brings its own colours")
def test_only_colours_of_perdure_are_obeyed(capsys):
    speech.echo(speech.style(f"bold {HOSTILE}", bold=True) + HOSTILE)
    assert_clean(capsys.readouterr().out, "piped")
    shown = []
    with click.Context(click.Command("x"), color=True).scope():
        speech.echo(speech.style("good", fg="green") + " \x1b[31mbad")
        shown = capsys.readouterr().out
    assert shown == "\x1b[32mgood\x1b[0m \\x1b[31mbad\n"


@attack("S22", "characters that JSON leaves as they are")
def test_json_is_escaped_and_means_the_same():
    text = json.dumps({HOSTILE: [HOSTILE, "\U000e0041"]}, ensure_ascii=False)
    assert FORBIDDEN.search(clean_json(text)) is None
    assert json.loads(clean_json(text)) == {HOSTILE: [HOSTILE, "\U000e0041"]}


@pytest.mark.slow
def test_every_command_prints_through_one_function():
    for path in sorted(CLI.rglob("*.py")):
        if path.name == "speech.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {
                    "click.echo",
                    "click.secho",
                    "click.style",
                    "click.prompt",
                    "click.confirm",
                    "print",
                }, f"{path.name}:{node.lineno} calls {called}: use perdure.cli.terminal.speech"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hostile_work.py").write_text(WORK)
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def prepare(shell):
    say = {"id": "say", "type": "task", "config": {"function": "hostile_work:say"}}
    fail = {
        "id": "fail",
        "type": "task",
        "config": {"function": "hostile_work:fail"},
        "dependencies": ["say"],
        "retry": {"max_attempts": 1},
    }
    ask = {"id": "ask", "type": "human", "config": {"approvers": ["ann"], "title": HOSTILE}}
    bad = workflow(shell.folder, "bad", say, fail, description=HOSTILE)
    asks = workflow(shell.folder, "asks", ask)
    return bad, asks


@attack("S22", "outputs, errors, logs, tags, refused approvers and comments, in every listing")
@pytest.mark.slow
def test_no_command_prints_what_data_brings(shell):
    bad, asks = prepare(shell)
    tag = ("--tag", f"k={HOSTILE}")
    said = [shell.run("run", bad, *tag, code=1), shell.run("run", asks, *tag, "--no-wait", code=3)]
    runs = [one["run_id"] for one in shell.json("runs", "list")["items"]]
    commands: list[tuple[object, ...]] = [
        ("runs", "list"),
        ("approvals", "list"),
        ("dlq", "list"),
        ("validate", bad),
        ("graph", bad),
        ("audit", "list"),
    ]
    for run_id in runs:
        commands += [("runs", word, run_id) for word in ("show", "logs", "explain", "events", "export")]
        commands += [("graph", "--run", run_id)]
    for one in shell.json("approvals", "list")["items"]:
        commands.append(("approvals", "show", one["approval_id"]))
    for one in shell.json("dlq", "list")["items"]:
        commands.append(("dlq", "show", one["dead_letter_id"]))
    broken = shell.folder / "broken.json"
    broken.write_text(json.dumps({"name": "x" + HOSTILE, "nodes": [{"id": HOSTILE, "type": HOSTILE}], HOSTILE: 1}))
    named = {"id": "ask", "type": "human", "config": {"approvers": [f"ann{HOSTILE}"]}}
    commands += [
        ("validate", workflow(shell.folder, "named", named)),
        ("validate", broken),
        ("run", broken),
        ("runs", "show", HOSTILE),
        ("nothing" + HOSTILE,),
        ("validate", HOSTILE.replace("\x00", "")),
    ]
    from click.testing import CliRunner

    from perdure.cli.app import app

    for command in commands:
        for form in ((), ("--json",)):
            for colour in (False, True):
                result = CliRunner().invoke(app, [*map(str, command), *form], color=colour)
                assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
                assert_clean(result.stdout, (command, form))
                assert_clean(result.stderr, (command, form))
    for one in said:
        assert_clean(one.stdout, "run")
    assert any("\\x1b[2J" in CliRunner().invoke(app, ["runs", "logs", run_id]).stdout for run_id in runs)


@attack("S22", "the same, on a terminal, in the tree and above it")
@pytest.mark.slow
def test_no_command_prints_it_on_a_terminal(shell):
    bad, _ = prepare(shell)
    environment = {"PYTHONPATH": os.pathsep.join([str(shell.folder), shell.environment["PYTHONPATH"]])}
    process = shell.start_on_terminal("run", bad, environment=environment)
    process.popen.wait(60)
    process._reader.join(10)
    assert "raised" in process.text
    assert_clean(process.text.replace("\r\n", "\n"), "run on a terminal")
    for command in (("runs", "list"), ("dlq", "list"), ("runs", "show"), ("runs", "logs"), ("runs", "watch")):
        rest = [shell.json("runs", "list")["items"][0]["run_id"]] if command[-1] != "list" else []
        process = shell.start_on_terminal(*command, *rest, environment=environment)
        process.popen.wait(60)
        process._reader.join(10)
        assert_clean(process.text.replace("\r\n", "\n"), command)
