"""`perdure runs retry` and `perdure runs rerun`: a failed run tried again, and a new run out of an old one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.database import by_option
from perdure.cli.frame.exits import ExitCode, say, say_error
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.parameters import budget_options
from perdure.cli.frame.where import Where, where_options
from perdure.cli.run import check_run_id
from perdure.cli.terminal.output import print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.cli.frame.source import Source

_id = click.argument("run_id", metavar="ID")
_definition = click.option(
    "--definition", "file", metavar="FILE", help="Go on by this mended definition; what is done is kept."
)


@click.command(short_help="Try a failed run again; what completed is kept.")
@_id
@_definition
@budget_options
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@where_options
@json_option
def retry(
    run_id: str,
    file: str | None,
    budget: dict[str, Any] | None,
    reason: str,
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Try a failed run again: what completed is kept, what failed runs again.

    With --definition it goes on by the definition in FILE (YAML, JSON, or FILE.py[:workflow]), if what was done has its place
    in it: what failed runs as it says now. One that failed because its budget was used up needs a larger one: --usd, --tokens,
    --calls.

    \b
    Exit codes: 0 it goes on, 1 refused, or it failed again at once, 2 bad definition or usage.
    """
    from perdure.cli.frame.backend import tell_state

    given = _read(file)
    found = _mended(given, lambda: asyncio.run(_retry(where, run_id, given, by, reason=reason, budget=budget)))
    if found is None:
        return
    view, hint = found
    failed = view["state"] == "failed"
    if as_json:
        print_json(view)
    elif failed:
        error = view.get("error") or {}
        say_error(f"{view['run_id']} was retried and failed again at once: {error.get('message') or error.get('code')}")
        name = file or "FILE"
        say(f"  look:  perdure runs show {view['run_id']}{where.flags}")
        say(f"  mend:  perdure runs retry {view['run_id']} --definition {name}{where.flags}")
    else:
        tell_state(f"Retrying {view['run_id']}", view["state"], hint)
    leave(ExitCode.FAILED if failed else ExitCode.OK)


async def _retry(
    where: Where, name: str, given: Source | None, by: str | None, **about: Any
) -> tuple[dict[str, Any], str]:
    from perdure.cli.frame.backend import connected, definition_of, get_run, go_on, resolve_run

    async with connected(where, by=by) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        definition = None if given is None else definition_of(backend, given.compiled)
        await backend.runs.retry(run_id, definition=definition, **about)
        return await get_run(backend, run_id), await go_on(backend, run_id)


def _read(file: str | None) -> Source | None:
    if file is None:
        return None
    from perdure.cli.frame.source import read_source

    return read_source(file)


def _mended(given: Source | None, ask: Callable[[], Any]) -> Any:
    """The answer to a request that may carry a definition; None after printing what is wrong with the definition."""
    from perdure.cli.frame.refusals import refused_for, show_refused
    from perdure.client import Invalid
    from perdure.model import DefinitionError

    try:
        return ask()
    except (DefinitionError, Invalid, click.UsageError) as error:
        if given is None or not refused_for(error):
            raise
        show_refused(given, error, "changed")
        leave(ExitCode.USAGE)
        return None


@click.command(short_help="Make a new run out of an old one.")
@_id
@click.option(
    "--from", "node", metavar="NODE", default="", help="Keep what came before this node. Without: from the start."
)
@click.option(
    "-i",
    "pairs",
    metavar="NAME=VALUE",
    multiple=True,
    help="With --from: what NODE is given for the node NAME. Without: an input of the run.",
)
@click.option("--inputs", "inputs_file", metavar="FILE", help="The same as a JSON object; - reads standard input.")
@_definition
@click.option("--run-id", "new_id", metavar="ID", callback=check_run_id, help="Name the new run.")
@by_option
@where_options
@json_option
def rerun(
    run_id: str,
    node: str,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    file: str | None,
    new_id: str | None,
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Make a new run out of an old one, with the definition that one has now, or a mended one.

    With --from, the outcomes of what came before NODE are kept and NODE and what follows run; without, everything runs
    again, with the old inputs and -i on top of them. The old run stays as it is.
    """
    from perdure.cli.frame.backend import tell_state
    from perdure.cli.frame.source import read_inputs

    given, inputs = _read(file), read_inputs(pairs, inputs_file)
    found = _mended(given, lambda: asyncio.run(_rerun(where, run_id, node, inputs, new_id, by, given)))
    if found is None:
        return
    view, hint = found
    if as_json:
        print_json(view)
        return
    tell_state(f"Started {view['run_id']} out of {view['origin']}", view["state"], hint)


async def _rerun(
    where: Where,
    name: str,
    node: str,
    inputs: dict[str, Any] | None,
    new_id: str | None,
    by: str | None,
    given: Source | None,
) -> tuple[dict[str, Any], str]:
    from perdure.cli.frame.backend import connected, definition_of, get_run, go_on, resolve_run

    if new_id is not None and where.find_server() is not None:
        raise click.UsageError("a server chooses the ids of new runs; leave --run-id out")
    async with connected(where, by=by) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        definition = None if given is None else definition_of(backend, given.compiled)
        more: Any = {} if new_id is None else {"new_id": new_id}
        rerun: Callable[..., Any] = backend.runs.rerun
        started = await rerun(run_id, from_node=node, inputs=inputs, definition=definition, **more)
        new = started["run_id"]
        return {**await get_run(backend, new), "origin": run_id}, await go_on(backend, new)
