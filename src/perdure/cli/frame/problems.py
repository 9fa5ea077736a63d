"""Problems of a definition as compilers print them: the place, the line, what is wrong and the way out."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.cli.frame.exits import say
from perdure.cli.terminal.speech import style, width_of, wrap

if TYPE_CHECKING:
    from perdure.model import Problem

SHOWN = 50
"""How many problems are shown: a person reads no more at once, and --json has them all."""
_WIDEST_LINE = 120
_HELP = len("      = help: ")
_MARGIN = len("12345 | ")
_BESIDE = 90
"""The column up to which a way out is printed beside its mark; a longer one is printed below."""

_WHOSE = re.compile(r"\bof node '[^']+'")
"""The node in which something is wrong: not what is wrong, though its name may be on the line."""


def show_problems(name: str, text: str, problems: Sequence[Problem]) -> None:
    lines = text.splitlines()
    shown: Sequence[Problem] = problems
    if len(problems) > SHOWN:  # a warning never hides an error
        shown = sorted(problems, key=lambda problem: problem.severity != "error")[:SHOWN]
    for problem in shown:
        _show(name, lines, problem)
    if len(problems) > SHOWN:
        say(f"… and {len(problems) - SHOWN} more; perdure validate --json lists them all")


def count(problems: Sequence[Problem]) -> str:
    """The number of problems in words: `2 errors, 1 warning`."""
    words = []
    for severity in ("error", "warning"):
        number = sum(problem.severity == severity for problem in problems)
        if number:
            words.append(f"{number} {severity}" if number == 1 else f"{number} {severity}s")
    return ", ".join(words)


def _show(name: str, lines: list[str], problem: Problem) -> None:
    said, _, way_out = problem.message.partition("; ")
    line, column, width = "", problem.column, 1
    shown = problem.line is not None and 0 < problem.line <= len(lines)
    if shown:
        line = lines[(problem.line or 1) - 1]
        column, width = aim(line, problem.column or 1, said)
    place = ":".join(str(part) for part in (name, problem.line, column) if part is not None)
    colour = "red" if problem.severity == "error" else "yellow"
    severity = style(f"{problem.severity}:", fg=colour, bold=True)
    code = style(f"[{problem.code}]", fg="bright_black")
    say(f"{style(place, bold=True)}: {severity} {said} {code}")
    if not shown or column is None:
        if problem.path:
            say(f"      at {problem.path}")
        _say_way_out(way_out)
        return
    room = width_of(sys.stderr) and max(width_of(sys.stderr) - _MARGIN, 20)
    line, column = look_at(line, column, room or _WIDEST_LINE)
    margin = str(problem.line).rjust(5)
    bar = style("|", fg="bright_black")
    say(f"{style(margin, fg='bright_black')} {bar} {line}")
    indent = "".join("\t" if char == "\t" else " " * _cells(char) for char in line[: column - 1])
    marked = line[column - 1 : column - 1 + width]
    caret = style("^" * max(sum(map(_cells, marked)), 1), fg=colour, bold=True)
    beside = len(indent) + len(marked) + len(way_out) <= min(_BESIDE, (room or _WIDEST_LINE) - 1)
    hint = f" {style(way_out, fg='cyan')}" if way_out and beside else ""
    say(f"{' ' * 5} {bar} {indent}{caret}{hint}")
    if not beside:
        _say_way_out(way_out)


def _say_way_out(way_out: str) -> None:
    if way_out:
        lines = wrap(way_out, max(width_of(sys.stderr) - _HELP, 0), "").split("\n")
        say(f"{' ' * 5} {style('= help:', fg='bright_black')} {style(lines[0], fg='cyan')}")
        for line in lines[1:]:
            say(" " * _HELP + style(line, fg="cyan"))


def look_at(line: str, column: int, room: int) -> tuple[str, int]:
    """The part of a long line around a column that fits the room, and the column in it."""
    if len(line) <= room:
        return line, column
    start = min(max(column - 1 - room // 3, 0), len(line) - room)
    part = line[start : start + room]
    if start:
        part = "…" + part[1:]
    if start + room < len(line):
        part = part[:-1] + "…"
    return part, column - start


def aim(line: str, column: int, said: str) -> tuple[int, int]:
    """The column to point at, and how far: the word that the problem is about, if it stands after its key."""
    key = _width(line, column)
    rest = line[column - 1 + key :]
    if not said.startswith("unknown key"):
        about = _WHOSE.sub("", said)
        for word in reversed(re.findall(r"'([^']+)'", about) + re.findall(r"got (\S+)$", about)):
            at = re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", rest)
            if at is not None:
                return column + key + at.start(), len(word)
    return column, key


def _width(line: str, column: int) -> int:
    """The width of the word with which the problem begins: up to a separator, or to its closing quote."""
    rest = line[column - 1 :]
    if rest[:1] in ("'", '"'):
        end = rest.find(rest[0], 1)
        return end + 1 if end > 0 else len(rest)
    width = 0
    while width < len(rest) and rest[width] not in " \t:,]}{[\"'":
        width += 1
    return max(width, 1)


def _cells(char: str) -> int:
    """How many columns of a terminal a character takes."""
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
