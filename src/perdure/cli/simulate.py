"""`perdure simulate`: a user's own workflow, with stubs for its handlers, through crashes, duplicates and delays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.where import here_only
from perdure.cli.terminal.output import compact, paint, print_json, print_table
from perdure.cli.terminal.speech import echo, redraw, style

if TYPE_CHECKING:
    from perdure.simulation.stage.user_stage import Setting
    from perdure.testing import Report


@click.command(short_help="Put a workflow through crashes, duplicates and delays.")
@click.argument("file")
@click.option("--seeds", type=click.IntRange(1), default=100, show_default=True, help="How many histories.")
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="The seed of the first one.")
@click.option("--seed", type=click.IntRange(0), help="One history only, and all that happened in it.")
@click.option("--stubs", "stubs_file", metavar="FILE", help="What nodes do (YAML or JSON). Without: succeed with {}.")
@click.option("-i", "pairs", metavar="NAME=VALUE", multiple=True, help="An input; the value is JSON, or else text.")
@click.option("--inputs", "inputs_file", metavar="FILE", help="A JSON object of inputs; - reads standard input.")
@click.option("--workflow", "others", metavar="FILE", multiple=True, help="Another workflow, which this one starts.")
@here_only("it is a game in this process; nothing is stored anywhere")
@json_option
def simulate(
    file: str,
    seeds: int,
    start: int,
    seed: int | None,
    stubs_file: str | None,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    others: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the workflow in FILE many times in virtual time, each time through other faults, and say how it ends.

    The real engine runs; only handlers are played by stubs. Processes die, messages are lost, doubled and late, the
    database goes away; then everything heals, and the run must come to an end. Nothing is written, nobody is called.

    \b
    Exit codes: 0 every history ended and every rule held, 1 one did not,
                2 bad definition, stubs or usage.
    """
    from perdure.cli.frame.source import read_inputs
    from perdure.errors import PerdureError
    from perdure.testing.histories import make_rough_setting, simulate_setting, tell_history

    first, *rest = [one for name in (file, *others) for one in _compile(name, as_json=as_json)]
    stubs = {} if stubs_file is None else _read_stubs(stubs_file)
    inputs = read_inputs(pairs, inputs_file, first.get_ir().inputs_schema)
    try:
        setting = make_rough_setting(first, inputs=inputs, stubs=stubs, workflows=rest)
    except PerdureError as error:
        schema = first.get_ir().inputs_schema or {}
        made_up = [name for name in schema.get("required", ()) if name not in (inputs or {})]
        flags = " ".join(f"-i {name}=…" for name in made_up)
        hint = f"; what was not given is made up: give {flags}" if error.code == "invalid_inputs" and flags else ""
        raise click.UsageError(f"{error.message}{hint}") from error
    chosen = range(start, start + seeds) if seed is None else range(seed, seed + 1)
    progress, done = _make_progress(len(chosen))
    try:
        report = simulate_setting(setting, chosen, progress)
    finally:
        done()
    if as_json:
        print_json(_as_data(report, setting))
    else:
        if seed is not None:
            echo("\n".join([*tell_history(setting, seed), ""]))
        _print(report, setting, again=f"perdure simulate {file}{f' --stubs {stubs_file}' if stubs_file else ''}")
        _say_what_is_made_up(report, given=stubs_file is not None)
    leave(ExitCode.OK if report.ok else ExitCode.FAILED)


def _compile(file: str, *, as_json: bool) -> list[Any]:
    """The compiled definition and its children; problems are shown, and errors end the command."""
    from perdure.cli.frame.problems import count, show_problems
    from perdure.cli.frame.source import read_source

    source = read_source(file)
    problems = source.compiled.problems
    bad = any(problem.severity == "error" for problem in problems)
    if bad or not as_json:
        show_problems(source.name, source.text, problems)
    if bad:
        say(f"{source.name}: {count(problems)}; nothing was simulated")
        leave(ExitCode.USAGE)
    return [source.compiled, *source.children]


def _read_stubs(file: str) -> dict[str, Any]:
    from perdure.model.problems import Problems
    from perdure.model.reader import read
    from perdure.simulation.stage.stubs import StubInvalid, read_stub

    path = Path(file)
    problems = Problems()
    try:
        data, _, _ = read(path.read_bytes(), "json" if path.suffix == ".json" else "yaml", problems)
    except OSError as error:
        raise click.UsageError(f"--stubs {file}: {error.strerror}") from error
    if problems.found:
        found = problems.found[0]
        raise click.UsageError(f"--stubs {file}{f':{found.line}' if found.line else ''}: {found.message}")
    if not isinstance(data, dict):
        raise click.UsageError(f"--stubs {file}: expected an object of stubs by node id")
    try:
        return {str(name): read_stub(str(name), one) for name, one in data.items()}
    except StubInvalid as error:
        raise click.UsageError(f"--stubs {file}: {error.message}") from error


def _make_progress(count: int) -> tuple[Callable[[int, int], None], Callable[[], None]]:
    """A function that shows on a terminal how many histories are done, and one that removes that line again."""
    if not sys.stderr.isatty() or count < 2:
        return lambda done, bad: None, lambda: None

    def progress(done: int, bad: int) -> None:
        redraw(f"{done} of {count} histories, {bad} bad")

    return progress, redraw


def _say_what_is_made_up(report: Report, *, given: bool) -> None:
    """Where nothing goes well, that is mostly what nodes were not told to give."""
    if not given and all(end.state == "failed" for end in report.ends):
        say(
            "\nNo history went well, and nodes gave {} here: `--stubs FILE` says what they give "
            "(docs/guides/testing-workflows.md)."
        )


def _print(report: Report, setting: Setting, *, again: str) -> None:
    from perdure.simulation.stage.user_world import duration

    if setting.inputs:
        say(f"inputs: {compact(setting.inputs, 200)}")
    rows = report.rows()
    print_table(["end state", "seeds", "share", "example seed", "why"], rows, flexible="why")
    echo()
    if report.never_reached:
        echo(f"Never reached: {', '.join(report.never_reached)}.")
    echo(
        f"{report.seeds} histor{'y' if report.seeds == 1 else 'ies'}, {report.faults} faults, "
        f"{duration(report.virtual_seconds)} of virtual time."
    )
    if report.bad is None:
        echo(f"{paint('completed')}: {report.verdict()}" if sys.stdout.isatty() else report.verdict())
        return
    echo(report.verdict())
    echo()
    first, second = report.describe_bad()
    echo(f"{first[0].upper()}{first[1:]}")
    echo("\n".join(report.bad.history))
    echo(style(second, fg="red"))
    echo(f"\nAs it was: {again} --seed {report.bad.seed}")


def _as_data(report: Report, setting: Setting) -> dict[str, Any]:
    bad = report.bad
    return {
        "workflow": report.workflow,
        "ok": report.ok,
        "start": report.start,
        "seeds": report.seeds,
        "inputs": setting.inputs,
        "ends": [
            {"state": end.state, "reason": end.reason, "seeds": end.seeds, "share": end.seeds / report.seeds}
            | {"message": end.message, "example": end.example}
            for end in report.ends
        ],
        "never_reached": report.never_reached,
        "bad": bad
        and {
            "seed": bad.seed,
            "kind": bad.kind,
            "message": bad.message,
            "faults": bad.faults,
            "history": bad.history,
        },
        "faults": report.faults,
        "virtual_seconds": report.virtual_seconds,
        "digest": report.digest,
    }
