"""`perdure triggers` and `perdure schedules` on a database and on a server: apply, look, act; the triggers of a workflow come with it."""

import asyncio
import json
import os
import re
from typing import Any

import click
import pytest

from perdure.cli.frame.backend import ask
from perdure.cli.frame.where import Where
from perdure.cli.triggers.own_triggers import apply_declared
from perdure.cli.triggers.trigger_output import print_trigger, print_triggers, say_pauses
from perdure.cli.triggers.trigger_trials import poll_registered
from tests.attack.marks import attack
from tests.attack.test_terminal import HOSTILE, assert_clean
from tests.waiting import wait_until

REPORT = "name: report\nnodes: [{id: a, type: transform, config: {value: '{{ inputs.day | default(1) }}'}}]\n"
TRIGGERS = """
- name: nightly
  workflow: report
  schedule: {cron: "30 2 * * *", timezone: Europe/Oslo}
  inputs: {day: "{{ trigger.at }}"}
- name: orders
  workflow: report
  webhook: {verify: {scheme: github, secret: HUB}}
  filter: "item.body.ok"
  inputs: {day: "{{ item.body.day }}"}
"""


def write(shell, text, name="triggers.yaml"):
    file = shell.folder / name
    file.write_text(text)
    return str(file)


@pytest.fixture
def applied(anywhere):
    """The triggers of `TRIGGERS`, new on a database, perhaps known to the server of the module."""
    anywhere.run("workflows", "push", write(anywhere, REPORT, "report.yaml"))
    anywhere.run("triggers", "apply", write(anywhere, TRIGGERS))
    yield anywhere
    for name in ("nightly", "orders"):
        anywhere.run("triggers", "delete", name)


@pytest.mark.slow
def test_apply_says_what_is_new_what_changed_and_what_did_not(anywhere):
    anywhere.run("workflows", "push", write(anywhere, REPORT, "report.yaml"))
    file = write(anywhere, TRIGGERS)
    first = anywhere.run("triggers", "apply", file).stdout.splitlines()
    assert first[0].startswith("trigger nightly is new; next at 20")
    assert first[1] == "trigger orders is new"
    assert "/api/v1/hooks/" in first[2]
    again = anywhere.json("triggers", "apply", file)["items"]
    assert [(one["created"], one["changed"], one["revision"]) for one in again] == [(False, False, 1)] * 2
    changed = write(anywhere, TRIGGERS.replace("30 2", "31 2"))
    assert "nightly is now revision 2" in anywhere.run("triggers", "apply", changed).stdout
    for name in ("nightly", "orders"):
        assert anywhere.run("triggers", "delete", name).stdout == f"{name} is deleted\n"
    assert anywhere.run("triggers", "list").stderr.startswith("No triggers yet; `perdure triggers apply FILE`")
    missing = anywhere.run(
        "triggers", "apply", write(anywhere, TRIGGERS.replace("workflow: report", "workflow: later"))
    )
    assert "there is no workflow later yet" in missing.stderr
    anywhere.run("triggers", "delete", "nightly")
    anywhere.run("triggers", "delete", "orders")


@pytest.mark.slow
def test_lists_and_details_read_well(applied):
    listed = applied.run("triggers", "list").stdout.splitlines()
    assert listed[0].split() == ["TRIGGER", "KIND", "STATE", "WORKFLOW", "NEXT", "OPEN", "WAIT", "PARKED"]
    assert [line.split()[:4] for line in listed[1:]] == [
        ["nightly", "schedule", "active", "report"],
        ["orders", "webhook", "active", "report"],
    ]
    assert [one["name"] for one in applied.json("schedules", "list")["items"]] == ["nightly"]
    assert [one["name"] for one in applied.json("triggers", "list", "--kind", "webhook")["items"]] == ["orders"]
    shown = applied.run("triggers", "show", "nightly").stdout
    assert "  schedule: {cron: 30 2 * * *, timezone: Europe/Oslo}\n" in shown
    assert "source:" not in shown
    hook = applied.run("triggers", "show", "orders").stdout
    assert "verify: {scheme: github, secret: HUB}" in hook
    if "PERDURE_SERVER_URL" not in os.environ:
        assert re.search(r"/api/v1/hooks/\S+ \(of your server; `perdure dev` prints its address\)\n", hook)
    assert applied.json("triggers", "show", "orders")["hook"].startswith("/api/v1/hooks/")
    assert "no schedule but a webhook" in applied.run("schedules", "show", "orders", code=1).stderr
    assert "`perdure triggers list` shows" in applied.run("triggers", "show", "nope", code=1).stderr


def test_a_list_says_which_trigger_is_in_trouble_and_why(capsys):
    plain = {"kind": "table", "state": "active", "workflow": "w", "next_at": None, "open": 0, "waiting": 0, "parked": 0}
    error = {"code": "source_refused", "message": "10.0.0.7:5432 may not be called\x1b[2J"}
    print_triggers([{"name": "good", "error": None, **plain}, {"name": "bad", "error": error, **plain}])
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["TRIGGER", "good", "bad"]
    assert said.err.startswith("bad: 10.0.0.7:5432 may not be called")
    assert "\x1b" not in said.err
    assert "good" not in said.err


def test_what_was_left_out_is_said_by_reason(capsys):
    view: dict[str, Any] = dict.fromkeys(("cursor", "error", "last_at", "next_at"))
    view |= {"name": "n", "kind": "schedule", "state": "active", "workflow": "w", "trigger_id": "t", "revision": 1}
    view |= {"open": 1, "waiting": 0, "parked": 0, "last_success": 0.0, "skipped": {"catchup": 2, "overlap": 12}}
    print_trigger(view, "")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("skipped")] == ["2 catchup, 12 overlap"]
    assert [line.split()[2] for line in lines if line.startswith("last success")] == ["1970-01-01"]


@pytest.mark.parametrize(
    ("pauses", "error", "said"),
    [
        ([("stocktaking", "ann")], None, "paused by ann: stocktaking; `perdure triggers resume one` lets it go on"),
        ([("", "")], None, "paused by a user; `perdure triggers resume one` lets it go on"),
        (
            [("failures", "trigger")],
            "see why, then resume it",
            "see why, then resume it (`perdure triggers resume one`)",
        ),
        (
            [("failures", "trigger"), ("x", "bob")],
            "see why",
            "see why (`perdure triggers resume one`); paused by bob: x; `perdure triggers resume one` lets it go on",
        ),
    ],
)
def test_a_paused_trigger_says_why_and_what_to_do(pauses, error, said):
    view = {
        "name": "one",
        "state": "paused",
        "pauses": [{"reason": reason, "by": by} for reason, by in pauses],
        "error": error and {"code": "failures", "message": error},
    }
    assert say_pauses(view) == said
    assert say_pauses({**view, "state": "active"}) == ""


@pytest.mark.slow
def test_next_and_test_know_what_is_registered(applied):
    moments = applied.run("triggers", "next", "nightly", "--since", "2026-03-28", "--count", "2").stdout.splitlines()
    assert moments[1:] == [
        "2026-03-28 02:30:00 +01:00  Sat",
        "2026-03-29 03:00:00 +02:00  Sun          02:30 does not exist, 03:00",
    ]
    tried = applied.json("schedules", "test", "nightly", "--at", "2026-03-28", "--count", "2")["items"]
    assert [one["inputs"]["day"] for one in tried] == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"]
    item = write(applied, json.dumps({"body": {"ok": True, "day": 7}, "headers": {}, "query": {}}), "item.json")
    assert applied.json("triggers", "test", "orders", "--item", item)["inputs"] == {"day": 7}
    other = write(applied, '{"body": {"ok": false}, "headers": {}, "query": {}}', "other.json")
    assert "does not let it pass" in applied.run("triggers", "test", "orders", "--item", other).stdout
    bad = write(applied, '{"body": {"ok": true}, "headers": {}, "query": {}}', "bad.json")
    assert "inputs: " in applied.run("triggers", "test", "orders", "--item", bad, code=1).stderr
    assert "--item FILE" in applied.run("triggers", "test", "orders", code=2).stderr
    assert "no moments" in applied.run("triggers", "next", "orders", code=1).stderr


@pytest.mark.slow
def test_fire_pause_and_resume(applied):
    if "PERDURE_SERVER_URL" in os.environ:
        fired = applied.json("triggers", "fire", "nightly", "-i", "day=today")
        assert fired["state"] == "started"
        found = wait_until(lambda: run_of(applied, fired["run_id"]), "the run is there")
        assert (found["inputs"], found["submitted_by"]) == ({"day": "today"}, "trigger:nightly")
    else:
        said = applied.run("triggers", "fire", "nightly", "-i", "day=today")
        assert said.stdout.endswith(" waits for `perdure dev` or `perdure serve`\n")
        assert "No process drives triggers now; the run begins when one does." in said.stderr
    paused = applied.json("triggers", "pause", "nightly", "--reason", "tired")
    assert paused["state"] == "paused"
    assert [one["reason"] for one in paused["pauses"]] == ["tired"]
    for command in (("list",), ("show", "nightly")):
        said = applied.run("triggers", *command)
        assert ": tired; `perdure triggers resume nightly` lets it go on" in said.stdout + said.stderr
    assert applied.run("triggers", "resume", "nightly").stdout.startswith("nightly goes on; next at 20")
    assert applied.json("triggers", "show", "nightly")["state"] == "active"


@pytest.mark.slow
def test_what_is_fired_while_the_trigger_is_paused_says_so_and_waits_for_its_resumption(applied):
    applied.run("triggers", "pause", "nightly")
    said = applied.run("triggers", "fire", "nightly", "-i", "day=today").stdout
    assert said.startswith(
        "nothing is started: nightly is paused. Item 1 waits; `perdure triggers resume nightly` starts it as "
    )
    again = applied.run("triggers", "fire", "nightly", "-i", "day=today").stdout
    assert again.startswith("nothing is started: nightly is paused, and item 2 is skipped: another waits")
    assert "It never starts; fire again after `perdure triggers resume nightly`, or with --overlap allow" in again
    applied.run("triggers", "resume", "nightly")
    (item,) = applied.json("triggers", "items", "nightly")["items"] or [{}]
    assert item.get("state", "open") == "open"  # or its run has ended already


def run_of(shell, run_id):
    found = [one for one in shell.json("runs", "list", "--tag", "trigger=nightly")["items"] if one["run_id"] == run_id]
    return shell.json("runs", "show", run_id) if found else None


def test_backfill_makes_up_for_the_past_one_after_the_other(applied):
    said = applied.run(
        "schedules", "backfill", "nightly", "--since", "2026-03-27", "--until", "2026-03-30T12:00"
    ).stdout
    range_ = "from 2026-03-27 00:00:00 UTC to 2026-03-30 12:00:00 UTC"
    assert said.startswith(f"nightly makes up for its moments {range_} that have had no run; ")
    again = ("--since", "2026-03-27", "--until", "2026-03-30T12:00", "--again")
    assert applied.run("schedules", "backfill", "nightly", *again).stdout.startswith(
        f"nightly makes up for its moments {range_}; "
    )
    wrong = applied.run("schedules", "backfill", "nightly", "--since", "2026-03-30", "--until", "2026-03-27", code=1)
    assert "since comes before until" in wrong.stderr


@pytest.mark.slow
def test_what_is_parked_is_listed_with_the_reason_and_settled(anywhere):
    loose = REPORT.replace("report", "strict")
    needs = loose.replace("nodes", "inputs: {type: object, required: [id]}\nnodes")
    anywhere.run("workflows", "push", write(anywhere, loose, "strict.yaml"))
    anywhere.run("triggers", "apply", write(anywhere, TRIGGERS.replace("report", "strict").replace("nightly", "parks")))
    anywhere.run("workflows", "push", write(anywhere, needs, "strict.yaml"))
    assert anywhere.json("triggers", "fire", "parks", "--overlap", "allow")["state"] == "parked"
    listed = anywhere.run("triggers", "items", "parks", "--state", "parked")
    assert "invalid_inputs" in listed.stdout
    assert "perdure triggers requeue parks ITEM" in listed.stderr
    again = anywhere.run("triggers", "requeue", "parks", "1", code=2).stderr
    assert "item 1 of parks is parked again: invalid_inputs" in again
    assert "give it inputs that fit" in again
    assert anywhere.run("triggers", "requeue", "parks", "1", "-i", "id=7").stdout.startswith(
        "parks starts item 1 after all"
    )
    anywhere.json("triggers", "fire", "parks", "--overlap", "allow")
    assert anywhere.run("triggers", "discard", "parks", "2").stdout.startswith("parks gives item 2 up")
    assert "no parked item 2" in anywhere.run("triggers", "discard", "parks", "2", code=1).stderr
    for name in ("parks", "orders"):
        anywhere.run("triggers", "delete", name)


@pytest.mark.slow
def test_of_several_triggers_those_that_are_refused_are_shown_at_their_lines_and_the_others_applied(anywhere):
    needs = REPORT.replace("nodes", "inputs: {type: object, required: [id]}\nnodes").replace("report", "needs")
    anywhere.run("workflows", "push", write(anywhere, needs, "needs.yaml"))
    listed = "".join(
        f"- {{name: {name}, workflow: needs, schedule: {{every: 1h}}, inputs: {inputs}}}\n"
        for name, inputs in (("first", "{a: 1}"), ("second", "{id: 1}"), ("third", "{b: 1}"))
    )
    applied = anywhere.run("triggers", "apply", write(anywhere, listed, "several.yaml"), code=2)
    assert applied.stdout.startswith("trigger second is new")
    assert "not applied: first, third" in applied.stderr
    assert re.findall(r"several.yaml:(\d+):\d+: error: trigger '(\w+)'", applied.stderr) == [
        ("1", "first"),
        ("3", "third"),
    ]
    assert "several.yaml: 2 errors" in applied.stderr
    as_json = anywhere.run("triggers", "apply", str(anywhere.folder / "several.yaml"), "--json", code=2)
    assert "there is no 'id'" in json.loads(as_json.stderr)["error"]["message"]
    assert [one["name"] for one in anywhere.json("triggers", "list")["items"]] == ["second"]
    anywhere.run("triggers", "delete", "second")


OWN = REPORT.replace("report", "owner") + "triggers:\n  - {name: mine, schedule: {every: 1h}}\n"
MORE = OWN + "  - {name: other, schedule: {every: 2h}}\n"


@pytest.mark.slow
def test_the_triggers_of_a_workflow_come_with_it_and_those_that_vanish_are_paused(anywhere):
    first = anywhere.run("workflows", "push", write(anywhere, MORE, "owner.yaml")).stdout.splitlines()
    assert first[0] == "owner is now version 1"
    assert [line.partition(";")[0] for line in first[1:]] == ["trigger mine is new", "trigger other is new"]
    assert anywhere.json("triggers", "show", "mine")["workflow"] == "owner"
    second = anywhere.run("workflows", "push", write(anywhere, OWN, "owner.yaml")).stdout
    assert "trigger mine is unchanged" in second
    assert "trigger other is paused: it is no longer in the definition" in second
    assert anywhere.json("triggers", "show", "other")["state"] == "paused"
    assert anywhere.json("workflows", "push", write(anywhere, OWN, "owner.yaml"))["triggers"]["paused"] == []
    back = anywhere.run("workflows", "push", write(anywhere, MORE, "owner.yaml")).stdout
    assert "trigger other is unchanged and paused; `perdure triggers resume other` lets it go on" in back
    assert "triggers" in anywhere.run("workflows", "show", "owner").stdout
    for name in ("mine", "other"):
        anywhere.run("triggers", "delete", name)


def test_a_python_file_is_pushed_with_what_it_declares(anywhere):
    text = (
        "import perdure\n\n\n@perdure.task\ndef work(day: str = '') -> str:\n    return day\n\n\n"
        "perdure.schedule(work, every='1h', name='declared')\n"
    )
    file = write(anywhere, text, f"{anywhere.folder.name}.py")
    pushed = anywhere.run("workflows", "push", file).stdout
    assert "trigger declared is new; next at" in pushed
    assert "trigger declared is unchanged" in anywhere.run("triggers", "apply", file).stdout
    anywhere.run("triggers", "delete", "declared")


def test_data_cannot_speak_to_the_terminal(shell):
    shell.run("workflows", "push", write(shell, REPORT, "report.yaml"))
    hostile = {
        "name": "x",
        "workflow": "report",
        "description": HOSTILE,
        "schedule": {"every": "1h"},
        "inputs": {"day": HOSTILE},
    }
    shell.run("triggers", "apply", write(shell, json.dumps(hostile), "x.json"))
    for command in (["list"], ["show", "x"], ["test", "x"], ["items", "x"]):
        assert_clean(shell.run("triggers", *command).stdout, command)


def test_what_imported_modules_declare_is_applied_and_a_mistake_stops_nothing_else(shell, capsys):
    text = (
        "import perdure\n\n\n@perdure.task\ndef work(day: str = '') -> str:\n    return day\n\n\n"
        "@perdure.workflow\ndef whole(day: str = '') -> str:\n    return work(day)\n\n\n"
        "perdure.schedule(whole, every='1h')\n"
        "perdure.schedule('whole', cron='99 * * * *', name='wrong')\n"
        "perdure.on_webhook(work, secret='HUB', name='pushed')\n"
    )
    file = write(shell, text, f"{shell.folder.name}.py")
    asyncio.run(ask(Where(), lambda backend: apply_declared(backend, [file], "http://127.0.0.1:8700"), make=True))
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0].startswith("trigger whole is new; next at ")
    assert lines[1] == "trigger pushed is new"
    assert lines[2].startswith("  http://127.0.0.1:8700/api/v1/hooks/")
    assert f"{shell.folder.name}.py, line 15: " in said.err
    assert "cron line" in said.err
    assert sorted(one["name"] for one in shell.json("workflows", "list")["items"]) == ["whole", "work"]


def test_a_source_is_rewound_with_a_reason(shell, monkeypatch):
    monkeypatch.setenv("PERDURE_FOLDER_ROOTS", str(shell.folder))
    folder = {"name": "files", "workflow": "report", "folder": {"url": f"{shell.folder}/in/"}, "inputs": {"day": "x"}}
    shell.run("workflows", "push", write(shell, REPORT, "report.yaml"))
    assert (
        "trigger files is new" in shell.run("triggers", "apply", write(shell, json.dumps(folder), "files.json")).stdout
    )
    assert "Missing option '--reason'" in shell.run("triggers", "rewind", "files", "start", code=2).stderr
    said = shell.run("triggers", "rewind", "files", "start", "--reason", "a column was missing").stdout
    assert said == "files reads from start on\n"
    other = shell.run("triggers", "rewind", "files", "a.csv", "--reason", "once more", "--again").stdout
    assert other == "files reads from a.csv on\n"
    assert "cursor    a.csv" in shell.run("triggers", "show", "files").stdout


def test_a_registered_source_is_read_from_its_cursor_which_stays(shell, monkeypatch):
    monkeypatch.setenv("PERDURE_FOLDER_ROOTS", str(shell.folder))
    folder = {"url": f"{shell.folder}/in/", "order": "name", "settle": 0}
    files = {"name": "files", "workflow": "report", "folder": folder, "inputs": {"day": "{{ item.path }}"}}
    (shell.folder / "in").mkdir()
    for name in ("a.csv", "b.csv"):
        (shell.folder / "in" / name).write_text("1")
    shell.run("workflows", "push", write(shell, REPORT, "report.yaml"))
    shell.run("triggers", "apply", write(shell, json.dumps(files), "files.json"))
    assert "a.csv" in shell.run("triggers", "test", "files", "--poll").stdout
    cursor = json.dumps({"name": "a.csv"})
    shell.run("triggers", "rewind", "files", cursor, "--reason", "there is more")
    shown = shell.run("triggers", "test", "files", "--poll", "--count", "5").stdout
    assert ("a.csv" in shown, "b.csv" in shown) == (False, True)
    assert json.loads(shell.run("triggers", "show", "files", "--json").stdout)["cursor"] == cursor


@attack("X08", "a server whose trigger has a source at an address of its own, with secrets of who looks at it")
def test_no_server_has_a_source_read_from_this_machine(monkeypatch):
    """What `--poll` reads, it reads with the secrets of this machine, and from its folders."""
    monkeypatch.setenv("PERDURE_SECRET_MINE", "a secret of this machine")
    source = {"url": "postgres://u:{{ secrets.MINE }}@127.0.0.1:1/x", "table": "t", "cursor": ["id"]}
    view = {"name": "theirs", "cursor": None, "spec": {"name": "theirs", "workflow": "w", "postgres_table": source}}
    with pytest.raises(click.UsageError, match="what a server says"):
        poll_registered(view, (), 1, Where(server="http://127.0.0.1:1"), False)
    monkeypatch.setenv("PERDURE_SERVER_URL", "http://127.0.0.1:1")
    with pytest.raises(click.UsageError, match="what a server says"):
        poll_registered(view, (), 1, Where(), False)
