"""What is asked of a database and of a server: one function for each command, which must be answered alike by both."""

import json

from click.testing import CliRunner

from perdure.cli.app import app
from tests.cli.helpers import task, workflow
from tests.parity.world import KINDS, file_of, given, on, read

# -- runs --------------------------------------------------------------------------------------------------------------


def runs_list(world):
    assert len(world.compare("runs", "list")["items"]) >= len(KINDS)
    world.compare("runs", "list", "--state", "waiting")
    world.compare("runs", "list", "--workflow", "done", "--limit", 1)
    world.compare("runs", "list", "--cursor", "nonsense", code=2)
    world.compare("runs", "list", "--parent", "nobody", code=1)


def runs_show(world):
    for kind in KINDS:
        world.compare("runs", "show", world.read[kind])
    world.compare("runs", "show", world.read["done"], "--at", 2)
    world.compare("runs", "show", world.read["done"], "--at", 999, code=1)
    world.compare("runs", "show", world.read["done"], "--node", "a")
    world.compare("runs", "show", world.read["done"], "--node", "z", code=1)
    world.compare("runs", "show", "nobody", code=1)


def runs_whatif(world):
    asked = ("runs", "whatif", "{}", "--instructions", "Say more.", "--calls", "3")
    assert world.change(on(world, "agent", *asked))["conversations"]
    world.compare("runs", "whatif", world.read["done"], "--model", "fast", "--calls", "3", code=1)
    world.compare("runs", "whatif", "nobody", code=1)
    found = world.compare("runs", "whatif", "--workflow", "done", "--calls", "3")
    assert {one["code"] for one in found["refused"]} == {"nothing_recorded"}


def runs_explain(world):
    for kind in KINDS:
        world.compare("runs", "explain", world.read[kind])
    world.compare("runs", "explain", world.read["failed"], "z", code=1)


def runs_events(world):
    page = world.compare("runs", "events", world.read["done"], "--limit", 2)
    world.compare("runs", "events", world.read["done"], "--after", page["next_cursor"])
    world.compare("runs", "events", "nobody", code=1)


def runs_chunks(world):
    world.compare("runs", "chunks", world.read["yields"], "a")
    world.compare("runs", "chunks", world.read["done"], "a", code=1)
    world.compare("runs", "chunks", "nobody", "a", "--follow", code=1)


def runs_logs(world):
    world.compare("runs", "logs", world.read["done"])
    world.compare("runs", "logs", world.read["done"], "--follow")
    world.compare("runs", "logs", "nobody", code=1)


def runs_cost(world):
    assert world.compare("runs", "cost", world.read["agent"])["total"]["calls"] == 1
    assert world.compare("runs", "cost", world.read["done"])["total"]["calls"] == 0
    world.compare("runs", "cost", "nobody", code=1)


def runs_transcript(world):
    assert world.compare("runs", "transcript", world.read["agent"], "agent")["turns"]
    assert world.compare("runs", "transcript", world.read["done"], "a")["turns"] == []
    world.compare("runs", "transcript", world.read["done"], code=2)
    world.compare("runs", "transcript", "nobody", "a", code=1)


def runs_guards(world):
    assert world.compare("runs", "guards", world.read["busy"])["items"]
    assert world.compare("runs", "guards", world.read["done"])["items"] == []
    world.compare("runs", "guards", "nobody", code=1)


def runs_path(world):
    assert world.compare("runs", "path", world.read["done"])["items"]
    world.compare("runs", "path", "nobody", code=1)


def runs_diff(world):
    world.compare("runs", "diff", world.read["done"], world.read["failed"])
    world.compare("runs", "diff", world.read["done"], "--at", 1, "--to", 3)
    world.compare("runs", "diff", world.read["done"], "nobody", code=1)


def runs_watch(world):
    world.compare("runs", "watch", world.read["done"])
    world.compare("runs", "watch", world.read["failed"], code=1)
    world.compare("runs", "watch", "nobody", code=1)


def runs_export(world):
    world.compare("runs", "export", world.read["done"])
    world.compare("runs", "export", "nobody", code=1)


def runs_import(world):
    file = world.folder / "exported.json"
    file.write_text(json.dumps(world.compare("runs", "export", world.read["done"])))
    world.change(given("runs", "import", file))
    file.write_text('{"format": 1}')
    world.change(given("runs", "import", file), code=2)


def runs_start(world):
    world.change(given("runs", "start", "kept-waits", "-i", "n=1", "--tag", "team=blue", "--correlation-id", "o-1"))
    world.change(given("runs", "start", "kept-waits@1"))
    world.change(given("runs", "start", "kept-waits@7"), code=1)
    world.change(given("runs", "start", "nobody"), code=1)


def runs_cancel(world):
    world.change(on(world, "waits", "runs", "cancel", "{}", "--reason", "why"))
    world.change(on(world, "done", "runs", "cancel", "{}"), code=1)
    world.change(given("runs", "cancel", "nobody"), code=1)


def runs_pause(world):
    world.change(on(world, "waits", "runs", "pause", "{}", "--reason", "why"))
    world.change(on(world, "done", "runs", "pause", "{}"), code=1)


def runs_resume(world):
    world.change(on(world, "done", "runs", "resume", "{}"), code=1)
    world.change(on(world, "waits", "runs", "resume", "{}"))
    assert world.change(on(world, "paused", "runs", "resume", "{}"))["state"] == "running"


def runs_rollback(world):
    world.change(on(world, "waits", "runs", "rollback", "{}"), code=1)
    world.change(given("runs", "rollback", "nobody"), code=1)
    world.go_on("undoable", "runs", "rollback", "{}", until="rolled_back")


def runs_tell(world):
    world.change(on(world, "busy", "runs", "tell", "{}", "agent", "Hello."))
    world.compare("runs", "tell", world.read["done"], "nobody", "Hello.", code=1)


def runs_signal(world):
    world.change(on(world, "asks", "runs", "signal", "{}", "go", '{"a": 1}', "--signal-id", "k1"))
    world.change(on(world, "done", "runs", "signal", "{}", "go"), code=1)


def runs_retry(world):
    world.change(on(world, "waits", "runs", "retry", "{}"), code=1)
    file = workflow(world.folder, "failed", task("a", "echo"), {"id": "bad", "type": "wait", "config": {"signal": "x"}})
    world.change(on(world, "failed", "runs", "retry", "{}", "--definition", file, "--reason", "mended"), code=1)
    wrong = workflow(world.folder, "wrong", task("a", "echo", "nowhere"))
    world.change(on(world, "failed", "runs", "retry", "{}", "--definition", wrong), code=2)
    world.go_on("flaky", "runs", "retry", "{}", until="waiting")


def runs_rerun(world):
    world.change(on(world, "waits", "runs", "rerun", "{}", "-i", "n=2"))
    world.change(on(world, "done", "runs", "rerun", "{}", "--from", "z"), code=1)
    world.change(given("runs", "rerun", "nobody"), code=1)


def runs_patch(world):
    file = file_of(world, "waits", task("more", "echo", "wait"))
    world.change(on(world, "waits", "runs", "patch", "{}", file, "--dry-run"))
    world.change(on(world, "waits", "runs", "patch", "{}", file, "--reason", "more"))
    other = file_of(world, "done", name="other")
    world.change(on(world, "waits", "runs", "patch", "{}", other), code=1)
    operations = world.folder / "patch.json"
    operations.write_text('[{"op": "remove", "path": "/nodes/7"}]')
    world.change(on(world, "waits", "runs", "patch", "{}", operations), code=2)


# -- people ------------------------------------------------------------------------------------------------------------


def approvals_list(world):
    assert world.compare("approvals", "list")["items"]
    world.compare("approvals", "list", "--state", "decided")
    world.compare("approvals", "list", "--run-id", world.read["asks"])
    world.compare("approvals", "list", "--run-id", "nobody", code=1)


def approvals_show(world):
    world.compare("approvals", "show", world.read["asks"])
    world.compare("approvals", "show", "nobody", code=1)


def approvals_approve(world):
    vote = ("approvals", "approve", "{}", "--by", "anna", "--comments", "fine")
    world.change(on(world, "asks", *vote, "--data", '{"amount": 3}'))
    world.change(on(world, "asks", "approvals", "approve", "{}:ask:1", "--by", "anna", "--data", '{"amount": 3}'))
    world.change(given("approvals", "approve", "nobody"), code=1)


def approvals_reject(world):
    world.change(on(world, "asks", "approvals", "reject", "{}", "--by", "bert", "--comments", "no"))
    world.change(given("approvals", "reject", "nobody"), code=1)


def approvals_delegate(world):
    world.change(on(world, "asks", "approvals", "delegate", "{}", "carl", "--by", "anna"))
    world.change(given("approvals", "delegate", "nobody", "carl"), code=1)


def dlq_list(world):
    assert world.compare("dlq", "list")["items"]
    world.compare("dlq", "list", "--state", "discarded")
    world.compare("dlq", "list", "--state", "all", "--run-id", world.read["parked"])


def dlq_show(world):
    world.compare("dlq", "show", world.read["parked"])
    world.compare("dlq", "show", "nobody", code=1)


def dlq_requeue(world):
    other = '{"function": "tests.cli.work:echo", "args": {"value": 1}}'
    world.change(on(world, "parked", "dlq", "requeue", "{}:bad", "--config", other))
    world.change(on(world, "parked", "dlq", "requeue", "--run-id", "{}", "--config", other, "--node-id", "bad"))
    world.change(on(world, "parked", "dlq", "requeue", "{}:bad", "--config", "{}"), code=2)
    world.change(given("dlq", "requeue", "nobody"), code=1)


def dlq_discard(world):
    world.change(on(world, "parked", "dlq", "discard", "{}", "--as", "fail"))
    world.change(on(world, "parked", "dlq", "discard", "--run-id", "{}"))
    world.change(on(world, "done", "dlq", "discard", "--run-id", "{}"), code=1)


# -- workflows ---------------------------------------------------------------------------------------------------------


def workflows_list(world):
    assert len(world.compare("workflows", "list")["items"]) >= len(KINDS)
    world.compare("workflows", "list", "--limit", 1)


def workflows_show(world):
    world.compare("workflows", "show", "kept-done")
    world.compare("workflows", "show", "kept-done@1")
    world.compare("workflows", "show", "kept-done@nowhere", code=1)
    world.compare("workflows", "show", "nobody", code=1)


def workflows_versions(world):
    world.compare("workflows", "versions", "kept-done")
    world.compare("workflows", "versions", "nobody", code=1)


def workflows_push(world):
    world.client.workflows.register({"name": "pushed", "nodes": KINDS["done"]})
    world.change(given("workflows", "push", file_of(world, "done", name="pushed")))
    wrong = workflow(world.folder, "wrong", task("a", "echo", "nowhere"))
    world.change(given("workflows", "push", wrong), code=2)


def workflows_patch(world):
    file = world.folder / "patch.json"
    file.write_text('[{"op": "replace", "path": "/description", "value": "x"}]')
    world.change(given("workflows", "patch", "kept-done", file, "--dry-run"), code=2)
    file.write_text('[{"op": "add", "path": "/description", "value": "x"}]')
    world.change(given("workflows", "patch", "kept-done", file, "--dry-run"))
    world.change(given("workflows", "patch", "kept-done", file, "--base", 9), code=1)


def workflows_alias(world):
    names = iter(("live-1", "live-1") if world.apart else ("live-1", "live-2"))

    def make():
        name = next(names)
        return ["workflows", "alias", "kept-failed", name, "1", "--reason", "r"], [name]

    world.change(make)
    world.compare("workflows", "alias", "kept-failed", made=True)
    world.change(given("workflows", "alias", "kept-failed", "live-1", "1=50"), code=2)
    world.change(given("workflows", "alias", "kept-failed", "live-1", "--rollback"), code=1)
    world.change(given("workflows", "alias", "kept-failed", "nowhere", "--delete"), code=1)


# -- the rest ----------------------------------------------------------------------------------------------------------


def blobs_put(world):
    file = world.folder / "content"
    file.write_text("content")
    world.compare("blobs", "put", file)


def blobs_get(world):
    ref = world.client.blobs.put(b"something")["ref"]
    world.compare("blobs", "get", ref)
    world.compare("blobs", "get", "sha256:" + "0" * 64, code=1)
    world.compare("blobs", "get", "sha256:12", code=1)


def blobs_stat(world):
    ref = world.client.blobs.put(b"something")["ref"]
    world.compare("blobs", "stat", ref)
    world.compare("blobs", "stat", "sha256:" + "0" * 64, code=1)


def _put(world, name):
    file = world.folder / "some.txt"
    file.write_text("something")
    args = ["assets", "put", file, "--as", f"{name}-{'ab'[world.side]}"]
    return args, args[-1]


def assets_list(world):
    assert world.compare("assets", "list", "nothing")["items"] == []


def assets_put(world):
    def make():
        args, name = _put(world, "put")
        return args, [name]

    world.change(make, moving=("kept_by",))
    world.compare("assets", "put", world.folder / "some.txt", "--as", 'a"b', code=2)


def assets_get(world):
    def make():
        args, name = _put(world, "get")
        world.ask(world.side, args)
        return ["assets", "get", name, "-o", world.folder / name], [name, str(world.folder / name)]

    world.change(make, moving=("kept_by",))
    for side in "ab":
        assert (world.folder / f"get-{side}").read_text() == "something"
    world.compare("assets", "get", "nothing", code=1)


def assets_delete(world):
    def make():
        args, name = _put(world, "delete")
        world.ask(world.side, args)
        return ["assets", "delete", name, "1"], [name]

    world.change(make, moving=("kept_by",))
    world.compare("assets", "delete", "nothing", 1, code=1)


def assets_promote(world):
    names = iter(("first", "second"))

    def make():
        name = next(names)
        return ["assets", "promote", world.read["file"], "a", "--as", name], [name]

    world.change(make, moving=("kept_by",))
    world.compare("assets", "promote", world.read["done"], "a", code=2)
    world.compare("assets", "promote", "nobody", "a", code=1)


def keys_create(world):
    world.change(given("keys", "create", "ci", "--role", "operator", "--scope", "runs:read"))
    for side in (0, 1):  # a server reads a body before anything is asked, in words of its own
        assert world.ask(side, ["keys", "create", "ci", "--role", "operatr"])[0] == 2


def keys_list(world):
    world.compare("keys", "list", made=True)


def keys_revoke(world):
    def make():
        made = world.client.keys.create("gone", ["viewer"])
        return ["keys", "revoke", made["key_id"]], [made["key_id"], made["prefix"]]

    world.change(make)
    world.change(given("keys", "revoke", "nobody"), code=1)


def audit_list(world):
    world.client.keys.create("audited", ["viewer"])
    world.compare("audit", "list", "--action", "key.created")


def audit_verify(world):
    here, there = (world.ask(side, ["audit", "verify"]) for side in (0, 1))
    if world.apart:  # the audit has what servers were asked, and of a database its keys alone
        for answer in (here, there):
            assert answer[1].pop("entries")
            assert answer[1].pop("head")
    assert here == there
    assert here[:2] == (0, here[1] | {"intact": True})


def run(world):
    world.change(given("run", file_of(world, "done"), "-i", "n=1", "--tag", "team=blue"))
    world.change(given("run", file_of(world, "failed")), code=1)
    wrong = workflow(world.folder, "wrong", task("a", "echo", "nowhere"))
    world.change(given("run", wrong), code=2)
    ended, same = world.read["done"], file_of(world, "done")
    world.compare("run", same, "--run-id", ended)
    world.compare("run", same, "--run-id", ended, "-i", "n=1", "-i", f"flag={world.flag}")
    world.compare("run", same, "--run-id", ended, "-i", "n=2", code=2)
    world.compare("run", file_of(world, "done", task("more", "echo", "b")), "--run-id", ended, code=2)
    world.compare("run", file_of(world, "failed"), "--run-id", ended, code=2)


def graph(world):
    run_id = world.client.runs.start("kept-done", {"n": 1})["run_id"]
    world.client.runs.wait(run_id)
    world.compare("graph", "--run", run_id)
    world.compare("graph", "--run", "nobody", code=1)


def validate(world):
    world.compare("validate", file_of(world, "done"))
    wrong = workflow(world.folder, "wrong", task("a", "echo", "nowhere"))
    world.compare("validate", wrong, code=2)


def node_types(world):
    for name in ((), ("http",), ("nobody",)):
        told = [CliRunner().invoke(app, ["node-types", *name, *side, "--json"]) for side in ((), world.sides[1])]
        assert told[0].exit_code == told[1].exit_code
        assert read(told[0].stdout) == read(told[1].stdout)


def cost(world):
    for by in ("workflow", "model", "day"):
        world.compare("cost", "--by", by)
    world.compare("cost", "--workflow", "nobody")
    world.compare("cost", "--since", "no time", code=2)


def budgets_list(world):
    world.compare("budgets", "list")


def budgets_show(world):
    world.compare("budgets", "set", "workflow:shown", "--calls", "5", "--per", "day")
    world.compare("budgets", "show", "workflow:shown")
    world.compare("budgets", "show", "nobody", code=1)


def budgets_set(world):
    world.compare("budgets", "set", "workflow:both", "--usd", "5", "--share", "0.5")
    world.compare("budgets", "set", "nobody", "--calls", "5", code=2)
    world.compare("budgets", "set", "tenant", code=2)


def budgets_delete(world):
    world.compare("budgets", "delete", "nobody", code=1)
    for side in world.sides:
        CliRunner().invoke(app, ["budgets", "set", "workflow:gone", "--calls", "5", *side])
        assert CliRunner().invoke(app, ["budgets", "delete", "workflow:gone", *side]).exit_code == 0


def _tool(world, name):
    nodes = [{"id": "a", "type": "output"}]
    world.client.workflows.register({"name": name, "expose": {"tool": True}, "nodes": nodes})
    return name


def _on_each_tool(world, word, *words):
    names = iter((_tool(world, f"{word}-1"), _tool(world, f"{word}-2")))

    def make():
        name = next(names)
        return ["tools", word, name, *words], [name]

    world.change(make)


def tools_list(world):
    _tool(world, "listed")
    assert world.compare("tools", "list", "-q", "listed")["items"]
    world.compare("tools", "list", "-q", "nothing")


def tools_show(world):
    world.compare("tools", "show", _tool(world, "shown"))
    world.compare("tools", "show", "nothing", code=1)


def tools_promote(world):
    _on_each_tool(world, "promote")
    world.compare("tools", "promote", "nothing", "--alone", code=1)


def tools_retire(world):
    _on_each_tool(world, "retire")
    world.compare("tools", "retire", "nothing", code=1)


def tools_pin(world):
    _on_each_tool(world, "pin")
    world.compare("tools", "pin", "nothing", code=1)


def sessions_list(world):
    assert world.compare("sessions", "list", made=True)["items"]
    assert world.compare("sessions", "list", "--key", "nobody")["items"] == []


def sessions_show(world):
    assert world.compare("sessions", "show", "agent", "agent", "ann-1")["turns"]
    world.compare("sessions", "show", "orders", "agent", "nobody", code=1)


def sessions_delete(world):
    keys = iter((f"ann-{world.who}", f"ann-{world.who}") if world.apart else ("", ""))

    def make():
        if world.apart:
            key = next(keys)
        else:
            world.make("agent")
            key = f"ann-{world.who}"
        return ["sessions", "delete", "agent", "agent", key], [key]

    world.change(make)
    world.compare("sessions", "delete", "orders", "agent", "nobody", code=1)


def chat(world):
    world.compare("chat", "nothing.yaml", code=2)


# -- triggers ----------------------------------------------------------------------------------------------------------

MOVED = ("trigger_id", "run_id", "next_at", "last_at", "spec", "cursor", "waiting", "open", "failures", "last_success")
"""What of a trigger is its own, or changes with its runs."""
DAILY = {"workflow": "kept-done", "schedule": {"cron": "0 3 * * *"}}


def _daily(world, name):
    world.client.triggers.apply({"name": name, **DAILY})
    return name


def _on_each(world, *words):
    """The same done to two triggers of the same kind, one on each side; and to one that is not there."""
    names = iter((_daily(world, f"{words[0]}-1"), _daily(world, f"{words[0]}-2")))

    def make():
        name = next(names)
        return ["triggers", words[0], name, *words[1:]], [name, name.encode().hex()]

    world.change(make, moving=MOVED)
    world.change(given("triggers", words[0], "nobody", *words[1:]), code=1)


def triggers_apply(world):
    file = world.folder / "daily.json"
    file.write_text(json.dumps({"name": _daily(world, "applied"), **DAILY}))
    world.change(given("triggers", "apply", file))
    file.write_text(json.dumps({"name": "wrong", "workflow": "kept-done", "schedule": {"cron": "x"}}))
    world.change(given("triggers", "apply", file), code=2)


def events_send(world):
    once = given("events", "send", "order.paid", '{"order": 7}', "--id", "one", "--key", "ann")
    world.change(once, moving=("duplicate", "kept_until"))  # the second side sends it again
    world.change(given("events", "send", "no name"), code=2)


def triggers_list(world):
    _daily(world, "listed")
    assert world.compare("triggers", "list")["items"]
    world.compare("triggers", "list", "--kind", "webhook")


def schedules_list(world):
    _daily(world, "listed")
    assert world.compare("schedules", "list")["items"]


def triggers_show(world):
    world.compare("triggers", "show", _daily(world, "shown"))
    world.compare("triggers", "show", "nobody", code=1)


def triggers_next(world):
    world.compare("triggers", "next", _daily(world, "shown"), "--count", 2)
    world.compare("triggers", "next", "nobody", code=1)


def triggers_items(world):
    world.compare("triggers", "items", _daily(world, "shown"))
    world.compare("triggers", "items", "nobody", code=1)


def triggers_test(world):
    world.compare("triggers", "test", _daily(world, "shown"), "--at", "2026-01-01T00:00:00Z", "--count", 2)


def triggers_fire(world):
    _on_each(world, "fire")


def triggers_pause(world):
    _on_each(world, "pause", "--reason", "r")


def triggers_resume(world):
    _on_each(world, "resume")


def triggers_delete(world):
    _on_each(world, "delete")


def triggers_backfill(world):
    _on_each(world, "backfill", "--since", "2026-01-01", "--until", "2026-01-03")


def triggers_rewind(world):
    world.change(given("triggers", "rewind", _daily(world, "shown"), "1", "--reason", "r"), code=1)


def triggers_requeue(world):
    world.change(given("triggers", "requeue", _daily(world, "shown"), 7), code=1)


def triggers_discard(world):
    world.change(given("triggers", "discard", _daily(world, "shown"), 7), code=1)


TRIGGERS = (
    *(triggers_apply, triggers_list, schedules_list, triggers_show, triggers_next, triggers_items, triggers_test),
    *(triggers_fire, triggers_pause, triggers_resume, triggers_delete, triggers_backfill, triggers_rewind),
    *(triggers_requeue, triggers_discard, events_send),
)
CASES = (
    *(
        runs_list,
        runs_show,
        runs_explain,
        runs_events,
        runs_logs,
        runs_chunks,
        runs_path,
        runs_cost,
        runs_transcript,
        runs_guards,
        runs_whatif,
        runs_diff,
        runs_watch,
    ),
    *(runs_export,),
    *(budgets_list, budgets_show, budgets_set, budgets_delete),
    *(runs_import, runs_start, runs_cancel, runs_pause, runs_resume, runs_rollback, runs_signal, runs_tell, runs_retry),
    *(runs_rerun, runs_patch, approvals_list, approvals_show, approvals_approve, approvals_reject, approvals_delegate),
    *(dlq_list, dlq_show, dlq_requeue, dlq_discard, workflows_list, workflows_show, workflows_versions),
    *(workflows_push, workflows_patch, workflows_alias, blobs_put, blobs_get, blobs_stat, keys_create, keys_list),
    *(assets_list, assets_put, assets_get, assets_delete, assets_promote),
    *(
        tools_list,
        tools_show,
        tools_promote,
        tools_retire,
        tools_pin,
        sessions_list,
        sessions_show,
        sessions_delete,
        chat,
    ),
    *(keys_revoke, audit_list, audit_verify, run, graph, validate, node_types, cost),
    *TRIGGERS,
)
