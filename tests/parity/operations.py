"""Every operation of the service, asked of a database and of a server: what each is asked about, and how.

An operation is asked about something that exists and about something that does not, so that its refusal is compared too.
"""

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, NamedTuple

from perdure.service import Service
from perdure.service.runs.run_events import public_event
from perdure.sources import Polled, Source
from tests.parity.world import KINDS
from tests.waiting import until_true

NOWHERE = "nobody"
PATCH = [{"op": "add", "path": "/description", "value": "x"}]
ECHO = {"function": "tests.cli.work:echo", "args": {"value": 1}}


class Asked(NamedTuple):
    kind: str
    """The kind of run it is asked about, or empty."""
    ask: Callable[[Any, str], Any]
    """Given a service or a client, and the run or the name it is about."""
    about: str = ""
    """The name it is asked about, where that is no run."""
    changes: bool = False
    """Each side is asked about a run of its own, and ids, times and people are left out of the comparison."""
    apart: tuple[str, ...] = ()
    """Fields that are another thing on each side by their nature."""


def read(kind, ask, **more):
    return Asked(kind, ask, **more)


def change(kind, ask, **more):
    return Asked(kind, ask, changes=True, **more)


def named(name, ask, **more):
    return Asked("", ask, about=name, **more)


MOVING = ("nodes", "counter", "waiting", "state", "last_event_at", "ended_at", "started_at", "outputs", "error")
"""What a worker may have changed before the answer was given."""


async def _delete_alias(on, name):
    if name != NOWHERE:
        await on.workflows.put_alias(name, "gone", 1)
    return await on.workflows.delete_alias(name, "gone")


async def _get_budget(on, scope):
    if scope != NOWHERE:
        await on.budgets.set(scope, calls=7, per="day")
    return await on.budgets.get(scope)


async def _delete_budget(on, scope):
    if scope != NOWHERE:
        await on.budgets.set(scope, calls=7)
    return await on.budgets.delete(scope)


async def _delete_workflow(on, name):
    if name != NOWHERE:
        await on.workflows.register({"name": name, "nodes": KINDS["done"]})
    return await on.workflows.delete(name)


async def _get_blob(on, content):
    return await on.blobs.get(await _put(on, content))


async def _stat_blob(on, content):
    return await on.blobs.stat(await _put(on, content))


async def _put(on, content):
    return f"sha256:{'0' * 64}" if content == NOWHERE else (await on.blobs.put(content.encode()))["ref"]


async def _follow(on, run):
    """Every event of a run that has ended, as a service follows them and a client streams them."""
    if not isinstance(on, Service):
        return {"events": [event async for event in on.runs.stream(run, after=1)]}
    found = []
    async with aclosing(await on.runs.follow(run, 1)) as batches:
        async for batch in batches:
            assert isinstance(batch, list)  # no list of tasks was asked for
            found += [public_event(one) for one in batch]
    return {"events": found}


async def _chunks(on, run):
    """What a node has yielded, as a service gives it in portions and a client one by one."""
    if not isinstance(on, Service):
        return {"chunks": [one["chunk"] async for one in on.runs.chunks(run, "a") if one["type"] == "chunk"]}
    found = []
    async with aclosing(on.runs.chunks(run, "a").read()) as news:
        async for some in news:
            found += [json.loads(body) for body in getattr(some, "bodies", ())]
    return {"chunks": found}


async def _what_if_report(on, run):
    """Of a what-if that has ended. Where there is no run to look at, the report of none is asked for."""
    made = run if run == NOWHERE else (await on.runs.what_if(run, model="fast", budget={"calls": 3}))["run_id"]

    async def has_ended():
        return made == NOWHERE or (await on.runs.get(made))["state"] == "completed"

    await until_true(has_ended, "the what-if to end")
    return await on.runs.what_if_report(made)


async def _of_session(on, run, ask):
    """About the session that a run of an agent had."""
    key = run if run == NOWHERE else (await on.runs.get(run))["inputs"]["who"]
    return await ask("agent", "agent", key)


async def _revoke(on, name):
    return await on.keys.revoke(name if name == NOWHERE else (await on.keys.create(name, ["viewer"]))["key_id"])


async def _put_asset(on, name):
    ref = (await on.blobs.put(b"content"))["ref"]
    return await on.assets.put(name, [ref, ref], media_type="text/plain", file_name="a.txt")


async def _get_asset(on, name):
    if name != NOWHERE:
        await _put_asset(on, name)
    return await on.assets.get(name)


async def _part_of_asset(on, name):
    if name != NOWHERE:
        await _put_asset(on, name)
    return {"part": (await on.assets.part(name, first=5, count=4)).decode()}


async def _delete_asset(on, name):
    version = 1 if name == NOWHERE else (await _put_asset(on, name))["version"]
    return await on.assets.delete(name, version)


async def _then(first, then):
    return await then(await first)


async def _tool(on, name):
    if name != NOWHERE:
        nodes = [{"id": "a", "type": "output"}]
        await on.workflows.register({"name": name, "expose": {"tool": True}, "nodes": nodes})
    return name


async def _get_view(on, name):
    if name != NOWHERE:
        await on.saved_views.save(name, "state=failed")
    return await on.saved_views.get(name)


async def _delete_view(on, name):
    if name != NOWHERE:
        await on.saved_views.save(name, "state=failed", shared=True)
    return await on.saved_views.delete(name, shared=name != NOWHERE)


TRIGGER = {"workflow": "kept-waits", "schedule": {"cron": "0 0 1 1 *"}, "inputs": {"n": 1}}
OF_A_TRIGGER = (
    "trigger_id",
    "cursor",
    "next_at",
    "last_at",
    "last_success",
    "open",
    "waiting",
    "run_id",
    "number",
    "revision",
    "changed",
    "at",
    "created",
    "duplicate",
    "kept_until",
)
"""What differs between two triggers of one definition."""


def triggering(ask, name="kept-yearly", **more):
    """An operation on a trigger, which is made first; `park` leaves an item that could start no run."""

    async def do(on, about):
        if about != NOWHERE:
            await on.triggers.apply({**TRIGGER, "name": about, **more})
        answer = ask(on, about)
        return await (answer.first() if hasattr(answer, "first") else answer)

    return Asked("", do, about=name, changes=True, apart=OF_A_TRIGGER)


STRICT = {
    "name": "kept-strict",
    "nodes": KINDS["waits"],
    "inputs": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
}


def parking(ask):
    """An operation on an item that could start no run: it was fired with what its workflow does not take."""

    async def do(on, about):
        number = 7
        if about != NOWHERE:
            await on.workflows.register(STRICT)
            await on.triggers.apply({**TRIGGER, "name": about, "workflow": "kept-strict", "inputs": {"id": 1}})
            number = (await on.triggers.fire(about, {"id": "one"}, overlap="allow"))["number"]
        return await ask(on, about, number)

    return Asked("", do, about="kept-parking", changes=True, apart=OF_A_TRIGGER)


async def _rewind(on, name):
    if name != NOWHERE:
        await on.triggers.apply(
            {"name": name, "workflow": "kept-waits", "poll": {"type": "test_nothing", "every": "1h"}}
        )
        await on.triggers.pause(name)
    return await on.triggers.rewind(name, None, "why")


class Nothing(Source, name="test_nothing"):
    async def poll(self, cursor):
        return Polled((), "1")


async def _import_file(on, run):
    exported = await on.runs.export(run)
    if isinstance(on, Service):  # it may be large, and comes in parts
        exported = json.loads("".join([str(part) async for part in exported]))
    return await on.runs.import_file(exported)


async def _rollback_alias(on, name):
    if name != NOWHERE:
        for version, nodes in ((1, KINDS["done"]), (2, KINDS["waits"])):
            await on.workflows.register({"name": name, "nodes": nodes})
            await on.workflows.put_alias(name, "live", version)
    return await on.workflows.rollback_alias(name, "live")


OPERATIONS = {
    "triggers.apply": triggering(
        lambda on, name: on.triggers.apply({**TRIGGER, "name": name}, name=name.replace(NOWHERE, "x"))
    ),
    "triggers.list": triggering(lambda on, name: on.triggers.list(kind="webhook", limit=2)),
    "triggers.get": triggering(lambda on, name: on.triggers.get(name)),
    "triggers.next": triggering(lambda on, name: on.triggers.next(name, count=2, since=1_700_000_000.0)),
    "triggers.items": triggering(lambda on, name: on.triggers.items(name, state="parked")),
    "triggers.test": triggering(lambda on, name: on.triggers.test(name, at=1_700_000_000.0)),
    "triggers.schedules": triggering(lambda on, name: on.triggers.schedules(state="done", limit=2)),
    "triggers.firings": triggering(lambda on, name: on.triggers.firings(1_700_000_000.0, 1_700_000_001.0)),
    "triggers.pause": triggering(lambda on, name: on.triggers.pause(name, reason="why"), "kept-paused"),
    "triggers.resume": triggering(lambda on, name: on.triggers.resume(name)),
    "triggers.delete": triggering(lambda on, name: on.triggers.delete(name), "kept-deleted"),
    "triggers.fire": triggering(lambda on, name: on.triggers.fire(name, {"n": 2}, overlap="allow")),
    "triggers.backfill": triggering(lambda on, name: on.triggers.backfill(name, 1_700_000_000.0, 1_700_000_001.0)),
    "triggers.rewind": Asked("", _rewind, about="kept-read", changes=True, apart=OF_A_TRIGGER),
    "triggers.requeue": parking(lambda on, name, number: on.triggers.requeue(name, number, inputs={"id": 1})),
    "triggers.discard": parking(lambda on, name, number: on.triggers.discard(name, number)),
    "events.send": triggering(
        lambda on, name: on.events.send(name.replace(NOWHERE, "no such"), {"n": 1}, id="one", key="k"), "kept-sent"
    ),
    "runs.list": read("done", lambda on, run: on.runs.list(parent=run, limit=3)),
    "runs.get": read("done", lambda on, run: on.runs.get(run)),
    "runs.state_at": read("done", lambda on, run: on.runs.state_at(run, 2)),
    "runs.nodes": read("done", lambda on, run: on.runs.nodes(run, outputs=True)),
    "runs.node": read("done", lambda on, run: on.runs.node(run, "a")),
    "runs.definition": read("done", lambda on, run: on.runs.definition(run, at=2)),
    "runs.graph": read("done", lambda on, run: on.runs.graph(run, at=2, direction="right")),
    "runs.graph_svg": read("done", lambda on, run: on.runs.graph_svg(run)),
    "runs.film": read("done", lambda on, run: on.runs.film(run, after=1, limit=1)),
    "runs.node_input": read("done", lambda on, run: on.runs.node_input(run, "a", attempt=1)),
    "runs.node_output": read("done", lambda on, run: on.runs.node_output(run, "a", visit=1)),
    "runs.inputs": read("done", lambda on, run: on.runs.inputs(run)),
    "runs.outputs": read("done", lambda on, run: on.runs.outputs(run)),
    "runs.items": read("done", lambda on, run: on.runs.items(run, "a")),
    "runs.working": read("waits", lambda on, run: on.runs.working(run)),
    "runs.events": read("done", lambda on, run: on.runs.events(run, before=4, node="a", outputs=False)),
    "runs.follow": read("done", _follow),
    "runs.chunks": read("yields", _chunks),
    "runs.logs": read("done", lambda on, run: on.runs.logs(run)),
    "runs.path": read("done", lambda on, run: on.runs.path(run)),
    "runs.usage": read("agent", lambda on, run: on.runs.usage(run)),
    "runs.transcript": read("agent", lambda on, run: on.runs.transcript(run, "agent", limit=2)),
    "runs.guards": read("busy", lambda on, run: on.runs.guards(run, verdict="ask")),
    "runs.explain": read("asks", lambda on, run: on.runs.explain(run, "ask")),
    "runs.diff": read("done", lambda on, run: on.runs.diff(run, at=1, to=3)),
    "runs.export": read("done", lambda on, run: on.runs.export(run)),
    "runs.import_file": change("done", _import_file),
    "runs.start": named("kept-waits", lambda on, name: on.runs.start(name, {"n": 1}), changes=True),
    "runs.cancel": change("waits", lambda on, run: on.runs.cancel(run, reason="why")),
    "runs.pause": change("waits", lambda on, run: on.runs.pause(run)),
    "runs.resume": change("paused", lambda on, run: on.runs.resume(run)),
    "runs.rollback": change("done", lambda on, run: on.runs.rollback(run), apart=MOVING),
    "runs.tell": change("busy", lambda on, run: on.runs.tell(run, "agent", "Hello.", message_id="k")),
    "runs.signal": change("asks", lambda on, run: on.runs.signal(run, "go", {"a": 1}, signal_id="k")),
    "runs.retry": change("failed", lambda on, run: on.runs.retry(run, reason="again"), apart=MOVING),
    "runs.rerun": change("waits", lambda on, run: on.runs.rerun(run, inputs={"n": 2})),
    "runs.what_if": change("agent", lambda on, run: on.runs.what_if(run, model="fast", budget={"calls": 3})),
    "runs.what_if_report": read("agent", _what_if_report, apart=("run_id",)),
    "runs.actions": read("failed", lambda on, run: on.runs.actions(run)),
    "runs.preview": read("failed", lambda on, run: on.runs.preview(run, "retry")),
    "runs.patch": change("waits", lambda on, run: on.runs.patch(run, PATCH, dry_run=True)),
    "workflows.validate": named(
        "", lambda on, _: on.workflows.validate({"name": "x", "nodes": KINDS["done"]}, graph=True, canonical=True)
    ),
    "workflows.register": named(
        "", lambda on, _: on.workflows.register({"name": "kept-done", "nodes": KINDS["done"]}, reason="again")
    ),
    "workflows.patch": named("kept-done", lambda on, name: on.workflows.patch(name, PATCH, dry_run=True)),
    "workflows.delete": named("kept-gone", _delete_workflow),
    "workflows.list": named("", lambda on, _: on.workflows.list(limit=2)),
    "workflows.stats": named("kept-done", lambda on, name: on.workflows.stats(name)),
    "workflows.get": named("kept-done", lambda on, name: on.workflows.get(name, version=1)),
    "workflows.definition_yaml": named("kept-done", lambda on, name: on.workflows.definition_yaml(name, version=1)),
    "workflows.graph": named("kept-done", lambda on, name: on.workflows.graph(name, opened=["*"])),
    "workflows.graph_svg": named("kept-done", lambda on, name: on.workflows.graph_svg(name, version=1)),
    "workflows.versions": named("kept-done", lambda on, name: on.workflows.versions(name)),
    "workflows.diff": named("kept-done", lambda on, name: on.workflows.diff(name, "1", "latest")),
    "workflows.users": named("kept-done", lambda on, name: on.workflows.users(name)),
    "workflows.aliases": named("kept-done", lambda on, name: on.workflows.aliases(name)),
    "workflows.put_alias": named(
        "kept-failed", lambda on, name: on.workflows.put_alias(name, "new", 1), changes=True, apart=("revision",)
    ),
    "workflows.alias_moves": named("kept-done", lambda on, name: on.workflows.alias_moves(name, "live")),
    "workflows.rollback_alias": named("kept-moved", _rollback_alias, changes=True, apart=("revision", "reason")),
    "workflows.delete_alias": named("kept-done", _delete_alias),
    "approvals.list": read("asks", lambda on, run: on.approvals.list(run_id=run)),
    "approvals.get": read("asks", lambda on, run: on.approvals.get(f"{run}:ask:1")),
    "approvals.decide": change(
        "asks", lambda on, run: on.approvals.decide(f"{run}:ask:1", "approve", data={"amount": 3}, by="anna")
    ),
    "approvals.delegate": change("asks", lambda on, run: on.approvals.delegate(f"{run}:ask:1", "carl", by="anna")),
    "approvals.make_links": change(
        "asks", lambda on, run: on.approvals.make_links(f"{run}:ask:1", "anna"), apart=("approve", "reject")
    ),
    "dead_letters.list": read("parked", lambda on, run: on.dead_letters.list(run_id=run)),
    "dead_letters.counts": named("", lambda on, _: on.dead_letters.counts(node="nowhere")),
    "dead_letters.get": read("parked", lambda on, run: on.dead_letters.get(f"{run}:bad")),
    "dead_letters.requeue": change(
        "parked", lambda on, run: on.dead_letters.requeue(f"{run}:bad", config=ECHO), apart=MOVING
    ),
    "dead_letters.discard": change("parked", lambda on, run: on.dead_letters.discard(f"{run}:bad"), apart=MOVING),
    "dead_letters.preview_discard": read(
        "parked", lambda on, run: on.dead_letters.preview_discard(f"{run}:bad", as_="fail")
    ),
    "dead_letters.requeue_many": change("parked", lambda on, run: on.dead_letters.requeue_many(run_id=run)),
    "dead_letters.discard_many": change("parked", lambda on, run: on.dead_letters.discard_many(run_id=run, expected=1)),
    "assets.put": named("", lambda on, _: _put_asset(on, "put"), apart=("kept_at", "kept_by", "version")),
    "assets.get": named("got", _get_asset, apart=("kept_at", "kept_by", "version")),
    "assets.part": named("parts", _part_of_asset),
    "assets.delete": named("gone", _delete_asset, apart=("kept_at", "kept_by", "version")),
    "assets.list": named("", lambda on, _: on.assets.list(name="nothing")),
    "assets.promote": read(
        "file", lambda on, run: on.assets.promote(run, "a"), apart=("kept_at", "kept_by", "version")
    ),
    "blobs.put": named("", lambda on, _: on.blobs.put(b"content")),
    "blobs.get": named("content", _get_blob),
    "blobs.stat": named("content", _stat_blob, apart=("modified_at",)),
    "system.search": named("", lambda on, _: on.system.search("nowhere")),
    "system.overview": named("", lambda on, _: on.system.overview(span="7d"), apart=("buckets", "newest")),
    "system.usage": named("", lambda on, _: on.system.usage(by="model")),
    "system.me": named("", lambda on, _: on.system.me(), apart=("name",)),
    "system.node_types": named("", lambda on, _: on.system.node_types()),
    "system.node_type": named("http", lambda on, name: on.system.node_type(name)),
    "keys.create": named("", lambda on, _: on.keys.create("ci", ["viewer"]), changes=True),
    "keys.list": named("", lambda on, _: on.keys.list(limit=1)),
    "budgets.set": named("workflow:w", lambda on, scope: on.budgets.set(scope, usd=1.5, calls=7, per="day")),
    "budgets.list": named("", lambda on, _: on.budgets.list(), apart=("items",)),
    "budgets.get": named("workflow:w", _get_budget),
    "budgets.delete": named("workflow:gone", _delete_budget),
    "saved_views.save": named(
        "", lambda on, _: on.saved_views.save("late", "since=7d"), apart=("saved_at", "saved_by")
    ),
    "saved_views.list": named("", lambda on, _: on.saved_views.list(), apart=("items",)),
    "saved_views.get": named("late", _get_view, apart=("saved_at", "saved_by")),
    "saved_views.delete": named("later", _delete_view, apart=("saved_at", "saved_by")),
    "tools.list": named("", lambda on, _: on.tools.list(state="candidate")),
    "tools.get": named("found", lambda on, name: _then(_tool(on, name), on.tools.get), apart=("at", "by")),
    "tools.promote": named("live", lambda on, name: _then(_tool(on, name), on.tools.promote), apart=("at", "by")),
    "tools.retire": named("retired", lambda on, name: _then(_tool(on, name), on.tools.retire), apart=("at", "by")),
    "tools.pin": named("pinned", lambda on, name: _then(_tool(on, name), on.tools.pin), apart=("at", "by")),
    "agent_sessions.list": named("", lambda on, _: on.agent_sessions.list(key="nobody")),
    "agent_sessions.get": read("agent", lambda on, run: _of_session(on, run, on.agent_sessions.get)),
    "agent_sessions.delete": change("agent", lambda on, run: _of_session(on, run, on.agent_sessions.delete)),
    "sessions.list": named("", lambda on, _: on.sessions.list()),
    "sessions.end": named("gone", lambda on, name: on.sessions.end(name)),
    "runs.bulk": named("", lambda on, _: on.runs.bulk("cancel", where={"workflow": "nowhere"}, expected=0)),
    "runs.counts": named("", lambda on, _: on.runs.counts(group="workflow", workflow="orders")),
    "keys.revoke": named("gone", _revoke, changes=True),
    "audit.list": named("", lambda on, _: on.audit.list(action="key.created", limit=1)),
    "audit.verify": named("", lambda on, _: on.audit.verify()),
}

OF_THE_PROCESS = {
    "system.workers": lambda on: on.system.workers(),
    "system.queues": lambda on: on.system.queues(),
}
"""They tell of the process that is asked: a server of its worker and its queue, a command that only looks of none."""

_HERE = "of a whole database, for who has its file or its address: `here_only` commands ask it"

OTHERWISE = {
    "runs.begin": "what `start` asks, with whether the run is new, which HTTP says by its status",
    "runs.begin_rerun": "as `begin`",
    "runs.begin_what_if": "as `begin`",
    "runs.summary": "a row of `runs.list`",
    "runs.nodes_of": "a page of `runs.nodes`, of a state that is at hand",
    "runs.plan_graph": "what `graph` asks, before it is drawn: HTTP compares its name with the one a reader has",
    "workflows.plan_graph": "as of runs",
    "blobs.part": "some bytes of `blobs.get`, which HTTP gives for a `Range`",
    "approvals.read_shown": "what the page of a link shows, whose reader has no client",
    "approvals.check_kept": "a rule that `rerun` asks",
    "upkeep.other_work": _HERE,
    "upkeep.warn_of_namesake": _HERE,
    "upkeep.examine": _HERE,
    "upkeep.collect": _HERE,
    "upkeep.check": "what `/health/ready` asks",
}
"""What a service has and a client has not, with the reason."""
