"""`weft runs patch` and `weft runs rerun`: another definition for a run under way, and a new run out of an old one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from weft.cli.database import by_option
from weft.cli.exits import ExitCode, say
from weft.cli.group import db_option, json_option, leave
from weft.cli.output import paint, print_json
from weft.cli.run import check_run_id

if TYPE_CHECKING:
    from weft.cli.source import Source
    from weft.engine import Engine
    from weft.model import Compiled
    from weft.runtime.patching import Changes

_id = click.argument("run_id", metavar="ID")


# -- patch -------------------------------------------------------------------------------------------------------------


@click.command()
@_id
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Say what would change and whether the run can take it; change nothing.")
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@db_option
@json_option
def patch(run_id: str, file: str, dry_run: bool, reason: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Give a run under way another definition: the whole of it in FILE, or a JSON Patch (a list) of the one it has.

    What is activated keeps its config, retry and compensator; routing goes by the new definition at once, the body of a loop
    from its next iteration. Refused is what would leave a token without a place, or go around an approval.

    \b
    Exit codes: 0 done (or possible, with --dry-run), 1 refused, 2 bad definition, patch or usage.
    """
    from weft.cli.source import read_source_or_patch

    given, operations = read_source_or_patch(file)
    leave(asyncio.run(_patch(db, run_id, given, operations, dry_run, reason, by, as_json)))


async def _patch(
    db: str | None,
    name: str,
    given: Source,
    operations: Any,
    dry_run: bool,
    reason: str,
    by: str | None,
    as_json: bool,
) -> ExitCode:
    from weft.cli.database import ask, find_run, going_on, opened, user
    from weft.clock import system
    from weft.runtime.patching import preview
    from weft.runtime.requests import Request

    async with opened(db) as engine:
        record = await find_run(engine, name)
        state = await engine.state_of(record)
        compiled = given.compiled if operations is None else await _patched(engine, state, operations)
        if not _is_good(given, compiled, as_json=as_json):
            return ExitCode.USAGE
        changes = preview(state, compiled.get_ir(), system.now())
        if dry_run:
            _show(record.run_id, changes, as_json=as_json)
            return ExitCode.FAILED if changes.refused else ExitCode.OK
        ir = await engine.keep(compiled)
        who = user() if by is None else by
        request = Request(kind="patch", run_id=record.run_id, by=who, ir=ir.hash, reason=reason, patch=operations)
        await ask(engine, request)
        state = await engine.state(record.run_id)
        if as_json:
            print_json(await engine.contents.view(state))
            return ExitCode.OK
        click.echo(f"Patched {record.run_id}; it is {paint(state.state.value)} now")
        _list(changes)
        if hint := going_on(engine, record.run_id, state.state.value):
            say(hint)
    return ExitCode.OK


async def _patched(engine: Engine, state: Any, operations: Any) -> Compiled:
    from weft.model import compile_definition
    from weft.runtime.patching import PatchInvalid, apply_patch, current_definition

    definition = await current_definition(engine.library, state)
    try:
        return compile_definition(apply_patch(definition, operations))
    except PatchInvalid as error:
        raise click.UsageError(error.message) from error


def _is_good(given: Source, compiled: Compiled, *, as_json: bool) -> bool:
    from weft.cli.problems import count, show_problems
    from weft.routing.checks import check_parts

    problems = compiled.problems
    if compiled.ir is not None:
        problems = (*problems, *check_parts(compiled.ir))
    bad = any(problem.severity == "error" for problem in problems)
    if bad or not as_json:
        show_problems(given.name, given.text, problems)
    if bad:
        say(f"{given.name}: {count(problems)}; nothing was patched")
    return not bad


def _show(run_id: str, changes: Changes, *, as_json: bool) -> None:
    import msgspec

    if as_json:
        print_json({"run_id": run_id, "possible": not changes.refused, **msgspec.to_builtins(changes)})
        return
    _list(changes)
    if changes.refused:
        say(f"{run_id} cannot be patched so: {changes.refused}")
    else:
        click.echo(f"{run_id} can be patched so; nothing was changed")


def _list(changes: Changes) -> None:
    for word, names in (
        ("added", changes.added),
        ("removed", changes.removed),
        ("changed", changes.changed),
        ("edges added", changes.edges_added),
        ("edges removed", changes.edges_removed),
    ):
        if names:
            click.echo(f"  {word}: {', '.join(names)}")


# -- rerun -------------------------------------------------------------------------------------------------------------


@click.command()
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
@click.option("--run-id", "new_id", metavar="ID", callback=check_run_id, help="Name the new run.")
@by_option
@db_option
@json_option
def rerun(
    run_id: str,
    node: str,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    new_id: str | None,
    by: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Make a new run out of an old one, with the definition that one has now.

    With --from, the outcomes of what came before NODE are kept and NODE and what follows run; without, everything runs
    again, with the old inputs and -i on top of them. The old run stays as it is.
    """
    from weft.cli.source import read_inputs

    view, hint = asyncio.run(_rerun(db, run_id, node, read_inputs(pairs, inputs_file), new_id, by))
    if as_json:
        print_json(view)
        return
    click.echo(f"Started {view['run_id']} out of {view['origin']}; it is {paint(view['state'])} now")
    if hint:
        say(hint)


async def _rerun(
    db: str | None, name: str, node: str, inputs: dict[str, Any] | None, new_id: str | None, by: str | None
) -> tuple[dict[str, Any], str]:
    from weft.cli.database import ask, find_run, going_on, opened, user
    from weft.clock import system
    from weft.runtime.requests import Request

    async with opened(db) as engine:
        record = await find_run(engine, name)
        if inputs is not None and not node:
            before = await engine.contents.resolve(record.row.tenant, (await engine.state_of(record)).inputs)
            inputs = {**(before if isinstance(before, dict) else {}), **inputs}
        new = new_id or system.new_id()
        who = user() if by is None else by
        await ask(engine, Request(kind="rerun", run_id=new, source=record.run_id, node=node, inputs=inputs, by=who))
        state = await engine.state(new)
        view = {**await engine.contents.view(state), "origin": record.run_id}
        return view, going_on(engine, new, state.state.value)
