"""The seam between commands and what they work on: `connected(where)` gives a `Backend`, here or elsewhere.

Commands ask a backend, and print. The two kinds answer with the same views; what only one of them can do is said by the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click
import msgspec

from perdure.cli.where import Where

if TYPE_CHECKING:
    from perdure.cli.following import Following, Screen
    from perdure.model import Compiled, Problem

View = dict[str, Any]
Control = Literal["cancel", "pause", "resume", "rollback"]
Decision = Literal["approve", "reject"]
Kind = Literal["approval", "dead_letter"]
MOST = 1000
"""Items a server gives at once."""


class RunsWhere(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are listed. Everything that is given must hold."""

    states: tuple[str, ...] = ()
    workflow: str | None = None
    tag: tuple[str, str] | None = None
    since: float | None = None
    until: float | None = None
    parent: str | None = None
    children: bool = False
    """Those of other runs, too; without it and `parent`, only runs that have no parent."""


class Backend(Protocol):
    """Views are those of the API; lists are `{items, next_cursor}`. `by` is who does it; None: whoever this is."""

    def go_on(self, run_id: str, state: str) -> str:
        """What a person has to know after a change to a run: does anybody work on it? Empty: yes."""
        ...

    # runs
    async def find_run(self, run_id: str) -> View | None: ...
    async def list_runs(self, where: RunsWhere, *, limit: int, cursor: str | None) -> View: ...
    async def get_run(self, run_id: str, at: int | None = None) -> View: ...
    async def get_node(self, run_id: str, node: str, at: int | None = None) -> View: ...
    async def explain(self, run_id: str, node: str | None) -> View:
        """With `completed` and `total`: how many nodes there are."""
        ...

    async def read_events(self, run_id: str, after: int, limit: int) -> View: ...
    async def read_logs(self, run_id: str, node: str | None, after: int, limit: int) -> View: ...
    async def export(self, run_id: str, *, lines: bool) -> tuple[int, AsyncIterator[str]]:
        """How many events there are, and the file, piece by piece: one object, or one object a line."""
        ...

    async def import_run(self, file: Any) -> View: ...
    async def read_path(self, run_id: str, after: int, limit: int) -> View: ...
    async def diff_runs(self, run_id: str, other: str | None, at: int | None, to: int | None) -> View: ...

    async def start(
        self, workflow: str, inputs: Mapping[str, Any], by: str | None, *, tags: Mapping[str, str], correlation_id: str
    ) -> View: ...
    async def control(self, kind: Control, run_id: str, by: str | None, **fields: Any) -> View: ...
    async def signal(self, run_id: str, name: str, payload: Any, signal_id: str, by: str | None) -> View: ...
    async def retry(self, run_id: str, given: Compiled | None, reason: str, by: str | None) -> View:
        """`given`: a mended definition. Raises `DefinitionError`, or what a server says."""
        ...

    async def rerun(
        self,
        run_id: str,
        node: str,
        inputs: Mapping[str, Any] | None,
        new_id: str | None,
        by: str | None,
        given: Compiled | None = None,
    ) -> View: ...
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
        """A whole definition, or a JSON Patch. `note` is told what is wrong with the definition, as far as it is seen here;
        `DefinitionError` when that is too much."""
        ...

    def follow(self, run_id: str) -> tuple[Following, Screen]:
        """The run, and where it is shown line by line."""
        ...

    # workflows
    async def push(self, definition: Mapping[str, Any], reason: str) -> View: ...
    async def list_workflows(self, *, limit: int, cursor: str | None) -> View: ...
    async def get_workflow(self, name: str, which: str) -> View:
        """`which` is a version, an alias, or nothing for the highest version."""
        ...

    async def list_versions(self, name: str, *, limit: int, cursor: str | None) -> View: ...
    async def list_aliases(self, name: str, *, limit: int, cursor: str | None) -> View: ...
    async def put_alias(self, name: str, alias: str, shares: Mapping[int, float], reason: str) -> View: ...
    async def rollback_alias(self, name: str, alias: str, reason: str) -> View: ...
    async def delete_alias(self, name: str, alias: str) -> View: ...
    async def patch_workflow(
        self, name: str, operations: Any, *, base: int | None, reason: str, dry_run: bool
    ) -> View: ...

    # blobs
    async def put_blob(self, data: bytes) -> str: ...
    async def get_blob(self, ref: str) -> bytes: ...
    async def stat_blob(self, ref: str) -> View:
        """`{size, modified_at}`; a server does not say when it was put."""
        ...

    # people
    async def list_waiting(
        self, kind: Kind, *, state: str | None, run_id: str | None, limit: int, cursor: str | None
    ) -> View: ...
    async def find_waiting(self, kind: Kind, name: str) -> View | None: ...
    async def get_approval(self, approval_id: str) -> View: ...
    async def get_dead_letter(self, dead_letter_id: str) -> View: ...
    async def decide(
        self, approval_id: str, decision: Decision, comments: str, data: Any, by: str | None
    ) -> tuple[View, str]:
        """The approval, and what the run is now."""
        ...

    async def delegate(self, approval_id: str, to: str, comments: str, by: str | None) -> tuple[View, str]: ...
    async def repair(
        self, letters: Sequence[View], fields: dict[str, Any], by: str | None
    ) -> tuple[list[View], str]: ...


@asynccontextmanager
async def connected(where: Where, *, make: bool = False) -> AsyncIterator[Backend]:
    """`make`: a database that is not there is made."""
    server = where.find_server()
    if server is not None:
        from perdure.cli.remote import Remote, reached

        async with reached(server) as client:
            yield Remote(client)
        return
    from perdure.cli.database import opened
    from perdure.cli.local import Local

    async with opened(where.db, new=make) as engine:
        yield Local(engine)


async def find_run(backend: Backend, name: str) -> View:
    """The run with this id, or the only one whose id begins so."""
    from perdure.errors import NotFound

    record = await backend.find_run(name)
    if record is not None:
        return record
    found = (
        await read_all(lambda cursor: backend.list_runs(RunsWhere(children=True), limit=MOST, cursor=cursor))
        if name
        else []
    )
    ids = [one["run_id"] for one in found if one["run_id"].startswith(name)]
    # A child is named after its parent: whoever writes the beginning means the parent.
    parents = [one for one in ids if ":" not in one[len(name) :]] or ids
    if len(parents) > 1:
        some = ", ".join(parents[:3])
        raise NotFound(
            f"{len(parents)} runs begin with {name} ({some}{', …' * (len(parents) > 3)}); write more of the id"
        )
    if not parents:
        raise NotFound(f"there is no run {name}; `perdure runs list` shows those there are")
    return next(one for one in found if one["run_id"] == parents[0])


def errors_of(nodes: Mapping[str, View]) -> View:
    """The errors of nodes that have not completed, by node."""
    return {name: one["error"] for name, one in nodes.items() if one.get("error") and one["state"] != "completed"}


async def read_all(read: Callable[[str | None], Awaitable[View]]) -> list[Any]:
    """Every page of a list."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await read(cursor)
        found.extend(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def refuse_by(by: str | None) -> None:
    if by is not None:
        raise click.UsageError("--by is for a database; a server knows who you are by your key")
