"""`perdure graph`: a workflow as a picture, or a run with the path it took. No other program is needed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.output_file import opened_output
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.drawing import Marks
    from perdure.model.ir import IR

SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")


@click.command(short_help="Draw a workflow, or how far a run of it is.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--run", "run_id", metavar="ID", help="Draw this run: its states and the way it took, instead of a FILE.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["mermaid", "dot", "svg"]),
    help="Default: by the name of the output file, else mermaid.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of standard output.")
@click.option(
    "--direction",
    type=click.Choice(["down", "right"]),
    help="Where arrows lead. Default: for svg what is easier to read, else down.",
)
@where_options
@json_option
def graph(
    file: str | None,
    run_id: str | None,
    format_: str | None,
    output: str | None,
    direction: Any,
    where: Where,
    as_json: bool,
) -> None:
    """Draw the workflow in FILE, or the run named with --run.

    Mermaid is drawn by GitHub, GitLab and many editors, SVG by every browser, in light or dark; DOT is for Graphviz.
    With --json: boxes and arrows with their places, for those who draw themselves.
    """
    if file is None and run_id is None:
        raise click.UsageError("give a FILE, or name a run with --run ID")
    if file is not None and run_id is not None:
        raise click.UsageError(
            f"give a FILE or a run, not both: a run is drawn by its own definition; leave out {file}"
        )
    if file is not None and where != Where():
        raise click.UsageError(f"{'--db' if where.db is not None else '--server'} goes with --run")
    kind = Path(output).suffix.lower() if output else ""
    if kind in _IMAGES and not as_json:
        svg = Path(output or "").with_suffix(".svg")
        raise click.UsageError(
            f"{kind[1:].upper()} is not drawn here; write an SVG and convert it: -o {svg}, then rsvg-convert {svg} -o {output}"
        )
    ir, marks = _read_file(file, as_json) if file is not None else asyncio.run(_read_run(where, run_id or ""))
    from perdure.drawing import draw, make_picture

    if as_json:
        from perdure.cli.terminal.output import print_json
        from perdure.drawing.plain_data import describe

        print_json(describe(make_picture(ir, marks), direction=direction))
        return
    format_ = format_ or SUFFIXES.get(kind, "mermaid")
    text = draw(ir, format_, marks=marks, direction=direction)  # type: ignore[arg-type]
    if output is None:
        echo(text, nl=False)
        return
    with opened_output(output) as opened:
        opened.write(text.encode())
    say(f"Wrote {output} ({format_}, {len(ir.nodes)} nodes).")


def _read_file(file: str, quiet: bool) -> tuple[IR, None]:
    from perdure.cli.frame.problems import count, show_problems
    from perdure.cli.frame.source import read_source

    source = read_source(file)
    ir = source.compiled.ir
    if ir is None:
        show_problems(source.name, source.text, source.compiled.problems)
        say(f"{source.name}: {count(source.compiled.problems)}; nothing was drawn")
        leave(ExitCode.USAGE)
    assert ir is not None
    return ir, None


async def _read_run(where: Where, name: str) -> tuple[IR, Marks]:
    from perdure.cli.frame.backend import connected, resolve_run
    from perdure.cli.terminal.follow import followed
    from perdure.drawing.marks import mark_run

    async with connected(where) as backend:
        follower, _ = followed(backend, (await resolve_run(backend, name))["run_id"])
        await follower.skip_past()
        if not follower.state.irs:
            raise click.UsageError(f"the definition of run {name} is not kept there, so it cannot be drawn")
        return follower.state.ir, mark_run(follower.state, await follower.look())
