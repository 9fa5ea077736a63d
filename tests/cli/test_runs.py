"""`perdure runs`, `perdure approvals`, `perdure dlq`: looking at runs and changing their course when nobody holds the file."""

import datetime
import json
import re
import shlex

import pytest

from perdure.cli.frame.parameters import Moment
from tests.cli.helpers import human, task, workflow

NOW = 1_794_735_000.0


@pytest.fixture
def waiting(shell, tmp_path):
    """A run that waits for a person."""
    file = workflow(tmp_path, "refund", human("review", approvers=["finance"]), task("pay", "echo", "review"))
    shell.run("run", file, "--run-id", "waiting-1", "--no-wait", code=3)
    return file


@pytest.fixture
def parked(shell, tmp_path):
    """A run with a dead letter."""
    path = str(tmp_path / "there")
    file = workflow(
        tmp_path, "late", task("a", "fail_until", args={"path": path}, on_failure="park"), task("b", "echo", "a")
    )
    shell.run("run", file, "--run-id", "parked-1", "--no-wait", code=3)
    return file


# -- looking -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_list_is_newest_first_filtered_and_paged(shell, tmp_path):
    good, bad = workflow(tmp_path, "good", task("a", "echo")), workflow(tmp_path, "bad", task("a", "boom"))
    for number in range(3):
        shell.run("run", good, "--run-id", f"good-{number}")
    shell.run("run", bad, "--run-id", "bad-0", code=1)
    everything = shell.json("runs", "list")
    assert [run["run_id"] for run in everything["items"]] == ["bad-0", "good-2", "good-1", "good-0"]
    assert everything["next_cursor"] is None
    assert [run["run_id"] for run in shell.json("runs", "list", "--state", "failed")["items"]] == ["bad-0"]
    assert len(shell.json("runs", "list", "--workflow", "good")["items"]) == 3
    page = shell.json("runs", "list", "--limit", 3)
    rest = shell.json("runs", "list", "--limit", 3, "--cursor", page["next_cursor"])
    assert [run["run_id"] for run in rest["items"]] == ["good-0"]
    text = shell.run("runs", "list").stdout
    assert text.splitlines()[0].split() == ["RUN", "WORKFLOW", "STATE", "CREATED", "TOOK", "ERROR"]
    assert "kaputt" in text


@pytest.mark.slow
def test_children_are_listed_when_they_are_asked_for_and_who_waits_is_seen(shell, tmp_path):
    child = workflow(tmp_path, "child", human("ask"))
    shell.run("workflows", "push", child)
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    shell.run("run", workflow(tmp_path, "parent", call), "--run-id", "p", "--no-wait", code=3)
    shell.run("run", workflow(tmp_path, "plain", task("a", "echo")), "--run-id", "q")

    def ids(*flags):
        return [one["run_id"] for one in shell.json("runs", "list", *flags)["items"]]

    assert ids() == ["q", "p"]
    assert sorted(ids("--children")) == ["p", "p:call", "q"]
    assert ids("--parent", "p") == ["p:call"]
    assert ids("--children", "--state", "waiting") == ["p:call", "p"]
    assert "cannot be combined with other" in shell.error(
        "runs", "list", "--state", "waiting", "--state", "failed", code=2
    )
    assert shell.run("runs", "list", "--parent", "p").stdout.splitlines()[1].split()[:3] == [
        "p:call",
        "child",
        "waiting",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("over", [False, True], ids=["one", "map"])
def test_a_run_whose_children_have_ended_is_among_those_that_wait(shell, tmp_path, over):
    shell.run("workflows", "push", workflow(tmp_path, "child", task("a", "echo")))
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    if over:
        inner = {"type": "workflow", "config": {"workflow": "child"}}
        call = {"id": "call", "type": "map", "config": {"over": [1, 2], "node": inner}}
    file = workflow(tmp_path, "parent", call, human("ok") | {"dependencies": ["call"]})
    shell.run("run", file, "--run-id", "p", "--no-wait", code=3)
    assert [one["run_id"] for one in shell.json("runs", "list", "--state", "waiting")["items"]] == ["p"]
    assert "waiting" in shell.run("runs", "list").stdout
    assert "state     waiting" in shell.run("runs", "show", "p").stdout
    assert shell.json("runs", "show", "p")["waiting"] is True
    shell.run("approvals", "approve", "p")
    shell.run("run", file, "--run-id", "p")
    assert shell.json("runs", "show", "p")["waiting"] is False


def test_show_has_the_nodes_and_outputs_of_a_run(shell, waiting):
    text = shell.run("runs", "show", "waiting-1").stdout
    assert "refund version 1" in text
    assert "review  waiting  1              approval waiting-1:review:1" in text
    assert shell.json("runs", "show", "waiting-1")["nodes"]["pay"]["state"] == "pending"


def test_a_node_that_is_misspelt_is_guessed(shell, waiting):
    assert "did you mean 'review'?" in shell.error("runs", "show", "waiting-1", "--node", "reviw")
    assert "did you mean 'review'?" in shell.error("runs", "rerun", "waiting-1", "--from", "reviw")


@pytest.mark.slow
@pytest.mark.parametrize("over", [False, True], ids=["one", "map"])
def test_a_node_that_starts_runs_is_shown_with_them(shell, tmp_path, over):
    shell.run("workflows", "push", workflow(tmp_path, "child", task("a", "boom")))
    inner = {"type": "workflow", "config": {"workflow": "child"}}
    call = {"id": "call", "type": "map", "config": {"over": [1], "node": inner}} if over else {"id": "call", **inner}
    shell.run("run", workflow(tmp_path, "parent", call), "--run-id", "p", code=1)
    (child,) = shell.json("runs", "list", "--parent", "p")["items"]
    result = shell.run("runs", "show", "p", "--node", "call")
    assert re.search(rf"^{re.escape(child['run_id'])}  failed ", result.stdout, re.MULTILINE)
    assert "perdure runs list --parent p" in result.stderr


def test_an_approval_is_shown_with_the_fields_of_its_form(shell, tmp_path):
    form = {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "number", "title": "How much"}, "kind": {"enum": ["a", "b"]}},
    }
    shell.run("run", workflow(tmp_path, "f", human("ask", form=form)), "--run-id", "f1", "--no-wait", code=3)
    lines = shell.run("approvals", "show", "f1").stdout.splitlines()
    rows = [line.split() for line in lines[-3:]]
    assert rows[0] == ["FORM", "FIELD", "TYPE", "REQUIRED", "TITLE"]
    assert rows[1] == ["amount", "number", "yes", "How", "much"]
    assert rows[2][:5] == ["kind", "one", "of", "a,", "b"]


@pytest.mark.slow
def test_runs_are_chosen_by_tag_and_time(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    shell.run("run", file, "--run-id", "blue", "--tag", "team=blue", "--tag", "size=s")
    shell.run("run", file, "--run-id", "red", "--tag", "team=red")
    assert shell.json("runs", "show", "blue")["tags"] == {"team": "blue", "size": "s"}

    def ids(*args):
        return [run["run_id"] for run in shell.json("runs", "list", *args)["items"]]

    assert ids("--tag", "team=blue") == ["blue"]
    assert ids("--tag", "size=s", "--state", "completed", "--workflow", "one") == ["blue"]
    assert ids("--tag", "team=green") == []
    assert ids("--since", "1h") == ["red", "blue"]
    assert ids("--until", "1h") == []
    made = shell.json("runs", "show", "red")["created_at"]
    begin = datetime.datetime.fromtimestamp(made - 0.001, datetime.UTC)
    assert ids("--since", begin.isoformat()) == ["red"]
    assert ids("--until", begin.isoformat()) == ["blue"]
    assert "No such runs." in shell.run("runs", "list", "--until", "2020-01-01").stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", NOW - 7200),
        ("15min", NOW - 900),
        ("1.5 d", NOW - 129_600),
        ("2026-11-15T09:30:00+00:00", 1_794_735_000.0),
        ("2026-11-15T10:30+01:00", 1_794_735_000.0),
    ],
)
def test_times_are_read_as_people_write_them(monkeypatch, text, expected):
    monkeypatch.setattr("perdure.cli.frame.parameters.system.now", lambda: NOW)
    assert Moment()(text) == expected


def test_times_without_a_zone_are_utc_as_those_that_are_printed(monkeypatch):
    monkeypatch.setattr("perdure.cli.frame.parameters.system.now", lambda: NOW)
    midnight = datetime.datetime.fromtimestamp(Moment()("2026-11-15"), datetime.UTC)
    assert (midnight.year, midnight.month, midnight.day, midnight.hour) == (2026, 11, 15, 0)
    clock = datetime.datetime.fromtimestamp(Moment()("9:30"), datetime.UTC)
    assert (clock.hour, clock.minute) == (9, 30)
    assert Moment()("2026-11-15 09:30:00 UTC") == 1_794_735_000.0


@pytest.mark.parametrize("text", ["yesterday", "2 hours", "25:00", "2026-13-01", ""])
def test_what_is_no_time_is_refused_with_examples(shell, text):
    assert "is no time; write 2026-11-15" in shell.error("runs", "list", "--since", text, code=2)


def test_a_run_is_shown_as_it_was(shell, waiting):
    now = shell.json("runs", "show", "waiting-1")
    first = shell.json("runs", "show", "waiting-1", "--at", 1)
    assert (first["at"], first["nodes"]["review"]["state"]) == (1, "pending")
    last = len(shell.json("runs", "events", "waiting-1")["items"])
    assert shell.json("runs", "show", "waiting-1", "--at", last) == {**now, "at": last}
    assert "as of event  1" in shell.run("runs", "show", "waiting-1", "--at", 1).stdout
    assert f"has {last} events; there is no event 99 yet" in shell.error("runs", "show", "waiting-1", "--at", 99)


def test_one_node_is_shown_with_every_visit_and_its_whole_output(shell, tmp_path):
    node = {"id": "a", "type": "transform", "config": {"value": {"n": "{{ loop.iteration }}", "text": "x" * 500}}}
    loop = {"loop": {"condition": "output.n < 3", "max_iterations": 5}}
    shell.run("run", workflow(tmp_path, "again", {**node, **loop}), "--run-id", "r1")
    view = shell.json("runs", "show", "r1", "--node", "a")
    assert (view["node"], view["type"], view["state"], view["output"]["n"]) == ("a", "transform", "completed", 3)
    assert [visit["output"]["n"] for visit in view["visits"]] == [1, 2, 3]
    text = shell.run("runs", "show", "r1", "--node", "a").stdout
    assert "x" * 500 in text
    assert "no node zz" in shell.error("runs", "show", "r1", "--node", "zz")


def test_a_prefix_is_enough_while_it_is_unique(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    for name in ("alpha", "alpine"):
        shell.run("run", file, "--run-id", name)
    assert shell.json("runs", "show", "alpi")["run_id"] == "alpine"
    assert "2 runs begin with alp" in shell.error("runs", "show", "alp")
    assert "there is no run beta; `perdure runs list`" in shell.error("runs", "show", "beta")


def test_events_are_in_order_and_begin_where_asked(shell, waiting):
    events = shell.json("runs", "events", "waiting-1")["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0].keys() >= {"seq", "type", "version", "at", "cause", "counter", "data"}
    assert events[0]["type"] == "run.created"
    rest = shell.json("runs", "events", "waiting-1", "--after", 2, "--limit", 1)
    assert ([event["seq"] for event in rest["items"]], rest["next_cursor"]) == ([3], "3")
    assert "approval.requested" in shell.run("runs", "events", "waiting-1").stdout


def test_explain_says_why(shell, waiting):
    text = shell.run("runs", "explain", "waiting-1").stdout
    assert "review waits for a person: 0 of 1 approvals by finance." in text
    assert "pay has not run" in text
    assert shell.json("runs", "explain", "waiting-1", "pay")["nodes"].keys() == {"pay"}
    assert "no node zahlen" in shell.error("runs", "explain", "waiting-1", "zahlen")


def test_the_node_to_explain_may_be_a_flag(shell, waiting):
    by_flag = shell.run("runs", "explain", "waiting-1", "--node", "pay").stdout
    assert by_flag == shell.run("runs", "explain", "waiting-1", "pay").stdout
    assert "name the node once" in shell.error("runs", "explain", "waiting-1", "pay", "--node", "review", code=2)


@pytest.mark.parametrize("flags", [["-o", "run.json"], ["-o", "run.txt", "--format", "json"], ["--json"], []])
def test_an_export_is_the_run_its_definition_and_its_events(shell, waiting, tmp_path, flags):
    result = shell.run("runs", "export", "waiting-1", *flags)
    text = (tmp_path / flags[1]).read_text() if "-o" in flags else result.stdout
    data = json.loads(text)
    assert data.keys() == {"format", "run", "definitions", "events", "blobs"}
    assert data["run"] == shell.json("runs", "show", "waiting-1")
    assert data["events"] == shell.json("runs", "events", "waiting-1")["items"]
    (definition,) = data["definitions"]
    assert definition["hash"] == shell.json("validate", waiting)["hash"]
    assert definition["definition"]["name"] == "refund"


def test_an_export_may_be_lines(shell, waiting, tmp_path):
    result = shell.run("runs", "export", "waiting-1", "-o", "run.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    events = shell.json("runs", "events", "waiting-1")["items"]
    assert f"Wrote run.jsonl: {len(events)} events." in result.stderr
    assert [line.pop("kind") for line in lines] == ["run", "definition", *["event"] * len(events)]
    assert lines[2:] == events
    assert shell.run("runs", "export", "waiting-1", "--format", "jsonl").stdout == (tmp_path / "run.jsonl").read_text()


@pytest.mark.slow
def test_watch_of_an_ended_run_gives_its_end(shell, tmp_path):
    shell.run("run", workflow(tmp_path, "good", task("a", "echo", args={"value": 1})), "--run-id", "r1")
    shell.run("run", workflow(tmp_path, "bad", task("a", "boom")), "--run-id", "r2", code=1)
    result = shell.run("runs", "watch", "r1")
    assert json.loads(result.stdout) == {"a": 1}
    assert "completed" in result.stderr
    assert shell.json("runs", "watch", "r2", code=1)["state"] == "failed"


@pytest.mark.parametrize(
    "command",
    [("runs", "list"), ("runs", "show", "x"), ("approvals", "list"), ("dlq", "list"), ("doctor",)],
    ids=" ".join,
)
def test_without_a_database_it_is_said_and_none_is_made(shell, tmp_path, command):
    assert "there is no database .perdure/perdure.db; `perdure run FILE` makes one" in shell.error(*command)
    assert list(tmp_path.iterdir()) == []


# -- changing ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pause_resume_and_cancel_are_decided_here_when_nobody_holds_the_file(shell, waiting):
    result = shell.run("runs", "pause", "wait")
    assert result.stdout == "Paused waiting-1; it is paused now\n"
    assert "No process works on this database now" in result.stderr
    assert shell.json("runs", "resume", "waiting-1")["state"] == "running"
    assert shell.json("runs", "cancel", "waiting-1", "--reason", "enough")["state"] == "cancelled"
    assert "is cancelled" in shell.error("runs", "signal", "waiting-1", "go")
    shell.run("run", waiting, "--run-id", "waiting-1", code=1)
    assert shell.json("approvals", "list")["items"] == []


def test_a_refusal_says_why_and_exits_with_1(shell, waiting):
    assert "only a failed run can be retried" in shell.error("runs", "retry", "waiting-1")
    assert "only a run that has ended can be rolled back" in shell.error("runs", "rollback", "waiting-1")


def test_a_signal_wakes_who_waits_for_it(shell, tmp_path):
    file = workflow(tmp_path, "sig", {"id": "a", "type": "wait", "config": {"signal": "go"}})
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    assert shell.json("runs", "signal", "r1", "go", '{"n": 1}')["outputs"] == {"a": {"n": 1}}


def test_the_sender_of_a_signal_hears_that_nothing_waits_for_it_or_that_it_was_sent_before(shell, tmp_path):
    file = workflow(tmp_path, "sig", {"id": "a", "type": "wait", "config": {"signal": "go"}})
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    first = shell.run("runs", "signal", "r1", "goo", "--signal-id", "k1").stderr
    assert "Nothing waits for goo now; it is kept until something does. a waits for go." in first
    again = shell.run("runs", "signal", "r1", "goo", "--signal-id", "k1").stderr
    assert "A signal with the id k1 was sent before: it counts once, and nothing changed." in again
    right = shell.run("runs", "signal", "r1", "go", "--signal-id", "k2")
    assert "waits" not in right.stderr
    assert "sent before" not in right.stderr


@pytest.mark.slow
def test_rollback_runs_what_undoes(shell, tmp_path):
    undone = tmp_path / "undone"
    compensator = {"type": "task", "config": {"function": "tests.cli.work:note", "args": {"path": str(undone)}}}
    file = workflow(tmp_path, "undo", task("a", "echo", compensator=compensator))
    shell.run("run", file, "--run-id", "r1")
    shell.run("runs", "rollback", "r1")
    assert shell.json("run", file, "--run-id", "r1", code=1)["state"] == "rolled_back"
    assert undone.read_text() == "x\n"


# -- approvals ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_approvals_are_listed_and_decided_once(shell, waiting):
    item = shell.json("approvals", "list")["items"][0]
    assert (item["approval_id"], item["run_id"], item["node"], item["state"]) == (
        "waiting-1:review:1",
        "waiting-1",
        "review",
        "pending",
    )
    assert item["approvers"] == ["finance"]
    assert "finance" in shell.run("approvals", "list").stdout
    assert "finance may (say so with --by NAME)" in shell.error("approvals", "approve", "waiting-1")
    decided = shell.json("approvals", "reject", "waiting-1:review:1", "--by", "finance", "--comments", "no")
    assert (decided["state"], decided["comments"]) == ("decided", "no")
    assert "no longer pending" in shell.error("approvals", "approve", "waiting-1:review:1", "--by", "finance")
    assert "there is no pending approval waiting-1" in shell.error("approvals", "approve", "waiting-1")
    assert "Nothing waits" in shell.run("approvals", "list").stderr
    assert len(shell.json("approvals", "list", "--state", "all")["items"]) == 1


@pytest.mark.slow
def test_a_run_has_the_correlation_id_it_was_given(shell, tmp_path):
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": 1}))
    shell.run("run", file, "--run-id", "r1", "--correlation-id", "order-17")
    assert shell.json("runs", "show", "r1")["correlation_id"] == "order-17"
    shell.run("workflows", "push", file)
    assert shell.json("runs", "start", "one", "--correlation-id", "order-18")["correlation_id"] == "order-18"
    assert "the maximum is 200" in shell.error("runs", "start", "one", "--correlation-id", "x" * 201, code=2)


FORM = {
    "type": "object",
    "required": ["amount", "to", "why"],
    "properties": {
        "amount": {"type": "integer", "minimum": 5},
        "to": {"enum": ["bank", "cash"]},
        "why": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "note": {"type": "string"},
    },
}


def test_the_hint_under_a_question_with_a_form_can_be_typed_as_it_stands(shell, tmp_path):
    ask = {**human("ask", approvers=["ann b"], form=FORM), "rejection_path": ["refuse"]}
    nodes = [ask, task("pay", "echo", "ask"), task("refuse", "echo")]
    told = shell.run("run", workflow(tmp_path, "pay", *nodes), "--run-id", "r1", "--no-wait", code=3).stderr
    hint, other = re.findall(r"perdure (approvals approve .*)", told)
    assert other == hint + "  (or reject, which leads to refuse)"
    assert json.loads(shlex.split(hint)[-1]) == {"amount": 5, "to": "bank", "why": {"text": "…"}}
    assert "Approved" in shell.run(*shlex.split(hint)).stdout


@pytest.mark.parametrize("flag", ["--as", "--by"])
def test_a_decision_carries_who_why_and_data(shell, waiting, tmp_path, flag):
    (tmp_path / "form.json").write_text('{"limit": 300}')
    decided = shell.json(
        "approvals", "approve", "waiting-1", flag, "finance", "--comments", "ok", "--data", "@form.json"
    )
    assert decided["state"] == "decided"
    shell.run("run", waiting, "--run-id", "waiting-1")
    output = shell.json("runs", "show", "waiting-1", "--node", "review")["output"]
    assert (output["decided_by"], output["comments"], output["data"]) == ("finance", "ok", {"limit": 300})


@pytest.mark.slow
def test_what_does_not_fit_the_form_is_refused_on_a_database_too(shell, tmp_path):
    form = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}
    file = workflow(tmp_path, "asks", human("review", form={**form, "additionalProperties": False}))
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    for wrong in (["--data", '{"amount": "lots", "surprise": true}'], []):
        said = shell.error("approvals", "approve", "r1", *wrong, code=2)
        assert "Usage:" not in said
        assert "the data does not fit the form of r1:review:1" in said
        assert "(give it with --data JSON)" in said
    shell.run("approvals", "approve", "r1", "--data", '{"amount": 3}')
    assert shell.json("runs", "show", "r1", "--node", "review")["output"]["data"] == {"amount": 3}


@pytest.mark.parametrize(
    ("data", "problem"), [("{a}", "not JSON"), ("@no-such-file", "cannot read no-such-file: No such file")]
)
def test_data_that_is_no_json_is_refused(shell, waiting, data, problem):
    assert problem in shell.error("approvals", "approve", "waiting-1", "--as", "finance", "--data", data, code=2)
    assert shell.json("approvals", "list")["items"][0]["state"] == "pending"


def test_a_prefix_of_two_pending_approvals_is_refused(shell, tmp_path):
    file = workflow(tmp_path, "two", human("one"), human("two"))
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    assert "2 pending approvals begin with r1" in shell.error("approvals", "approve", "r1")
    shell.run("approvals", "approve", "r1:one")
    shell.run("approvals", "approve", "r1")
    assert shell.json("runs", "show", "r1")["state"] == "completed"


def test_a_quorum_is_counted(shell, tmp_path):
    file = workflow(tmp_path, "two", human("both", approvers=["ann", "bob"], quorum=2))
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    said = shell.run("approvals", "approve", "r1", "--by", "ann").stdout
    assert "Approved r1:both:1; 1 of 2, still open: bob may approve" in said
    assert "ann has voted" in shell.error("approvals", "approve", "r1", "--by", "ann")
    assert shell.json("approvals", "approve", "r1", "--by", "bob")["state"] == "decided"


@pytest.mark.slow
def test_a_no_that_decides_nothing_says_who_may_still_approve(shell, tmp_path):
    file = workflow(tmp_path, "two", human("either", approvers=["ann", "bob"]))
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    said = shell.run("approvals", "reject", "r1", "--by", "ann").stdout
    assert said == "ann said no to r1:either:1; still open: bob may approve\n"
    going_on = shell.run("run", file, "--run-id", "r1", "--no-wait", code=3).stderr
    assert "either waits for: perdure approvals approve r1:either:1 --by bob\n" in going_on, "ann has voted"
    assert shell.run("approvals", "reject", "r1", "--as", "bob").stdout == "Rejected r1:either:1\n"


# -- dead letters ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dead_letter_is_listed_and_requeued(shell, tmp_path, parked):
    item = shell.json("dlq", "list")["items"][0]
    assert (item["dead_letter_id"], item["node"], item["state"]) == ("parked-1:a", "a", "pending")
    assert "not yet" in shell.run("dlq", "list").stdout
    (tmp_path / "there").touch()
    assert "Requeued parked-1:a" in shell.run("dlq", "requeue", "parked-1:a").stdout
    assert shell.json("run", parked, "--run-id", "parked-1")["state"] == "completed"
    assert shell.json("dlq", "list")["items"] == []
    assert "not parked" in shell.error("dlq", "requeue", "parked-1:a")


@pytest.mark.slow
def test_a_step_that_happened_is_not_done_again_if_a_person_says_what_it_gave(shell, tmp_path):
    (tmp_path / "shop.py").write_text(
        "import pathlib\n\nimport perdure\n\n@perdure.task(name='shop.pay')\ndef pay_once(ctx):\n"
        "    def charge():\n        pathlib.Path('charged').write_text('once')\n        raise RuntimeError('no answer')\n\n"
        "    return ctx.step('charge', charge, effect='at_most_once')\n"
    )
    file = workflow(tmp_path, "order", {"id": "a", "type": "task", "config": {"action": "shop.pay"}})
    shell.run("run", file, "--import", "shop.py", "--run-id", "o1", "--no-wait", code=3)
    assert "--done is STEP=JSON" in shell.error("dlq", "requeue", "o1:a", "--done", "charge=r7", code=2)
    assert "--done is for one node" in shell.error("dlq", "requeue", "--run-id", "o1", "--done", "charge=7", code=2)
    shell.run("dlq", "requeue", "o1:a", "--done", 'charge={"receipt": 7}')
    view = shell.json("run", file, "--import", "shop.py", "--run-id", "o1")
    assert (view["outputs"], (tmp_path / "charged").read_text()) == ({"a": {"receipt": 7}}, "once")


def test_requeue_is_also_called_reprocess_and_takes_the_beginning_of_an_id(shell, tmp_path, parked):
    (tmp_path / "there").touch()
    assert shell.json("dlq", "reprocess", "parked")["dead_letter_id"] == "parked-1:a"
    assert "there is no pending dead letter zz; `perdure dlq list`" in shell.error("dlq", "requeue", "zz")


def test_a_dead_letter_is_shown_with_what_its_node_was_given(shell, tmp_path, parked):
    text = shell.run("dlq", "show", "parked-1").stdout
    assert "dead letter  parked-1:a" in text
    assert f'"path": "{tmp_path / "there"}"' in text
    shell.run("dlq", "retry", "parked-1", "--by", "ann")
    after = shell.json("dlq", "list", "--state", "requeued")["items"]
    assert [(one["dead_letter_id"], one["by"]) for one in after] == [("parked-1:a", "ann")]
    assert shell.json("dlq", "list", "--state", "discarded")["items"] == []
    assert shell.json("dlq", "show", "parked-1:a")["config"]["args"] == {"path": str(tmp_path / "there")}


def test_a_dead_letter_says_its_error_once_and_where_it_was_raised(shell, parked):
    text = shell.run("dlq", "show", "parked-1").stdout
    assert "error: error:" not in text
    assert re.search(r"^error +\w+Error: ", text, re.MULTILINE)
    assert "work.py" in text
    assert ", in fail_until" in text
    assert "error: " not in shell.run("dlq", "list").stdout


@pytest.mark.slow
def test_requeue_with_other_config_runs_with_it(shell, tmp_path, parked):
    other = {"function": "tests.cli.work:echo", "args": {"value": "mended"}}
    shell.run("dlq", "requeue", "parked-1:a", "--config", json.dumps(other))
    assert shell.json("run", parked, "--run-id", "parked-1")["nodes"]["a"]["output"] == "mended"
    requeued = [one for one in shell.json("runs", "events", "parked-1")["items"] if one["type"] == "node.requeued"]
    assert requeued[0]["data"]["config"] == other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"function": "tests.cli.work:echo", "args": {"value": "{{ total }}"}},
            "'{{ total }}' is a template: write the value",
        ),
        ({"args": {"value": 1}}, "a task needs config.function"),
        ({}, "a task needs config.function"),
        ({"function": "tests.cli.work:echo", "value": 1}, "unknown key 'value'"),
        ({"function": "jobs:payy", "args": {"total": 1}}, "module 'jobs' has no 'payy'; did you mean 'pay'?"),
        ({"function": "jobs:pay", "args": {"totl": 1}}, "pay() needs total"),
    ],
)
def test_a_requeue_with_config_that_cannot_work_is_refused_on_the_spot(
    shell, tmp_path, parked, monkeypatch, config, expected
):
    (tmp_path / "jobs.py").write_text("def pay(total):\n    return total\n")
    monkeypatch.chdir(tmp_path)
    assert expected in shell.error("dlq", "requeue", "parked-1:a", "--config", json.dumps(config), code=2)
    assert [one["state"] for one in shell.json("dlq", "list")["items"]] == ["pending"]


def test_dead_letters_of_a_run_are_discarded_together(shell, parked):
    done = shell.json("dlq", "discard", "--run-id", "park", "--node-id", "a", "--as", "fail")
    assert [item["dead_letter_id"] for item in done["items"]] == ["parked-1:a"]
    assert shell.json("runs", "show", "parked-1")["state"] == "failed"
    assert "nothing of run parked-1 is parked" in shell.error("dlq", "discard", "--run-id", "parked-1")


def test_which_dead_letter_has_to_be_said(shell, parked):
    assert "name one dead letter" in shell.error("dlq", "requeue", code=2)
    assert "name one dead letter" in shell.error("dlq", "requeue", "parked-1:a", "--run-id", "parked-1", code=2)
    assert "goes with --run-id" in shell.error("dlq", "requeue", "parked-1:a", "--node-id", "a", code=2)
    assert "no pending dead letter nothing/here" in shell.error("dlq", "requeue", "nothing/here")
    assert "--config is for one node" in shell.error("dlq", "requeue", "--run-id", "parked-1", "--config", "{}", code=2)


@pytest.mark.slow
def test_a_node_shows_its_children_behind_those_of_others_and_says_how_many_more_there_are(shell, tmp_path):
    shell.run(
        "workflows", "push", workflow(tmp_path, "child", {"id": "x", "type": "transform", "config": {"value": 1}})
    )
    first = {"id": "first", "type": "workflow", "config": {"workflow": "child"}}
    many = {
        "id": "many",
        "type": "map",
        "dependencies": ["first"],
        "config": {"over": list(range(120)), "workflow": "child"},
    }
    shell.run("run", workflow(tmp_path, "parent", first, many), "--run-id", "p1")
    assert "p1:first" in shell.run("runs", "show", "p1", "--node", "first").stdout
    told = shell.run("runs", "show", "p1", "--node", "many")
    assert told.stdout.count("p1:many~~") == 20
    assert "… and 100 more." in told.stderr
    assert "`perdure runs list --parent p1` lists every run that it started." in told.stderr
