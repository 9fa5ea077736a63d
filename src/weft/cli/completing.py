"""What TAB offers: ids of runs, approvals and dead letters, nodes, workflows, node types and files.

The name of a parameter says what it takes, so a command gets its completion by calling its parameter what others call it.
Whatever goes wrong on the way, nothing is offered: a shell is no place for errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from weft.cli.parameters import ParamType

if TYPE_CHECKING:
    from weft.engine import Engine

LOOKED_AT = 1000
"""So many of the newest are looked through."""
OFFERED = 100

Found = Iterable[tuple[str, str]]
"""(what is offered, what it is)"""
Finder = Callable[["Engine", click.Context], Awaitable[Found]]


def teach(command: click.Command) -> None:
    """Let the parameters of a command complete what their names stand for."""
    for parameter in command.params:
        if parameter.name in _FILES:
            parameter.type = _File()
        elif parameter.name in _STORED and isinstance(parameter.type, type(click.STRING)):
            parameter.type = _Stored(_STORED[parameter.name])
        elif (command.name, parameter.name) == ("node-types", "name"):
            parameter.type = _NodeType()
        elif (command.name, parameter.name) == ("explain", "name"):
            parameter.type = _Stored(_find_nodes)


class _File(ParamType):
    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class _NodeType(ParamType):
    name = "node type"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from weft.nodes import installed

        return _offer(((one.name, one.description) for one in installed()), incomplete)


class _Stored(ParamType):
    """Something in the database of this folder, or of --db."""

    name = "id"

    def __init__(self, find: Finder) -> None:
        self._find = find

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from weft.errors import WeftError

        try:
            return _offer(asyncio.run(self._read(ctx)), incomplete)
        except (WeftError, OSError):
            return []

    async def _read(self, ctx: click.Context) -> Found:
        from weft.cli.database import opened

        async with opened(ctx.params.get("db")) as engine:
            return await self._find(engine, ctx)


def _offer(found: Found, incomplete: str) -> list[CompletionItem]:
    fitting = (CompletionItem(value, help=said) for value, said in found if value.startswith(incomplete))
    return [item for _, item in zip(range(OFFERED), fitting, strict=False)]


# -- what is stored ----------------------------------------------------------------------------------------------------


async def _find_runs(engine: Engine, ctx: click.Context) -> Found:
    from weft.cli.output import ago

    page = await engine.journal.list_runs(limit=LOOKED_AT)
    return [(one.run_id, f"{one.row.workflow}, {one.row.state}, {ago(one.row.created_at)}") for one in page.items]


async def _find_approvals(engine: Engine, ctx: click.Context) -> Found:
    page = await engine.journal.list_approvals(state="pending", limit=LOOKED_AT)
    return [(row.approval_id, f"{row.node} waits") for row in page.items]


async def _find_dead_letters(engine: Engine, ctx: click.Context) -> Found:
    page = await engine.journal.list_dead_letters(state="pending", limit=LOOKED_AT)
    return [(row.dead_letter_id, f"{row.node} is parked") for row in page.items]


async def _find_workflows(engine: Engine, ctx: click.Context) -> Found:
    page = await engine.journal.list_workflows(limit=LOOKED_AT)
    return [(row.name, f"version {row.version}") for row in page.items]


async def _find_nodes(engine: Engine, ctx: click.Context) -> Found:
    """Of the run that is named before."""
    from weft.cli.database import find_run

    # A flag that still lacks its value keeps click from giving the arguments before it their names.
    record = await find_run(engine, ctx.params.get("run_id") or "".join(ctx.args[:1]))
    ir = await engine.library.get(record.row.ir)
    return [(node.id, node.type) for node in ir.nodes if node is not None]


_FILES = frozenset({"file", "inputs_file", "stubs_file", "others", "output", "modules", "db"})
_STORED: dict[str | None, Finder] = {
    "run_id": _find_runs,
    "approval_id": _find_approvals,
    "dead_letter_id": _find_dead_letters,
    "workflow": _find_workflows,
    "node": _find_nodes,
    "node_id": _find_nodes,
    "from_node": _find_nodes,
}
