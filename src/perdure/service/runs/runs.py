"""Runs: start them, look at them, and change their course. The coordinator that holds a run decides what is asked of
it.

It must not know HTTP or permissions. Everything goes through a `Tenancy`, and so sees one tenant only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.budget import ANSWER_BYTES, Budget
from perdure.errors import NotFound, Refused
from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.reasons import find_first, reason_of
from perdure.kernel.readings.run_view import nodes_view
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.state import State
from perdure.kernel.steps.mail import PREFIX
from perdure.model import Compiled, DefinitionError
from perdure.records import TRIGGER_WORKFLOW
from perdure.runtime.coordinator.children import explain_children
from perdure.runtime.coordinator.projections import only_waits
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.work_reports import list_seen
from perdure.service.approvals import Approvals
from perdure.service.diffs import diff_runs
from perdure.service.errors import Invalid, Trouble
from perdure.service.pages import listing
from perdure.service.runs.agent_mail import letter_to
from perdure.service.runs.attempts import attempts_of
from perdure.service.runs.history import last_event_at, state_at, steps_of
from perdure.service.runs.patches import PatchInvalid, apply_patch, current_definition, preview
from perdure.service.runs.run_actions import find_no_rerun
from perdure.service.runs.run_changes import Action, change_many
from perdure.service.runs.run_events import EventsAsked, read_page
from perdure.service.runs.run_lists import Asked
from perdure.service.runs.run_streams import ALIVE_SECONDS, Batch, follow_with
from perdure.service.runs.run_usage import read_budget, usage_of
from perdure.service.runs.starts import Started, hash_of
from perdure.service.runs.transfer import Transfer, export_run
from perdure.service.runs.waiting_runs import is_waiting
from perdure.service.runs.what_ifs import WhatIfs
from perdure.service.tenancy import refuse_sealed
from perdure.service.views import (
    View,
    get_node,
    line_view,
    node_with_visits,
    problem_view,
    run_summary,
    without_outputs,
)
from perdure.threads import aside

if TYPE_CHECKING:
    pass

Control = Literal["cancel", "pause", "resume", "rollback"]
NODES_SHOWN = 1000
"""How many nodes are shown with their run; the rest is paged."""
EXPLAINED = 100


class Runs(WhatIfs):
    # -- looking -------------------------------------------------------------------------------------------------------

    async def summary(self, run_id: str) -> View:
        """What a list says of a run, which can be said even where its events cannot be read."""
        return run_summary(await self._tenancy.get_run(run_id))

    async def get(self, run_id: str, *, outputs: bool = True, values: bool = True) -> View:
        """A whole run; of very many nodes only the first, and `next_nodes` to continue from. Without `outputs` those of nodes are left
        out; without `values` these and its own inputs and outputs."""
        return await self._get(run_id, outputs, values)

    async def state_at(self, run_id: str, seq: int, *, outputs: bool = True, values: bool = True) -> View:
        """A run as it was when event `seq` had just happened."""
        return await self._get(run_id, outputs, values, seq)

    async def _get(self, run_id: str, outputs: bool, values: bool, at: int | None = None) -> View:
        record = await self._tenancy.get_run(run_id)
        state = await (self._engine.runs.state_of(record) if at is None else state_at(self._engine, record, at))
        seen = await self._seen(state, at)
        view = await self._engine.contents.view(
            state, raw=True, nodes=False, values=values, seen=seen, budget=self._tenancy.budget
        )
        shown = len(state.ir.nodes) if self._tenancy.owner else NODES_SHOWN
        nodes = await self.nodes_of(state, limit=shown, outputs=outputs and values, seen=seen)
        view["nodes"] = nodes["items"]
        if nodes["next_cursor"] is not None:
            view["next_nodes"] = nodes["next_cursor"]
        if state.origin is not None:
            view["origin"] = state.origin[0]
        if record.quarantined is not None:
            view["quarantined"] = record.quarantined
        view["last_event_at"] = await last_event_at(self._engine, record.run_id, state.seq)
        view["waiting"] = await is_waiting(self._engine, record, state) if at is None else only_waits(state)
        if at is not None:
            view["at"] = at
        return view

    @listing
    async def nodes(self, run_id: str, *, limit: int = 100, cursor: str | None = None, outputs: bool = False) -> View:
        """A page of nodes, as a list with their ids (PROTOCOL 33)."""
        _, state = await self._tenancy.load(run_id)
        seen = await self._seen(state)
        page = await self.nodes_of(state, limit=limit, cursor=cursor, outputs=outputs, seen=seen)
        items = [{"node": name, **view} for name, view in page["items"].items()]
        return {"items": items, "next_cursor": page["next_cursor"]}

    async def nodes_of(
        self,
        state: State,
        *,
        limit: int,
        cursor: str | None = None,
        outputs: bool = False,
        seen: Seen = JOURNAL,
    ) -> dict[str, Any]:
        if cursor is not None:
            get_node(state, cursor)
        views = nodes_view(state, cursor or "", limit + 1, seen=seen)
        more = len(views) > limit
        if more:
            views.popitem()
        if outputs:
            await self._engine.contents.preview(state.tenant, views)
            if not self._tenancy.owner:
                budget = self._tenancy.budget
                budget.bytes = _keep_within(views.values(), budget.bytes)
        else:
            without_outputs(views.values())
        return {"items": views, "next_cursor": next(reversed(views)) if more and views else None}

    async def node(self, run_id: str, node: str, *, at: int | None = None, outputs: bool = True) -> View:
        """One node with every visit and its complete outputs; without `outputs`, their sizes."""
        record = await self._tenancy.get_run(run_id)
        state = await (self._engine.runs.state_of(record) if at is None else state_at(self._engine, record, at))
        view = node_with_visits(state, node, await self._seen(state, at))
        budget = self._tenancy.budget
        shown = (view, *view["visits"])
        if not outputs:
            without_outputs(shown)
            view["attempts"] = await attempts_of(self._engine, state, view)
            return view
        if not self._tenancy.owner:
            budget.bytes = _keep_within([one for one in shown if "size" not in one], budget.bytes)
        for one in shown:
            if "size" in one:
                one["output"] = await self._engine.contents.load(
                    state.tenant, one["output"]["$ref"], raw=True, budget=budget
                )
        view["attempts"] = await attempts_of(self._engine, state, view)
        return view

    async def _seen(self, state: State, at: int | None = None) -> Seen:
        """What is executed of the run now; of a past moment, only what the journal tells."""
        return JOURNAL if at is not None else await self._engine.work_reports.of(state)

    async def working(self, run_id: str) -> View:
        """The tasks of a run that are executed now: by which worker, and since when."""
        _, state = await self._tenancy.load(run_id)
        return {"tasks": list_seen(state, await self._seen(state))}

    @listing
    async def events(
        self,
        run_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        node: str | None = None,
        type: str | Sequence[str] = (),
        outputs: bool = True,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> View:
        """A page of events, in order, or with `before` the newest first: at most `limit`, fewer where they are large or
        where few are wanted. Without `outputs`, without the values of users."""
        record = await self._tenancy.get_run(run_id)
        if cursor is not None:
            after, before = (int(cursor), None) if before is None else (after, int(cursor))
        types = (type,) if isinstance(type, str) else tuple(type)
        asked = EventsAsked(after=after, before=before, node=node, types=types, outputs=outputs)
        most = None if self._tenancy.owner else self._tenancy.budget.bytes
        return await read_page(self._engine, record, asked, limit, most)

    async def follow(
        self, run_id: str, after: int = 0, *, working: bool = False, logs_after: int | None = None
    ) -> AsyncGenerator[Batch, None]:
        """Follow a run of this tenant: its stored events as the feed gives them, and an empty list now and then. With
        `working` also the tasks that are executed, at first and then whenever they change; with `logs_after` also log
        lines above that position. The caller closes the generator."""
        record = await self._tenancy.get_run(run_id)
        if working or logs_after is not None:
            return follow_with(self._engine, record, after, working=working, logs_after=logs_after)
        return self._engine.feed.follow(record.run_id, after, idle_seconds=ALIVE_SECONDS)

    @listing
    async def logs(
        self,
        run_id: str,
        *,
        node: str | None = None,
        after: int = 0,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> View:
        """What handlers of a run printed, logged and said with `ctx.log`, in order."""
        record = await self._tenancy.get_run(run_id)
        after = after if cursor is None else int(cursor)
        about = (record.row.tenant, record.run_id)
        lines = await self._tenancy.archive.read_logs(*about, node=node, after=after, limit=limit + 1)
        items = [{"position": one.position, **line_view(one.line)} for one in lines[:limit]]
        return {"items": items, "next_cursor": str(lines[limit - 1].position) if len(lines) > limit else None}

    @listing
    async def path(self, run_id: str, *, after: int = 0, limit: int = 1000, cursor: str | None = None) -> View:
        """The edges that were taken, in order, and the rule that chose them."""
        record = await self._tenancy.get_run(run_id)
        after = after if cursor is None else int(cursor)
        steps, more = await steps_of(self._engine, record, after, limit)
        return {"items": steps, "next_cursor": None if more is None else str(more)}

    async def explain(self, run_id: str, node: str | None = None) -> View:
        """Why a node has not run, or what each node that has not completed waits for."""
        record = await self._tenancy.get_run(run_id)
        try:
            state = await self._engine.runs.state_of(record)
        except Refused:  # its nodes are unknown, but the reason why it does not go on is known
            about = {"nodes": {}, "reasons": {}, "first": {"code": "quarantined", "reason": record.quarantined}}
            return {"run_id": run_id, "state": record.row.state, **about, "quarantined": record.quarantined}
        if node is not None:
            get_node(state, node)
        seen = await self._seen(state)
        below = await explain_children(self._engine.journal, state)
        said = {
            name: text + below.get(name, "") + self._queued(state, name)
            for name, text in explain_nodes(state, node, seen, None if self._tenancy.owner else EXPLAINED).items()
        }
        reasons = {name: reason_of(state, name, seen) for name in said}
        view = {"run_id": run_id, "state": state.state.value, "nodes": said, "reasons": reasons}
        if record.quarantined is None:
            return {**view, "first": find_first(state, seen)}
        held = {"code": "quarantined", "reason": record.quarantined}
        return {**view, "first": held, "quarantined": record.quarantined}

    def _queued(self, state: State, node: str) -> str:
        """Why a queued node does not start; only the process that holds its run knows."""
        coordinator = self._engine.coordinator
        why = None if coordinator is None else coordinator.publisher.why(state, node)
        return "" if why is None else f" It waits: {why}."

    async def diff(
        self, run_id: str, *, at: int | None = None, other: str | None = None, to: int | None = None
    ) -> View:
        """The differences between two points of a run, or between two runs (`other`), each perhaps at a point."""
        # Each has a budget of its own, so that equal values are loaded, or stay references, in both.
        one, two = self._tenancy.budget.halve()
        first = await self._compared(run_id, at, one)
        second = await self._compared(other or run_id, to, two)
        return await aside(
            self._tenancy.tenant, diff_runs, first, second, None if self._tenancy.owner else ANSWER_BYTES // 2
        )

    async def _compared(self, run_id: str, at: int | None, budget: Budget) -> tuple[int, View]:
        record = await self._tenancy.get_run(run_id)
        state = await (self._engine.runs.state_of(record) if at is None else state_at(self._engine, record, at))
        return state.seq, await self._engine.contents.view(state, budget=budget)

    # -- changing ------------------------------------------------------------------------------------------------------

    async def cancel(self, run_id: str, *, reason: str = "", force: bool = False) -> View:
        """Stop a run. With `force`, do not wait for what is running, and undo nothing."""
        return await self._control("cancel", run_id, reason=reason, force=force)

    async def pause(self, run_id: str, *, reason: str = "") -> View:
        return await self._control("pause", run_id, reason=reason)

    async def resume(self, run_id: str, *, budget: Mapping[str, Any] | None = None) -> View:
        """Let a paused run go on, with other limits of its budget if some are given."""
        return await self._control("resume", run_id, budget=read_budget(budget))

    async def usage(self, run_id: str) -> View:
        """What a run has used: in all, by node and by model, its children included; and what it may use."""
        record = await self._tenancy.get_run(run_id)
        return usage_of(await self._engine.runs.state_of(record))

    async def rollback(self, run_id: str) -> View:
        """Undo a run that has ended: its compensators run, last node first."""
        return await self._control("rollback", run_id)

    async def _control(self, kind: Control, run_id: str, **fields: Any) -> View:
        record = await self._tenancy.get_run(run_id)
        if kind == "cancel" and record.row.workflow == TRIGGER_WORKFLOW:  # who may operate runs may not delete triggers
            raise Refused(f"run {run_id} is a trigger; `perdure triggers delete` ends it", code="is_trigger")
        await self._tenancy.ask(Request(kind=kind, run_id=record.run_id, by=self._tenancy.by, **fields))
        return run_summary(await self._tenancy.get_run(run_id))

    async def retry(
        self, run_id: str, *, definition: Any = None, reason: str = "", budget: Mapping[str, Any] | None = None
    ) -> View:
        """Retry a failed run: what completed is kept, what failed runs again, perhaps by a mended definition, and with other
        limits of its budget if some are given."""
        more = read_budget(budget)
        record = await self._tenancy.get_run(run_id)
        ir = "" if definition is None else (await self._keep(definition, record.row.tenant)).ir
        about: dict[str, Any] = {"run_id": record.run_id, "by": self._tenancy.by, "reason": reason}
        await self._tenancy.ask(Request(kind="retry", **about, ir=ir, budget=more))
        return run_summary(await self._tenancy.get_run(run_id))

    async def bulk(
        self,
        action: Action,
        *,
        where: Mapping[str, Any] | None = None,
        run_ids: Sequence[str] | None = None,
        expected: int | None = None,
        reason: str = "",
    ) -> View:
        """Cancel, pause, resume, retry or roll back the runs that match `where` (the conditions of `list`), or those that are
        named. Without `expected` they are only counted; with that count it is done."""
        changes: dict[Action, Callable[[str], Awaitable[View]]] = {
            "cancel": lambda name: self.cancel(name, reason=reason),
            "pause": lambda name: self.pause(name, reason=reason),
            "resume": self.resume,
            "retry": lambda name: self.retry(name, reason=reason),
            "rollback": self.rollback,
        }
        chosen = Asked(**(where or {}))
        return await change_many(self._page, changes[action], self.summary, chosen, run_ids=run_ids, expected=expected)

    async def signal(self, run_id: str, name: str, payload: Any = None, *, signal_id: str | None = None) -> View:
        record = await self._tenancy.get_run(run_id)
        if name.startswith(PREFIX):
            message = f"signals whose name begins with {PREFIX!r} are mail; `perdure runs tell` sends it"
            raise Invalid(message, [Trouble("name", "wrong_value", message)])
        about: dict[str, Any] = {"run_id": record.run_id, "by": self._tenancy.by}
        await self._tenancy.ask(Request(kind="signal", name=name, payload=payload, signal=signal_id or "", **about))
        return run_summary(await self._tenancy.get_run(run_id))

    async def tell(
        self, run_id: str, node: str, text: str, *, item: int | None = None, message_id: str | None = None
    ) -> View:
        """Say something to an agent at work: it reads that before its next turn (rule 86)."""
        record, state = await self._tenancy.load(run_id)
        name, payload = letter_to(state, node, item, text)
        about: dict[str, Any] = {"run_id": record.run_id, "by": self._tenancy.by}
        await self._tenancy.ask(Request(kind="signal", name=name, payload=payload, signal=message_id or "", **about))
        return run_summary(await self._tenancy.get_run(run_id))

    async def rerun(self, run_id: str, **about: Any) -> View:
        """`begin_rerun` for callers that need not know whether the run had been made before."""
        return (await self.begin_rerun(run_id, **about)).view

    async def begin_rerun(
        self,
        run_id: str,
        *,
        from_node: str = "",
        inputs: Mapping[str, Any] | None = None,
        definition: Any = None,
        new_id: str | None = None,
        key: str | None = None,
    ) -> Started:
        """Make a new run out of an old one: from a node on, or from the start with `inputs` merged over the old ones;
        by another `definition` if one is given. A repeated `key` gives the run it made before, provided the same was
        asked for."""
        asked = None if key is None else (key, hash_of(["rerun", run_id, from_node, inputs, definition]))
        origin = {"origin": run_id}
        try:
            record, state = await self._tenancy.load(run_id)
        except NotFound:  # a key is remembered for longer than its source may be kept (PROTOCOL 11)
            earlier = None if asked is None else await self._earlier(self._tenancy.tenant, *asked)
            if earlier is None:
                raise
            return Started({**await self._started(earlier, 0.0), **origin}, created=False)
        if asked is not None and (earlier := await self._earlier(record.row.tenant, *asked)) is not None:
            return Started({**await self._started(earlier, 0.0), **origin}, created=False)
        if (why_not := find_no_rerun(state)) is not None:
            raise Refused(why_not, code="rerun_refused")
        kept = None if definition is None else await self._keep(definition, record.row.tenant)
        values = None if inputs is None else dict(inputs)
        if from_node and kept is None:
            get_node(state, from_node)
        checked: int | None = None
        if from_node:
            begin = from_node if kept is None else None
            checked = await Approvals(self._tenancy).check_kept(state, begin, given=values or ())
        elif values is not None:
            refuse_sealed("inputs", values)
            before = await self._engine.contents.resolve(record.row.tenant, state.inputs, masked=False)
            values = {**(before if isinstance(before, dict) else {}), **values}
        new = new_id or self._engine.runs.new_id()
        about: dict[str, Any] = {"run_id": new, "by": self._tenancy.by, "tenant": record.row.tenant}
        reply = await self._tenancy.ask(
            Request(
                kind="rerun",
                source=record.run_id,
                node=from_node,
                inputs=values,
                ir="" if kept is None else kept.ir,
                checked=checked,
                key=asked,
                **about,
            )
        )
        if reply.run_id != new:  # another caller with the same key was faster
            return Started({**await self._started(reply.run_id, 0.0), **origin}, created=False)
        version = record.row.workflow_version if kept is None else 0
        view = {"run_id": new, "workflow": record.row.workflow, "version": version}
        return Started({**view, "state": reply.state, "outputs": None, "error": None, **origin}, created=True)

    async def patch(
        self,
        run_id: str,
        operations: Any = None,
        *,
        definition: Any = None,
        dry_run: bool = False,
        reason: str = "",
    ) -> View:
        """Give a run under way another definition: the whole of it, or a JSON Patch of the one it has. With `dry_run`
        only say what would change, and whether the run can take it (E6)."""
        if (definition is None) == (operations is None):
            message = "give either definition or patch"
            raise Invalid(message, [Trouble("patch", "missing_key", message)])
        record, state = await self._tenancy.load(run_id)
        compiled = await self._patched(state, definition, operations)
        changes = await aside(state.tenant, preview, state, compiled.get_ir(), self._engine.clock.now())
        view = {"run_id": run_id, "possible": not changes.refused, "applied": False, **msgspec.to_builtins(changes)}
        view["problems"] = [problem_view(one) for one in compiled.problems]
        if dry_run:
            return {**view, "state": state.state.value}
        ir = await self._engine.workflows.keep(compiled, tenant=state.tenant, checked=True)
        about: dict[str, Any] = {"run_id": record.run_id, "by": self._tenancy.by, "reason": reason}
        reply = await self._tenancy.ask(Request(kind="patch", ir=ir.hash, patch=operations, **about))
        return {**view, "possible": True, "applied": True, "state": reply.state}

    async def _patched(self, state: State, definition: Any, operations: Any) -> Compiled:
        if operations is not None:
            before = await current_definition(self._engine.library, state)
            definition = await aside(state.tenant, apply_patch, before, operations, self._tenancy.budget)
        return await self._engine.workflows.checker.check_data(
            definition, tenant=state.tenant, budget=self._tenancy.budget
        )

    # -- elsewhere -----------------------------------------------------------------------------------------------------

    async def export(self, run_id: str, *, lines: bool = False) -> AsyncGenerator[str, None]:
        """A run as one file, piece by piece: one object, or one object a line."""
        return await export_run(self._engine, await self._tenancy.get_run(run_id), lines=lines)

    async def import_file(self, file: Any) -> View:
        """Make a run out of a file that was exported, to look at it: nothing of it is executed."""
        return await Transfer(self._tenancy).read(file)


def explain_nodes(
    state: State, node: str | None = None, seen: Seen = JOURNAL, most: int | None = EXPLAINED
) -> dict[str, str]:
    """A sentence by node: for the given node, or for those that have not completed."""
    if node is not None:
        return {node: explain(state, node, seen)}
    views = nodes_view(state)
    waiting = [name for name, view in views.items() if view["state"] != "completed"]
    return {name: explain(state, name, seen) for name in waiting[:most]}


__all__ = ["DefinitionError", "NotFound", "PatchInvalid", "Runs", "explain_nodes"]


def _keep_within(views: Iterable[View], most: int) -> int:
    """Leave out the outputs behind the first `most` bytes, and mark them: the outputs of many nodes add up. Returns how
    much is left."""
    for view in views:
        if "output" in view:
            if most >= 0:  # what comes behind is not even measured
                most -= len(msgspec.json.encode(view["output"]))
            if most < 0:
                view["output"], view["omitted"] = None, True
    return max(most, 0)
