"""`perdure dlq`: failed work that is parked, to be tried again or given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.frame.database import by_option
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.lists import Listed, find_pending, list_options, on_one, read_page, show_page
from perdure.cli.frame.parameters import data_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.runs.details import error_of_view, print_details
from perdure.cli.terminal.output import print_fields, print_json, print_page, print_pretty, shorten, since
from perdure.cli.terminal.speech import echo
from perdure.kernel.run_ids import place

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

F = TypeVar("F", bound=Callable[..., Any])
Ask = Callable[["Backend", str], Awaitable[Any]]
"""A request about the dead letter with this id, which gives the dead letter afterwards."""


@click.group(cls=Group, aliases={"reprocess": "requeue", "retry": "requeue"})
def dlq() -> None:
    """Dead letters: nodes parked after they failed. Try them again or give them up."""


@dlq.command("list")
@list_options("pending", "requeued", "discarded")
def list_(state: str, run_id: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List dead letters, oldest first."""
    show_page(LISTED, asyncio.run(read_page(LISTED, where, state, run_id, limit, cursor)), state, as_json)


def _cells(view: dict[str, Any]) -> list[str]:
    text = error_of_view(view)
    created = since(view["created_at"])
    return [view["dead_letter_id"], view["state"], str(view.get("attempt", "")), created, shorten(text, 200)]


LISTED = Listed(
    kind="dead_letter",
    command="perdure dlq list",
    columns=("dead letter", "state", "attempt", "parked", "error"),
    flexible="error",
    as_cells=_cells,
    nothing_pending="Nothing is parked.",
    nothing="No dead letters.",
    hint="`perdure dlq show ID` has what it was given; `dlq requeue ID` tries again, `dlq discard ID` gives up.",
)


@dlq.command()
@click.argument("dead_letter_id", metavar="ID")
@where_options
@json_option
def show(dead_letter_id: str, where: Where, as_json: bool) -> None:
    """Show a dead letter and what its node was given.

    The config is as it was rendered, with secrets masked; a part that is stored as a blob is named.
    """
    view = asyncio.run(_get(where, dead_letter_id))
    if as_json:
        print_json(view)
        return
    print_fields(
        {
            "dead letter": view["dead_letter_id"],
            "run": view["run_id"],
            "node": place(view["node"], tuple(view["scope"]), view["item"]),
            "state": view["state"],
            "by": view["by"] or "",
            "parked": f"{since(view['created_at'])}, attempt {view['attempt']}{' of undoing it' if view['undo'] else ''}",
            view["state"]: "" if view["resolved_at"] is None else since(view["resolved_at"]),
            "error": error_of_view(view),
            "problem": view["problem"] or "",
        }
    )
    print_details(view)
    for name in ("config", "inputs"):
        if view[name] not in (None, {}):
            echo(f"\n{name}")
            print_pretty(view[name])
    if view["state"] == "pending":
        say(
            f"\nTry it again with `perdure dlq requeue {view['dead_letter_id']}`; --config takes another config, whole."
        )


async def _get(where: Where, name: str) -> dict[str, Any]:
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        return await on_one(backend, LISTED, name, backend.dead_letters.get)


# -- repairing ---------------------------------------------------------------------------------------------------------


def _which(function: F) -> F:
    letter = click.argument("dead_letter_id", metavar="[ID]", required=False)
    run = click.option("--run-id", metavar="ID", help="Every dead letter of this run.")
    node = click.option("--node-id", metavar="NODE", help="Of that run, only those of this node.")
    return letter(run(node(function)))


@dlq.command()
@_which
@data_option("--config", "Other config for the node, whole; it is written down.")
@click.option(
    "--done",
    "pairs",
    multiple=True,
    metavar="STEP=JSON",
    help="A step in doubt that happened, and what it gave; may be repeated.",
)
@by_option
@where_options
@json_option
def requeue(
    dead_letter_id: str | None,
    run_id: str | None,
    node_id: str | None,
    config: Any,
    pairs: tuple[str, ...],
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Try what is parked again: one dead letter, or those of a run. Also called retry and reprocess. A step that began and has no
    result (step_ambiguous) is done again, unless --done says that it happened."""
    steps = _read_done(pairs)
    if steps and dead_letter_id is None:
        raise click.UsageError("--done is for one node: name its dead letter by its ID")
    if config is not None and dead_letter_id is None and node_id is None:
        raise click.UsageError("--config is for one node: name a dead letter, or its node with --node-id")

    from perdure.cli.frame.backend import engine_of

    async def ask(backend: Backend, letter: str) -> Any:
        if config is not None and engine_of(backend) is not None:
            _check_call((await backend.dead_letters.get(letter))["node"], config)
        return await backend.dead_letters.requeue(letter, config=config, steps=steps)

    _repair(where, dead_letter_id, run_id, node_id, by, as_json, "Requeued", ask)


def _read_done(pairs: tuple[str, ...]) -> dict[str, Any] | None:
    """What steps gave, by their names."""
    steps: dict[str, Any] = {}
    for pair in pairs:
        name, found, text = pair.partition("=")
        try:
            steps[name] = json.loads(text)
        except ValueError:
            found = ""
        if not found or not name:
            raise click.UsageError(f"--done is STEP=JSON, e.g. --done 'charge={{\"id\": 7}}', got {pair!r}")
    return steps or None


def _check_call(node: str, config: Any) -> None:
    """Refuse a function that `perdure validate` would warn about: a local run continues with the files here."""
    from perdure.cli.frame.function_checks import check_config
    from perdure.service.errors import Invalid

    if mistakes := [problem.message for problem in check_config(f"node '{node}'", config, [Path.cwd()])]:
        refused = Invalid("; ".join(mistakes))
        refused.code = "bad_call"
        raise refused


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
@where_options
@json_option
def discard(
    dead_letter_id: str | None,
    run_id: str | None,
    node_id: str | None,
    as_: Any,
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Give up what is parked: one dead letter, or those of a run."""

    def ask(backend: Backend, letter: str) -> Awaitable[Any]:
        return backend.dead_letters.discard(letter, as_=as_)

    _repair(where, dead_letter_id, run_id, node_id, by, as_json, "Discarded", ask)


def _repair(
    where: Where,
    letter: str | None,
    run_id: str | None,
    node: str | None,
    by: str | None,
    as_json: bool,
    done: str,
    ask: Ask,
) -> None:
    if (letter is None) == (run_id is None):
        raise click.UsageError("name one dead letter by its ID, or all of a run with --run-id")
    if node is not None and run_id is None:
        raise click.UsageError("--node-id goes with --run-id")
    items, hint = asyncio.run(_ask(where, letter, run_id, node, by, ask))
    if as_json:
        print_json(items[0]) if letter is not None else print_page(items, None)
        return
    for view in items:
        echo(f"{done} {view['dead_letter_id']}")
    if hint:
        say(hint)


async def _ask(
    where: Where, letter: str | None, name: str | None, node: str | None, by: str | None, ask: Ask
) -> tuple[list[dict[str, Any]], str]:
    from perdure.cli.frame.backend import connected, go_on

    async with connected(where, by=by) as backend:
        if letter is not None:
            after = [await on_one(backend, LISTED, letter, lambda found: ask(backend, found))]
        else:
            found = await _find(backend, name or "", node)
            after = [await ask(backend, one["dead_letter_id"]) for one in found]
        return after, await go_on(backend, after[0]["run_id"])


async def _find(backend: Backend, name: str, node: str | None) -> list[dict[str, Any]]:
    from perdure.cli.frame.backend import resolve_run
    from perdure.errors import NotFound

    run_id = (await resolve_run(backend, name))["run_id"]
    parked = await find_pending(backend, LISTED, run_id=run_id)
    found = [view for view in parked if node is None or view["node"] == node]
    if not found:
        what = f"node {node} of run {run_id}" if node is not None else f"run {run_id}"
        raise NotFound(f"nothing of {what} is parked; `perdure dlq list` shows what is")
    return found
