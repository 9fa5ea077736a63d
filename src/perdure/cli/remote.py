"""The backend of a server: the same views by way of `perdure.AsyncClient`. What a server cannot do is said, with the way out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from perdure.cli.backend import MOST, Control, Decision, Kind, RunsWhere, View, errors_of, refuse_by
from perdure.cli.where import Server
from perdure.client import AsyncClient, Invalid, NotFound, Unauthenticated

if TYPE_CHECKING:
    from perdure.cli.following import Following, Screen
    from perdure.model import Compiled, Problem


@contextmanager
def explained() -> Iterator[None]:
    """What a server refuses, as commands say it."""
    try:
        yield
    except Invalid as error:
        raise click.UsageError(str(error)) from error
    except Unauthenticated as error:
        error.message = f"{error.message}; give --api-key KEY, or set PERDURE_API_KEY"
        raise


RETRIES = 2
"""A person who waits would rather know; a stream that was open once is more patient."""


@asynccontextmanager
async def reached(server: Server) -> AsyncIterator[AsyncClient]:
    with explained():
        async with AsyncClient(server.url, api_key=server.api_key, retries=RETRIES) as client:
            yield client


class Remote:
    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    def go_on(self, run_id: str, state: str) -> str:
        return ""  # whoever serves also sees to it that somebody works

    # -- looking at runs -----------------------------------------------------------------------------------------------

    async def find_run(self, run_id: str) -> View | None:
        try:
            return _plain(await self.client.runs.get(run_id, outputs=False)) if run_id else None
        except NotFound:
            return None

    async def list_runs(self, where: RunsWhere, *, limit: int, cursor: str | None) -> View:
        fields: dict[str, Any] = {"workflow": where.workflow, "tag": where.tag, "since": where.since}
        fields |= {"state": where.states, "until": where.until, "parent": where.parent, "children": where.children}

        async def read(most: int, after: str | None) -> Any:
            return await self.client.runs.list(**fields, limit=most, cursor=after).first()

        return await _pages(read, limit, cursor)

    async def get_run(self, run_id: str, at: int | None = None) -> View:
        if at is not None:
            return _plain(await self.client.runs.state_at(run_id, at))
        view = _plain(await self.client.runs.get(run_id))
        await self._read_nodes(view, outputs=True)
        return view

    async def _read_nodes(self, view: View, *, outputs: bool) -> None:
        """The rest of the nodes of a run that has very many."""
        cursor = view.pop("next_nodes", None)
        if cursor is not None:
            nodes = self.client.runs.nodes(view["run_id"], outputs=outputs, limit=MOST, cursor=cursor)
            async for node in nodes:
                plain = _plain(node)
                view["nodes"][plain.pop("node")] = plain

    async def get_node(self, run_id: str, node: str, at: int | None = None) -> View:
        return _plain(await self.client.runs.node(run_id, node, at=at))

    async def explain(self, run_id: str, node: str | None) -> View:
        said = _plain(await self.client.runs.explain(run_id, node))
        view = _plain(await self.client.runs.get(run_id, outputs=False))
        await self._read_nodes(view, outputs=False)
        states = [one["state"] for one in view["nodes"].values()]
        counts = {"completed": states.count("completed"), "total": len(states)}
        return {"quarantined": None, **said, **counts, "errors": errors_of(view["nodes"])}

    async def read_events(self, run_id: str, after: int, limit: int) -> View:
        async def read(most: int, cursor: str | None) -> Any:
            return await self.client.runs.events(run_id, limit=most, cursor=cursor).first()

        return await _pages(read, limit, str(after))

    async def read_logs(self, run_id: str, node: str | None, after: int, limit: int) -> View:
        async def read(most: int, cursor: str | None) -> Any:
            return await self.client.runs.logs(run_id, node=node, limit=most, cursor=cursor).first()

        return await _pages(read, limit, str(after))

    async def export(self, run_id: str, *, lines: bool) -> tuple[int, AsyncIterator[str]]:
        file = await self.client.runs.export(run_id)
        return len(file["events"]), _pieces(_plain(file), lines)

    async def import_run(self, file: Any) -> View:
        return _plain(await self.client.runs.import_file(file))

    async def read_path(self, run_id: str, after: int, limit: int) -> View:
        async def read(most: int, cursor: str | None) -> Any:
            return await self.client.runs.path(run_id, limit=most, cursor=cursor).first()

        return await _pages(read, limit, str(after))

    async def diff_runs(self, run_id: str, other: str | None, at: int | None, to: int | None) -> View:
        return _plain(await self.client.runs.diff(run_id, other=other, at=at, to=to))

    def follow(self, run_id: str) -> tuple[Following, Screen]:
        from perdure.cli.remote_following import RemoteFollower, RemoteLines
        from perdure.nodes import installed

        follower = RemoteFollower(self.client, run_id)
        return follower, RemoteLines(follower, installed())

    # -- changing runs -------------------------------------------------------------------------------------------------

    async def start(
        self, workflow: str, inputs: Mapping[str, Any], by: str | None, *, tags: Mapping[str, str], correlation_id: str
    ) -> View:
        refuse_by(by)
        about: dict[str, Any] = {"tags": tags, "correlation_id": correlation_id or None}
        return await self.get_run((await self.client.runs.start(workflow, inputs, **about))["run_id"])

    async def control(self, kind: Control, run_id: str, by: str | None, **fields: Any) -> View:
        refuse_by(by)
        await getattr(self.client.runs, kind)(run_id, **fields)
        return await self.get_run(run_id)

    async def signal(self, run_id: str, name: str, payload: Any, signal_id: str, by: str | None) -> View:
        refuse_by(by)
        await self.client.runs.signal(run_id, name, payload, signal_id=signal_id or None)
        return await self.get_run(run_id)

    async def retry(self, run_id: str, given: Compiled | None, reason: str, by: str | None) -> View:
        refuse_by(by)
        await self.client.runs.retry(run_id, definition=_sent(given), reason=reason)
        return await self.get_run(run_id)

    async def rerun(
        self,
        run_id: str,
        node: str,
        inputs: Mapping[str, Any] | None,
        new_id: str | None,
        by: str | None,
        given: Compiled | None = None,
    ) -> View:
        refuse_by(by)
        if new_id is not None:
            raise click.UsageError("a server names its runs itself; leave --run-id out")
        started = await self.client.runs.rerun(run_id, from_node=node, inputs=inputs, definition=_sent(given))
        return {**await self.get_run(started["run_id"]), "origin": run_id}

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
        refuse_by(by)
        definition = _sent(given)
        if given is not None:
            note(given.problems)
        patched = await self.client.runs.patch(
            run_id, operations, definition=definition, dry_run=dry_run, reason=reason
        )
        return _plain(patched)

    # -- workflows -----------------------------------------------------------------------------------------------------

    async def push(self, definition: Mapping[str, Any], reason: str) -> View:
        return _plain(await self.client.workflows.register(definition, reason=reason))

    async def list_workflows(self, *, limit: int, cursor: str | None) -> View:
        async def read(most: int, after: str | None) -> Any:
            return await self.client.workflows.list(limit=most, cursor=after).first()

        return await _pages(read, limit, cursor)

    async def get_workflow(self, name: str, which: str) -> View:
        version, alias = (int(which), None) if which.isdecimal() else (None, which or None)
        return _plain(await self.client.workflows.get(name, version=version, alias=alias))

    async def list_versions(self, name: str, *, limit: int, cursor: str | None) -> View:
        async def read(most: int, after: str | None) -> Any:
            return await self.client.workflows.versions(name, limit=most, cursor=after).first()

        return await _pages(read, limit, cursor)

    async def list_aliases(self, name: str, *, limit: int, cursor: str | None) -> View:
        async def read(most: int, after: str | None) -> Any:
            return await self.client.workflows.aliases(name, limit=most, cursor=after).first()

        return await _pages(read, limit, cursor)

    async def put_alias(self, name: str, alias: str, shares: Mapping[int, float], reason: str) -> View:
        return _plain(await self.client.workflows.put_alias(name, alias, shares, reason=reason))

    async def rollback_alias(self, name: str, alias: str, reason: str) -> View:
        return _plain(await self.client.workflows.rollback_alias(name, alias, reason=reason))

    async def delete_alias(self, name: str, alias: str) -> View:
        return _plain(await self.client.workflows.delete_alias(name, alias))

    async def patch_workflow(self, name: str, operations: Any, *, base: int | None, reason: str, dry_run: bool) -> View:
        patched = self.client.workflows.patch(name, operations, base_version=base, reason=reason, dry_run=dry_run)
        return _plain(await patched)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def put_blob(self, data: bytes) -> str:
        return (await self.client.blobs.put(data))["ref"]

    async def get_blob(self, ref: str) -> bytes:
        return await self.client.blobs.get(ref)

    async def stat_blob(self, ref: str) -> View:
        return {"size": len(await self.client.blobs.get(ref)), "modified_at": None}

    # -- people --------------------------------------------------------------------------------------------------------

    async def list_waiting(
        self, kind: Kind, *, state: str | None, run_id: str | None, limit: int, cursor: str | None
    ) -> View:
        async def read(most: int, after: str | None) -> Any:
            return await self._noun(kind).list(state=state, run_id=run_id, limit=most, cursor=after).first()

        return await _pages(read, limit, cursor)

    async def find_waiting(self, kind: Kind, name: str) -> View | None:
        try:
            return _plain(await self._noun(kind).get(name)) if name else None
        except NotFound:
            return None

    def _noun(self, kind: Kind) -> Any:
        return self.client.approvals if kind == "approval" else self.client.dead_letters

    async def get_approval(self, approval_id: str) -> View:
        return _plain(await self.client.approvals.get(approval_id))

    async def get_dead_letter(self, dead_letter_id: str) -> View:
        return _plain(await self.client.dead_letters.get(dead_letter_id))

    async def decide(
        self, approval_id: str, decision: Decision, comments: str, data: Any, by: str | None
    ) -> tuple[View, str]:
        decided = await self.client.approvals.decide(approval_id, decision, comments=comments, data=data, approver=by)
        return _plain(decided), ""

    async def delegate(self, approval_id: str, to: str, comments: str, by: str | None) -> tuple[View, str]:
        return _plain(await self.client.approvals.delegate(approval_id, to, comments=comments, approver=by)), ""

    async def repair(self, letters: Sequence[View], fields: dict[str, Any], by: str | None) -> tuple[list[View], str]:
        refuse_by(by)
        more = dict(fields)
        change = getattr(self.client.dead_letters, more.pop("kind"))
        return [_plain(await change(letter["dead_letter_id"], **more)) for letter in letters], ""


def _sent(given: Compiled | None) -> Any:
    """A definition for the server. What the compiler refuses is refused here; the rest the server sees, with its node types."""
    if given is None:
        return None
    from perdure.model import DefinitionError

    if given.definition is None:
        raise DefinitionError(given.problems)
    return given.definition


async def _pages(read: Callable[[int, str | None], Awaitable[Any]], limit: int, cursor: str | None) -> View:
    """A page of `limit`, in as many as the server makes of it."""
    items: list[Any] = []
    while True:
        page = await read(min(limit - len(items), MOST), cursor)
        items.extend(page["items"])
        cursor = page["next_cursor"]
        if cursor is None or len(items) >= limit:
            return {"items": items, "next_cursor": cursor}


async def _pieces(file: View, lines: bool) -> AsyncIterator[str]:
    """A file that was read whole, as it is written."""
    if not lines:
        yield msgspec.json.encode(file).decode() + "\n"
        return
    yield msgspec.json.encode({"kind": "run", "format": file["format"], **file["run"]}).decode() + "\n"
    for kind in ("definition", "event", "blob"):
        for one in file[f"{kind}s"]:
            yield msgspec.json.encode({"kind": kind, **one}).decode() + "\n"


def _plain(view: Any) -> View:
    """What is typed for programs is a plain dictionary here."""
    return cast("View", view)
