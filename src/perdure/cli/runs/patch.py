"""`perdure runs patch`: another definition for a run under way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.database import by_option
from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.source import Source

_id = click.argument("run_id", metavar="ID")


@click.command(short_help="Give a run under way another definition.")
@_id
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Say what would change and whether the run can take it; change nothing.")
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@where_options
@json_option
def patch(run_id: str, file: str, dry_run: bool, reason: str, by: str | None, where: Where, as_json: bool) -> None:
    """Give a run under way another definition: the whole of it in FILE, or a JSON Patch (a list) of the one it has.

    What is activated keeps its config, retry and compensator; routing goes by the new definition at once, the body of a loop
    from its next iteration. Refused is what would leave a token without a place, or go around an approval.

    \b
    Exit codes: 0 done (or possible, with --dry-run), 1 refused, 2 bad definition, patch or usage.
    """
    from perdure.cli.frame.source import read_source_or_patch

    given, operations = read_source_or_patch(file)
    leave(asyncio.run(_patch(where, run_id, given, operations, dry_run, reason, by, as_json)))


async def _patch(
    where: Where,
    name: str,
    given: Source,
    operations: Any,
    dry_run: bool,
    reason: str,
    by: str | None,
    as_json: bool,
) -> ExitCode:
    from perdure.cli.frame.backend import connected, definition_of, get_run, go_on, resolve_run, tell_state
    from perdure.cli.frame.problems import show_problems
    from perdure.cli.frame.refusals import read_problems, refused_for, show_refused
    from perdure.client import Invalid
    from perdure.errors import PerdureError
    from perdure.model import DefinitionError

    async with connected(where, by=by) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        about: dict[str, Any] = {"dry_run": dry_run, "reason": reason}
        changes: Any
        try:
            definition = definition_of(backend, given.compiled) if operations is None else None
            changes = await backend.runs.patch(run_id, operations, definition=definition, **about)
        except (DefinitionError, Invalid) as error:
            if not refused_for(error):
                raise
            show_refused(given, error, "patched")
            return ExitCode.USAGE
        except PerdureError as error:
            error.message += _way_out(run_id, error.message)
            raise
        problems = [] if operations is not None else list(given.compiled.problems)
        said = {(one.code, one.message) for one in problems}
        problems += [one for one in read_problems(changes.pop("problems")) if (one.code, one.message) not in said]
        if not as_json:
            show_problems(given.name, given.text, problems)
        if dry_run:
            _show(changes, as_json=as_json)
            return ExitCode.OK if changes["possible"] else ExitCode.FAILED
        if as_json:
            print_json(await get_run(backend, run_id))
            return ExitCode.OK
        tell_state(f"Patched {run_id}", changes["state"], await go_on(backend, run_id))
        _list(changes)
    return ExitCode.OK


def _show(changes: dict[str, Any], *, as_json: bool) -> None:
    run_id = changes["run_id"]
    if as_json:
        print_json({name: value for name, value in changes.items() if name not in ("applied", "state")})
        return
    _list(changes)
    if changes["refused"]:
        say(f"{run_id} cannot be patched so: {changes['refused']}{_way_out(run_id, changes['refused'])}")
    else:
        echo(f"{run_id} can be patched so; nothing was changed")


def _way_out(run_id: str, refused: str) -> str:
    """What goes on with a run that is too late to be patched; empty, if nothing does."""
    failed = f"run {run_id} is failed" in refused
    return f"; to go on with a mended definition: perdure runs retry {run_id} --definition FILE" if failed else ""


def _list(changes: dict[str, Any]) -> None:
    for word in ("added", "removed", "changed", "edges_added", "edges_removed"):
        if changes[word]:
            echo(f"  {word.replace('_', ' ')}: {', '.join(changes[word])}")
