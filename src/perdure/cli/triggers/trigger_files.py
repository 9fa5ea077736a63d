"""The triggers in a file: YAML or JSON, a workflow that has some, or a Python file that declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import leave

if TYPE_CHECKING:
    from perdure.model.problems import Problem
    from perdure.model.triggers import Trigger


class TriggerFile(msgspec.Struct, frozen=True):
    name: str
    triggers: tuple[Any, ...]
    """Each as `perdure.model.triggers.Trigger`, loaded late."""
    written: tuple[Any, ...]
    """The same as data, each with its workflow, as a request holds it."""
    places: tuple[Any, ...]
    """The path of each in the file."""
    text: str
    kind: Any = None
    """The format of the text; None for Python, whose triggers are known by the `lines` that declare them."""
    lines: tuple[int, ...] = ()


def read_triggers(file: str) -> TriggerFile:
    """Read and check the triggers of a file. When there is an error, every problem is shown, and the command ends."""
    from perdure.clock import system
    from perdure.triggers.declarations import read_text

    if (python := _read_python(file)) is not None:
        return python
    from perdure.cli.frame.source import read_bytes

    data, shown, kind = read_bytes(file)
    found = read_text(data, system.now(), format=kind)
    _show(shown, data.decode(errors="replace"), found.problems, broken=not found.triggers)
    if not found.triggers:
        raise click.UsageError(f"{shown} is a workflow without triggers; it has no key 'triggers'")
    return TriggerFile(shown, found.triggers, found.written, found.places, data.decode(errors="replace"), kind)


def _read_python(file: str) -> TriggerFile | None:
    from perdure.sdk import loader

    if not loader.is_python(file):
        return None
    from pathlib import Path

    from perdure.cli.terminal.stdout import diverted
    from perdure.clock import system
    from perdure.triggers.declarations import read_data

    try:
        with diverted():
            declared = loader.load_triggers(file)
    except loader.LoadError as error:
        raise click.UsageError(error.message) from error
    found = read_data([one.definition() for one in declared], system.now())
    path = Path(file.partition(".py")[0] + ".py")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    lines = tuple(one.line for one in declared)
    problems = tuple(_place(problem, lines) for problem in found.problems)
    _show(file, text, problems, broken=not found.triggers)
    return TriggerFile(file, found.triggers, found.written, found.places, text, lines=lines)


def _place(problem: Problem, lines: tuple[int, ...]) -> Problem:
    """The problem at the line that declares its trigger."""
    number = problem.path.partition("]")[0].removeprefix("[")
    return msgspec.structs.replace(problem, line=lines[int(number)]) if number.isdecimal() else problem


def _show(shown: str, text: str, problems: tuple[Problem, ...], *, broken: bool) -> None:
    from perdure.cli.frame.problems import count, show_problems
    from perdure.model.problems import DefinitionError

    errors = any(problem.severity == "error" for problem in problems)
    if broken and errors and click.get_current_context().params.get("as_json"):
        raise click.UsageError(str(DefinitionError(problems)))
    show_problems(shown, text, problems)
    if broken and errors:
        say(f"{shown}: {count(problems)}")
        leave(ExitCode.USAGE)


def show_refused(file: TriggerFile, refused: Mapping[int, Sequence[Problem]]) -> None:
    """Show why a database or a server refused triggers of a file, by their number in it: everything at once, each at its line. Ends the
    command."""
    from perdure.model.placement import place
    from perdure.model.problems import format_path

    problems = []
    for number, found in refused.items():
        prefix = format_path(file.places[number])
        for one in found:
            dot = "." * bool(prefix and one.path and not one.path.startswith("["))
            problems.append(msgspec.structs.replace(one, path=f"{prefix}{dot}{one.path}"))
    placed = tuple(_place(one, file.lines) for one in problems) if file.lines else place(problems, file.text, file.kind)
    if not click.get_current_context().params.get("as_json"):
        say(f"not applied: {', '.join(file.triggers[number].name for number in refused)}")
    _show(file.name, file.text, placed, broken=True)


def choose_trigger(file: TriggerFile, name: str | None) -> Trigger:
    """The one trigger of a file, or the one that is named."""
    from perdure.spelling import suggest

    names = [trigger.name for trigger in file.triggers]
    if name is None and len(names) > 1:
        raise click.UsageError(
            f"{file.name} holds {len(names)} triggers; choose one with --trigger: {', '.join(names[:10])}"
        )
    for trigger in file.triggers:
        if name in (None, trigger.name):
            return trigger  # type: ignore[no-any-return]
    raise click.UsageError(f"there is no trigger '{name}' in {file.name}; {suggest(name or '', names)}")
