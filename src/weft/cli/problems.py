"""Problems of a definition as compilers print them: the place, the line, what is wrong and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from weft.cli.exits import say

if TYPE_CHECKING:
    from weft.model import Problem

SHOWN = 50
"""Nobody reads more at once; --json has them all."""
_WIDEST_LINE = 160


def show_problems(name: str, text: str, problems: Sequence[Problem]) -> None:
    lines = text.splitlines()
    for problem in problems[:SHOWN]:
        _show(name, lines, problem)
    if len(problems) > SHOWN:
        say(f"… and {len(problems) - SHOWN} more; weft validate --json lists them all")


def as_data(problem: Problem) -> dict[str, Any]:
    return {
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "message": problem.message,
        "severity": problem.severity,
    }


def count(problems: Sequence[Problem]) -> str:
    """`2 errors, 1 warning`."""
    words = []
    for severity in ("error", "warning"):
        number = sum(problem.severity == severity for problem in problems)
        if number:
            words.append(f"{number} {severity}" if number == 1 else f"{number} {severity}s")
    return ", ".join(words)


def _show(name: str, lines: list[str], problem: Problem) -> None:
    place = ":".join(str(part) for part in (name, problem.line, problem.column) if part is not None)
    colour = "red" if problem.severity == "error" else "yellow"
    severity = click.style(f"{problem.severity}:", fg=colour, bold=True)
    code = click.style(f"[{problem.code}]", fg="bright_black")
    say(f"{click.style(place, bold=True)}: {severity} {problem.message} {code}")
    if problem.line is None or not 0 < problem.line <= len(lines):
        if problem.path:
            say(f"      at {problem.path}")
        return
    line, column = lines[problem.line - 1], problem.column or 1
    if len(line) > _WIDEST_LINE:  # one-line JSON: show the part that matters
        start = max(column - 40, 0)
        line, column = line[start : start + 120], column - start
    margin = str(problem.line).rjust(5)
    bar = click.style("|", fg="bright_black")
    say(f"{click.style(margin, fg='bright_black')} {bar} {line}")
    indent = "".join("\t" if char == "\t" else " " for char in line[: column - 1])
    say(f"{' ' * 5} {bar} {indent}{click.style('^' * _width(line, column), fg=colour)}")


def _width(line: str, column: int) -> int:
    """The word the problem begins at: up to a separator, or the quote that closes it."""
    rest = line[column - 1 :]
    if rest[:1] in ("'", '"'):
        end = rest.find(rest[0], 1)
        return end + 1 if end > 0 else len(rest)
    width = 0
    while width < len(rest) and rest[width] not in " \t:,]}{[\"'":
        width += 1
    return max(width, 1)
