"""`perdure validate`: only compile a definition, and list every problem at once, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.source import Source
    from perdure.model import Compiled, Problem
    from perdure.model.ir import IR


@click.command(short_help="Check a workflow without running it.")
@click.argument("file")
@click.option(
    "--import",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Import a module or file.py, and what tasks name, and look.",
)
@where_options
@json_option
def validate(file: str, modules: tuple[str, ...], where: Where, as_json: bool) -> None:
    """Check the workflow in FILE (YAML, JSON, FILE.py[:workflow] or module:workflow; - reads standard input).

    Blobs that it names are looked for, and looked into, in the database; with --server, the server checks all of it.

    Functions are looked for in the files beside FILE, without importing anything; with --import, they are imported.

    Exit code 0 when it is valid, 2 when it is not. Warnings do not make it invalid.
    """
    from perdure.cli.frame.problems import count, show_problems
    from perdure.cli.frame.refusals import add_problems, check_source
    from perdure.cli.frame.source import check_agents_file, read_source
    from perdure.service.views import problem_view

    source = read_source(file)
    if where.find_server() is None:
        check_agents_file(source)
    compiled = add_problems(source, check_source(source, where), _check_calls(source, file, modules, where))
    ir = compiled.ir
    if as_json:
        problems = [problem_view(problem) for problem in compiled.problems]
        reaches = {"agents": _reaches(ir)} if ir is not None and _reaches(ir) else {}
        print_json({"valid": ir is not None, "hash": ir and ir.hash, "problems": problems, **reaches})
    else:
        show_problems(source.name, source.text, compiled.problems)
        if ir is None:
            say(f"{source.name}: {count(compiled.problems)}")
        else:
            nodes = sum(node is not None for node in ir.nodes)
            warnings = f", {count(compiled.problems)}" if compiled.problems else ""
            echo(f"{source.name} is valid: {ir.name}, {nodes} node{'s' * (nodes != 1)}{warnings}")
            for reach in _reaches(ir):
                reads = ", ".join(f"{name} ({label})" for name, label in reach["sources"].items()) or "nothing"
                does = ", ".join(f"{name} ({effect})" for name, effect in reach["sinks"].items()) or "nothing"
                echo(f"agent {reach['agent']} reads {reads}; can do {does}")
    leave(ExitCode.OK if ir is not None else ExitCode.USAGE)


def _reaches(ir: IR) -> list[dict[str, Any]]:
    """What each agent can read, with labels, and what it can do."""
    from perdure.agents.label_flow import find_reaches
    from perdure.agents.route_reach import routes_of
    from perdure.nodes import installed

    registry = installed()
    return [
        {
            "agent": reach.agent,
            "label": str(reach.label),
            "sources": {name: str(label) for name, label in reach.sources.items()},
            "sinks": {**reach.sinks, **routes_of(ir, registry, reach.agent)},
        }
        for reach in find_reaches(ir, registry)
    ]


def _check_calls(source: Source, file: str, modules: tuple[str, ...], where: Where) -> tuple[Problem, ...]:
    """Problems with the functions that a definition names; those of a Python file are known already."""
    if source.kind is None:
        return ()
    from perdure.cli.frame.function_checks import check_files, check_imported, folders_of

    if modules:
        from perdure.cli.frame.source import import_modules

        import_modules(modules, file)
        return check_imported(_named(source))
    return check_files(_named(source), folders_of(file), elsewhere=where.find_server() is not None)


def _named(source: Source) -> Compiled:
    """The definition whose functions are looked for: also where a config in it is wrong."""
    from perdure.model import compile_text

    compiled: Compiled = source.compiled
    if compiled.ir is not None or compiled.draft is not None:
        return compiled
    return compile_text(source.text, format=source.kind)
