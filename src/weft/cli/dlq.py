"""`weft dlq`: what is parked after it failed, to be tried again or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from weft.cli.database import by_option
from weft.cli.exits import say
from weft.cli.group import Group, db_option, json_option
from weft.cli.listing import Listed, find_pending, list_options, only_one, read_page, show_page
from weft.cli.output import print_json, print_page, shorten, since
from weft.cli.parameters import data_option

if TYPE_CHECKING:
    from weft.engine import Engine
    from weft.journal import DeadLetterRow

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group, aliases={"reprocess": "requeue"})
def dlq() -> None:
    """Dead letters: nodes parked after they failed. Try them again or give them up."""


@dlq.command("list")
@list_options("pending", "resolved")
def list_(state: str, run_id: str | None, limit: int, cursor: str | None, db: str | None, as_json: bool) -> None:
    """List dead letters, oldest first."""
    show_page(LISTED, asyncio.run(read_page(LISTED, db, state, run_id, limit, cursor)), state, as_json)


def as_data(row: DeadLetterRow) -> dict[str, Any]:
    return {
        "dead_letter_id": row.dead_letter_id,
        "run_id": row.run_id,
        "node": row.node,
        "state": row.state,
        "created_at": row.created_at,
        "resolved_at": row.resolved_at,
        **msgspec.json.decode(row.body),
    }


def _cells(row: DeadLetterRow) -> list[str]:
    body = msgspec.json.decode(row.body)
    error = body.get("error") or {}
    text = f"{error.get('code', '')}: {error.get('message', '')}" if error else ""
    return [row.dead_letter_id, row.state, str(body.get("attempt", "")), since(row.created_at), shorten(text, 200)]


LISTED = Listed(
    method="list_dead_letters",
    columns=("dead letter", "state", "attempt", "parked", "error"),
    flexible="error",
    as_data=as_data,
    as_cells=_cells,
    nothing_pending="Nothing is parked.",
    nothing="No dead letters.",
    hint="Try again with `weft dlq requeue DEAD_LETTER`, give up with `weft dlq discard DEAD_LETTER`.",
)


# -- repairing ---------------------------------------------------------------------------------------------------------


def _which(function: F) -> F:
    letter = click.argument("dead_letter_id", metavar="[ID]", required=False)
    run = click.option("--run-id", metavar="ID", help="Every dead letter of this run.")
    node = click.option("--node-id", metavar="NODE", help="Of that run, only those of this node.")
    return letter(run(node(function)))


@dlq.command()
@_which
@data_option("--config", "Other config for the node, whole; it is written down.")
@by_option
@db_option
@json_option
def requeue(
    dead_letter_id: str | None,
    run_id: str | None,
    node_id: str | None,
    config: Any,
    by: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Try what is parked again: one dead letter, or those of a run. Also called reprocess."""
    if config is not None and dead_letter_id is None and node_id is None:
        raise click.UsageError("--config is for one node: name a dead letter, or its node with --node-id")
    fields = {"kind": "requeue", **({} if config is None else {"config": config})}
    _repair(db, dead_letter_id, run_id, node_id, by, as_json, "Requeued", fields)


@dlq.command()
@_which
@click.option(
    "--as",
    "as_",
    type=click.Choice(["skip", "fail", "continue"]),
    default="skip",
    show_default=True,
    help="What the node counts as from then on.",
)
@by_option
@db_option
@json_option
def discard(
    dead_letter_id: str | None,
    run_id: str | None,
    node_id: str | None,
    as_: str,
    by: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Give up what is parked: as skipped, failed, or failed with the run going on."""
    _repair(db, dead_letter_id, run_id, node_id, by, as_json, "Discarded", {"kind": "discard", "as_": as_})


def _repair(
    db: str | None,
    letter: str | None,
    run_id: str | None,
    node: str | None,
    by: str | None,
    as_json: bool,
    done: str,
    fields: dict[str, Any],
) -> None:
    if (letter is None) == (run_id is None):
        raise click.UsageError("name one dead letter by its ID, or all of a run with --run-id")
    if node is not None and run_id is None:
        raise click.UsageError("--node-id goes with --run-id")
    rows, hint = asyncio.run(_ask(db, letter, run_id, node, by, fields))
    if as_json:
        items = [as_data(row) for row in rows]
        print_json(items[0]) if letter is not None else print_page(items, None)
        return
    for row in rows:
        click.echo(f"{done} {row.dead_letter_id}")
    if hint:
        say(hint)


async def _ask(
    db: str | None, letter: str | None, name: str | None, node: str | None, by: str | None, fields: dict[str, Any]
) -> tuple[list[DeadLetterRow], str]:
    from weft.cli.database import ask, going_on, opened, user
    from weft.runtime.requests import Request

    async with opened(db) as engine:
        rows = await _find(engine, letter, name, node)
        state = ""
        for row in rows:
            body = msgspec.json.decode(row.body)
            request = Request(
                run_id=row.run_id,
                by=user() if by is None else by,
                node=row.node,
                scope=tuple(body.get("scope") or ()),
                item=body.get("item"),
                undo=bool(body.get("undo")),
                **fields,
            )
            state = (await ask(engine, request)).state
        after = [await engine.journal.get_dead_letter(row.dead_letter_id) for row in rows]
        return after, going_on(engine, rows[0].run_id, state)


async def _find(engine: Engine, letter: str | None, name: str | None, node: str | None) -> list[DeadLetterRow]:
    from weft.cli.database import find_run
    from weft.errors import NotFound

    if letter is not None:
        try:
            return [await engine.journal.get_dead_letter(letter)]
        except NotFound:
            found = await find_pending(engine, LISTED.method, lambda row: row.dead_letter_id.startswith(letter))
            return [only_one(found, letter, "dead letter", lambda row: row.dead_letter_id, "weft dlq list")]
    run_id = (await find_run(engine, name or "")).run_id
    rows = await find_pending(engine, LISTED.method, lambda row: node is None or row.node == node, run_id=run_id)
    if not rows:
        what = f"node {node} of run {run_id}" if node is not None else f"run {run_id}"
        raise NotFound(f"nothing of {what} is parked; `weft dlq list` shows what is")
    return rows
