"""Candidates that TAB offers: ids of runs, approvals and dead letters, nodes, workflows, node types and files.

The name of a parameter says what it takes, so a command gets completion by naming its parameter as other commands do.
If anything goes wrong, nothing is offered: a shell is no place for errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from perdure.cli.frame.parameters import ParamType

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

LOOKED_AT = 1000
"""How many items of a list are looked through, those at its beginning."""
OFFERED = 100
PATIENCE_SECONDS = 3.0
"""How long a person waits for a TAB, even where a server is slow."""

Found = Iterable[tuple[str, str]]
"""Pairs of an offered value and its description."""
Finder = Callable[["Backend", click.Context], Awaitable[Found]]


def teach(command: click.Command) -> None:
    """Give the parameters of a command the completion that their names stand for."""
    for parameter in command.params:
        if parameter.name in _FILES:
            parameter.type = _File()
        elif parameter.name in _STORED and isinstance(parameter.type, type(click.STRING)):
            parameter.type = _Stored(_STORED[parameter.name])
        elif (command.name, parameter.name) == ("node-types", "name"):
            parameter.type = _NodeType()
        elif parameter.name == "name" and command.name in ("versions", "alias", "patch"):
            parameter.type = _Stored(_find_workflows)
        elif (command.name, parameter.name) == ("explain", "name"):
            parameter.type = _Stored(_find_nodes)


class _File(ParamType):
    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class _NodeType(ParamType):
    name = "node type"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from perdure.nodes import installed

        return _offer(((one.name, one.description) for one in installed()), incomplete)


class _Stored(ParamType):
    """A parameter that names something in the database of this folder, or of --db, or on a server."""

    name = "id"

    def __init__(self, find: Finder) -> None:
        self._find = find

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from perdure.errors import PerdureError

        try:
            return _offer(asyncio.run(self._read(ctx)), incomplete)
        except (PerdureError, OSError, click.ClickException):  # a timeout is an OSError
            return []

    async def _read(self, ctx: click.Context) -> Found:
        from perdure.cli.frame.backend import connected
        from perdure.cli.frame.where import Where

        where = Where(*(ctx.params.get(name) for name in ("db", "server", "api_key")))
        async with asyncio.timeout(PATIENCE_SECONDS), connected(where) as backend:
            return await self._find(backend, ctx)


def _offer(found: Found, incomplete: str) -> list[CompletionItem]:
    fitting = (CompletionItem(value, help=said) for value, said in found if value.startswith(incomplete))
    return [item for _, item in zip(range(OFFERED), fitting, strict=False)]


# -- what is stored ----------------------------------------------------------------------------------------------------


async def _find_runs(backend: Backend, ctx: click.Context) -> Found:
    from perdure.cli.terminal.output import ago

    page = await backend.runs.list(limit=LOOKED_AT).first()
    return [(one["run_id"], f"{one['workflow']}, {one['state']}, {ago(one['created_at'])}") for one in page["items"]]


async def _find_approvals(backend: Backend, ctx: click.Context) -> Found:
    page = await backend.approvals.list(state="pending", limit=LOOKED_AT).first()
    return [(one["approval_id"], f"{one['node']} waits") for one in page["items"]]


async def _find_dead_letters(backend: Backend, ctx: click.Context) -> Found:
    page = await backend.dead_letters.list(state="pending", limit=LOOKED_AT).first()
    return [(one["dead_letter_id"], f"{one['node']} is parked") for one in page["items"]]


async def _find_workflows(backend: Backend, ctx: click.Context) -> Found:
    page = await backend.workflows.list(limit=LOOKED_AT).first()
    return [(one["name"], f"version {one['version']}") for one in page["items"]]


async def _find_nodes(backend: Backend, ctx: click.Context) -> Found:
    """The nodes of the run that the command line names before."""
    from perdure.cli.frame.backend import get_run, resolve_run

    # A flag that still lacks its value keeps click from naming the arguments before it.
    record = await resolve_run(backend, ctx.params.get("run_id") or "".join(ctx.args[:1]))
    view = await get_run(backend, record["run_id"])
    return [(name, node["state"]) for name, node in view["nodes"].items()]


_FILES = frozenset({"file", "inputs_file", "stubs_file", "others", "output", "modules", "db"})
_STORED: dict[str | None, Finder] = {
    "run_id": _find_runs,
    "approval_id": _find_approvals,
    "dead_letter_id": _find_dead_letters,
    "workflow": _find_workflows,
    "reference": _find_workflows,
    "node": _find_nodes,
    "node_id": _find_nodes,
    "from_node": _find_nodes,
}
