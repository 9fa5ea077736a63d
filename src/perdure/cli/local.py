"""The backend of a database here. What changes a run is decided by whoever holds the database, or here if nobody does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.cli.backend import Control, Decision, Kind, RunsWhere, View, errors_of
from perdure.cli.database import ask, going_on, user
from perdure.errors import NotFound, Refused
from perdure.journal import RunFilter, RunRecord
from perdure.runtime.projections import only_waits
from perdure.runtime.requests import Request
from perdure.service.history import last_event_at
from perdure.service.views import approval_view, dead_letter_view, page_view, run_summary
from perdure.service.waiting import is_waiting

if TYPE_CHECKING:
    from perdure.cli.following import Following, Screen
    from perdure.engine import Engine
    from perdure.kernel.seen import Seen
    from perdure.kernel.state import State
    from perdure.model import Compiled, Problem
    from perdure.service import Service
    from perdure.service.runs import Runs
    from perdure.service.workflows import Workflows

DEFAULT_TENANT = "default"

_KINDS: dict[Kind, tuple[str, Callable[[Any], View]]] = {
    "approval": ("approval", approval_view),
    "dead_letter": ("dead_letter", dead_letter_view),
}


_FLAGS = {"not_an_approver": "say so with --by NAME", "invalid_inputs": "give it with --data JSON"}
"""What a vote that was refused can be mended with, by code."""


class Local:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def go_on(self, run_id: str, state: str) -> str:
        return going_on(self.engine, run_id, state)

    # -- looking at runs -----------------------------------------------------------------------------------------------

    async def find_run(self, run_id: str) -> View | None:
        record = await self.engine.journal.find_run(run_id)
        return None if record is None else run_summary(record)

    async def list_runs(self, where: RunsWhere, *, limit: int, cursor: str | None) -> View:
        from perdure.service.runs import runs_view

        given = msgspec.structs.asdict(where)
        top = not given.pop("children") and where.parent is None
        if idle := "waiting" in where.states:
            given["states"] = ("running",)
        fields = RunFilter(**given, top=top, idle=idle)
        page = await self.engine.journal.list_runs(fields, limit=limit, cursor=cursor)
        return await runs_view(self.engine, page, only_waiting=idle)

    async def get_run(self, run_id: str, at: int | None = None) -> View:
        record, state = await self._load(run_id, at)
        seen = await self._seen(state, at)
        view = await self.engine.contents.view(state, raw=True, seen=seen)
        view["last_event_at"] = await last_event_at(self.engine, record.run_id, state.seq)
        view["waiting"] = await is_waiting(self.engine, record, state) if at is None else only_waits(state)
        return view if record.quarantined is None else {**view, "quarantined": record.quarantined}

    async def get_node(self, run_id: str, node: str, at: int | None = None) -> View:
        from perdure.service.attempts import attempts_of
        from perdure.service.views import node_with_visits

        _, state = await self._load(run_id, at)
        view = node_with_visits(state, node, await self._seen(state, at))
        for one in (view, *view["visits"]):
            if "size" in one:
                one["output"] = await self.engine.contents.load(state.tenant, one["output"]["$ref"], raw=True)
        view["attempts"] = await attempts_of(self.engine, state, view)
        return view

    async def explain(self, run_id: str, node: str | None) -> View:
        from perdure.kernel import explain
        from perdure.kernel.view import nodes_view
        from perdure.runtime.children import explain_children
        from perdure.service.views import find_node

        record = await self.engine.journal.get_run(run_id)
        try:
            state = await self.engine.state_of(record)
        except Refused:  # nothing is known of its nodes, and why it does not go on is
            about = {"run_id": run_id, "state": record.row.state, "quarantined": record.quarantined}
            return {**about, "nodes": {}, "errors": {}, "completed": 0, "total": 0}
        if node is not None:
            find_node(state, node)
        seen = await self._seen(state)
        views = nodes_view(state)
        states = {name: one["state"] for name, one in views.items()}
        names = [node] if node is not None else [name for name in states if states[name] != "completed"]
        below = await explain_children(self.engine.journal, state)
        return {
            "run_id": run_id,
            "state": state.state.value,
            "nodes": {name: explain(state, name, seen) + below.get(name, "") for name in names},
            "errors": errors_of(views),
            "quarantined": record.quarantined,
            "completed": sum(word == "completed" for word in states.values()),
            "total": len(states),
        }

    async def read_events(self, run_id: str, after: int, limit: int) -> View:
        from perdure.service.runs import public_event

        stored = await self.engine.journal.read_events(run_id, after, limit + 1)
        more = len(stored) > limit
        return {
            "items": [public_event(one) for one in stored[:limit]],
            "next_cursor": str(stored[limit - 1].seq) if more else None,
        }

    async def read_logs(self, run_id: str, node: str | None, after: int, limit: int) -> View:
        record = await self.engine.journal.get_run(run_id)
        return await self._service(record.row.tenant).logs.read(run_id, node=node, after=after, limit=limit)

    async def export(self, run_id: str, *, lines: bool) -> tuple[int, AsyncIterator[str]]:
        from perdure.service.transfer import export_run

        record = await self.engine.journal.get_run(run_id)
        return record.seq, await export_run(self.engine, record, lines=lines)

    async def import_run(self, file: Any) -> View:
        import click

        from perdure.service.errors import Invalid

        try:
            return await self._service(DEFAULT_TENANT).transfer.read(file)
        except Invalid as error:
            raise click.UsageError(error.message) from error

    async def read_path(self, run_id: str, after: int, limit: int) -> View:
        return await (await self._runs(run_id)).path(run_id, after=after, limit=limit)

    async def diff_runs(self, run_id: str, other: str | None, at: int | None, to: int | None) -> View:
        return await (await self._runs(run_id)).diff(run_id, other=other, at=at, to=to)

    async def _runs(self, run_id: str) -> Runs:
        """As the tenant sees them whose run it is."""
        return self._service((await self.engine.journal.get_run(run_id)).row.tenant).runs

    def follow(self, run_id: str) -> tuple[Following, Screen]:
        from perdure.cli.lines import Lines
        from perdure.sdk.following import Follower

        return Follower(self.engine, run_id), Lines(self.engine.registry)

    async def _seen(self, state: State, at: int | None = None) -> Seen:
        from perdure.kernel.seen import JOURNAL

        return JOURNAL if at is not None else await self.engine.sight.of(state)

    async def _load(self, run_id: str, at: int | None = None) -> tuple[RunRecord, State]:
        from perdure.service.history import state_at

        record = await self.engine.journal.get_run(run_id)
        return record, await (self.engine.state_of(record) if at is None else state_at(self.engine, record, at))

    # -- changing runs -------------------------------------------------------------------------------------------------

    async def start(
        self, workflow: str, inputs: Mapping[str, Any], by: str | None, *, tags: Mapping[str, str], correlation_id: str
    ) -> View:
        import click

        from perdure.service.errors import Invalid

        await self.engine.hold(work=False)  # where nobody decides, it is decided here
        try:
            runs = self._service(DEFAULT_TENANT, by).runs
            about: dict[str, Any] = {"tags": tags, "correlation_id": correlation_id}
            started = await runs.start(workflow=workflow, inputs=dict(inputs), **about)
        except Invalid as error:
            raise click.UsageError(error.message) from error
        return await self.get_run(started.view["run_id"])

    async def control(self, kind: Control, run_id: str, by: str | None, **fields: Any) -> View:
        return await self._change(Request(kind=kind, run_id=run_id, by=_who(by), **fields))

    async def signal(self, run_id: str, name: str, payload: Any, signal_id: str, by: str | None) -> View:
        about: dict[str, Any] = {"run_id": run_id, "by": _who(by)}
        return await self._change(Request(kind="signal", name=name, payload=payload, signal=signal_id, **about))

    async def retry(self, run_id: str, given: Compiled | None, reason: str, by: str | None) -> View:
        ir = await self._kept(run_id, given)
        return await self._change(Request(kind="retry", run_id=run_id, by=_who(by), reason=reason, ir=ir))

    async def _kept(self, run_id: str, given: Compiled | None) -> str:
        """The hash of a definition that a run goes on with, stored for it; empty for none."""
        from perdure.model import DefinitionError

        if given is None:
            return ""
        tenant = (await self.engine.journal.get_run(run_id)).row.tenant
        problems = await self.problems_of(given, tenant)
        if any(problem.severity == "error" for problem in problems):
            raise DefinitionError(problems)
        return (await self.engine.keep(given, tenant=tenant, checked=True)).hash

    async def rerun(
        self,
        run_id: str,
        node: str,
        inputs: Mapping[str, Any] | None,
        new_id: str | None,
        by: str | None,
        given: Compiled | None = None,
    ) -> View:
        ir = await self._kept(run_id, given)
        values = None if inputs is None else dict(inputs)
        if values is not None and not node:
            record, state = await self._load(run_id)
            before = await self.engine.contents.resolve(record.row.tenant, state.inputs, masked=False)
            values = {**(before if isinstance(before, dict) else {}), **values}
        new = new_id or self.engine.clock.new_id()
        request = Request(kind="rerun", run_id=new, source=run_id, node=node, inputs=values, by=_who(by), ir=ir)
        return {**await self._change(request), "origin": run_id}

    async def _change(self, request: Request) -> View:
        await ask(self.engine, request)
        return await self.engine.contents.view(await self.engine.state(request.run_id))

    async def patch(
        self,
        run_id: str,
        given: Compiled | None,
        operations: Any,
        *,
        dry_run: bool,
        reason: str,
        by: str | None,
        note: Callable[[Sequence[Problem]], None],
    ) -> View:
        from perdure.model import DefinitionError
        from perdure.service.patching import preview

        _, state = await self._load(run_id)
        compiled = await self._patched(state, operations) if given is None else given
        problems = await self.problems_of(compiled, state.tenant)
        if any(problem.severity == "error" for problem in problems):
            raise DefinitionError(problems)
        note(problems)
        changes = preview(state, compiled.get_ir(), self.engine.clock.now())
        view = {"run_id": run_id, "possible": not changes.refused, "applied": False, **msgspec.to_builtins(changes)}
        if dry_run:
            return {**view, "state": state.state.value}
        ir = await self.engine.keep(compiled, tenant=state.tenant, checked=True)
        about: dict[str, Any] = {"run_id": run_id, "by": _who(by), "reason": reason}
        reply = await ask(self.engine, Request(kind="patch", ir=ir.hash, patch=operations, **about))
        return {**view, "possible": True, "applied": True, "state": reply.state}

    async def problems_of(self, compiled: Compiled, tenant: str) -> tuple[Problem, ...]:
        """Everything that is wrong with a definition, what was found in its file and what this database finds."""
        said = {(problem.code, problem.message) for problem in compiled.problems}
        more = await self.engine.checker.find_problems(compiled, tenant=tenant)
        return (*compiled.problems, *(one for one in more if (one.code, one.message) not in said))

    async def _patched(self, state: State, operations: Any) -> Compiled:
        import click

        from perdure.model import compile_definition
        from perdure.service.patching import PatchInvalid, apply_patch, current_definition

        definition = await current_definition(self.engine.library, state)
        try:
            return compile_definition(apply_patch(definition, operations))
        except PatchInvalid as error:
            raise click.UsageError(error.message) from error

    # -- workflows -----------------------------------------------------------------------------------------------------

    @property
    def _workflows(self) -> Workflows:
        return self._service(DEFAULT_TENANT).workflows

    def _service(self, tenant: str, by: str | None = None) -> Service:
        """Whoever has the database is its administrator, by the name of the user."""
        from perdure.access import Role, make_principal
        from perdure.service import Service

        about: dict[str, Any] = {"name": _who(by) or "local", "kind": "local", "roles": (Role.ADMIN,)}
        return Service(self.engine, make_principal(tenant=tenant, **about))

    async def push(self, definition: Mapping[str, Any], reason: str) -> View:
        return await self._workflows.register(msgspec.json.encode(definition), "json", reason=reason)

    async def list_workflows(self, *, limit: int, cursor: str | None) -> View:
        return await self._workflows.find(limit=limit, cursor=cursor)

    async def get_workflow(self, name: str, which: str) -> View:
        version, alias = (int(which), "") if which.isdecimal() else (None, which)
        return await self._workflows.get(name, version=version, alias=alias)

    async def list_versions(self, name: str, *, limit: int, cursor: str | None) -> View:
        return await self._workflows.versions(name, limit=limit, cursor=cursor)

    async def list_aliases(self, name: str, *, limit: int, cursor: str | None) -> View:
        return await self._workflows.aliases(name, limit=limit, cursor=cursor)

    async def put_alias(self, name: str, alias: str, shares: Mapping[int, float], reason: str) -> View:
        return await self._workflows.put_alias(name, alias, list(shares.items()), reason=reason)

    async def rollback_alias(self, name: str, alias: str, reason: str) -> View:
        return await self._workflows.rollback_alias(name, alias, reason=reason)

    async def delete_alias(self, name: str, alias: str) -> View:
        return await self._workflows.delete_alias(name, alias)

    async def patch_workflow(self, name: str, operations: Any, *, base: int | None, reason: str, dry_run: bool) -> View:
        return await self._workflows.patch(name, operations, base=base, reason=reason, dry_run=dry_run)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def put_blob(self, data: bytes) -> str:
        return await self.engine.contents.blobs.put(DEFAULT_TENANT, data)

    async def get_blob(self, ref: str) -> bytes:
        return await self.engine.contents.blobs.get(DEFAULT_TENANT, ref)

    async def stat_blob(self, ref: str) -> View:
        found = await self.engine.contents.blobs.stat(DEFAULT_TENANT, ref)
        return {"size": found.size, "modified_at": found.modified_at}

    # -- people --------------------------------------------------------------------------------------------------------

    async def list_waiting(
        self, kind: Kind, *, state: str | None, run_id: str | None, limit: int, cursor: str | None
    ) -> View:
        name, view = _KINDS[kind]
        method = getattr(self.engine.journal, f"list_{name}s")
        return page_view(await method(state=state, run_id=run_id, limit=limit, cursor=cursor), view)

    async def find_waiting(self, kind: Kind, name: str) -> View | None:
        word, view = _KINDS[kind]
        try:
            return view(await getattr(self.engine.journal, f"get_{word}")(name))
        except NotFound:
            return None

    async def get_approval(self, approval_id: str) -> View:
        row = await self.engine.journal.get_approval(approval_id)
        return await self._service(row.tenant).approvals.get(approval_id)

    async def get_dead_letter(self, dead_letter_id: str) -> View:
        row = await self.engine.journal.get_dead_letter(dead_letter_id)
        return await self._service(row.tenant).dead_letters.get(dead_letter_id)

    async def decide(
        self, approval_id: str, decision: Decision, comments: str, data: Any, by: str | None
    ) -> tuple[View, str]:
        return await self._vote(approval_id, by, kind="vote", decision=decision, comments=comments, data=data)

    async def delegate(self, approval_id: str, to: str, comments: str, by: str | None) -> tuple[View, str]:
        return await self._vote(approval_id, by, kind="delegate", to=to, comments=comments)

    async def _vote(self, approval_id: str, by: str | None, **fields: Any) -> tuple[View, str]:
        row = await self.engine.journal.get_approval(approval_id)
        try:
            reply = await ask(self.engine, Request(run_id=row.run_id, approval=approval_id, by=_who(by), **fields))
        except Refused as error:
            if error.code not in _FLAGS:
                raise
            raise Refused(f"{error.message} ({_FLAGS[error.code]})", code=error.code) from None
        return approval_view(await self.engine.journal.get_approval(approval_id)), reply.state

    async def repair(self, letters: Sequence[View], fields: dict[str, Any], by: str | None) -> tuple[list[View], str]:
        state = ""
        _check_call(letters[0]["node"], fields.get("config"))
        for letter in letters:
            request = Request(
                run_id=letter["run_id"],
                by=_who(by),
                node=letter["node"],
                scope=tuple(letter.get("scope") or ()),
                item=letter.get("item"),
                undo=bool(letter.get("undo")),
                **fields,
            )
            state = (await ask(self.engine, request)).state
        after = [await self.engine.journal.get_dead_letter(letter["dead_letter_id"]) for letter in letters]
        return [dead_letter_view(row) for row in after], state


def _who(by: str | None) -> str:
    return user() if by is None else by


def _check_call(node: str, config: Any) -> None:
    """What `perdure validate` would say of the function, by the files here: where a local run goes on is where they are."""
    from perdure.cli.calls import check_config

    if mistakes := [problem.message for problem in check_config(f"node '{node}'", config, [Path.cwd()])]:
        raise Refused("; ".join(mistakes), code="bad_call")
