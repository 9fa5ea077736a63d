"""The entrance of the compiler: from text or data to an IR and a list of problems with their places."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from perdure.budget import Budget, OverBudget
from perdure.model.compiler import Draft, compile_data
from perdure.model.garbage import no_collection
from perdure.model.ir import IR
from perdure.model.positions import Positions
from perdure.model.problems import MAX_PROBLEMS, DefinitionError, Path, Problem, Problems, format_path
from perdure.model.reader import Format, check_data, read


class Locator(Protocol):
    """A finder of the place in a text where a path stands."""

    def find(self, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]: ...


class Compiled(msgspec.Struct, frozen=True):
    """The result of compiling. `ir` and `definition` are None when there are errors; warnings alone leave both."""

    ir: IR | None
    problems: tuple[Problem, ...]
    definition: dict[str, Any] | None
    draft: Draft | None = None
    """The part of a definition with errors that can be checked nevertheless."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    def get_ir(self) -> IR:
        """The IR, or DefinitionError with every problem."""
        if self.ir is None:
            raise DefinitionError(self.problems)
        return self.ir


def has_triggers(compiled: Compiled) -> bool:
    """Whether there are triggers to check, also in what is left of a definition with errors."""
    found = compiled.draft.triggers if compiled.draft is not None else (compiled.definition or {}).get("triggers")
    return bool(found)


@no_collection()
def compile_text(text: str | bytes, *, format: Format | None = None, budget: Budget | None = None) -> Compiled:
    """Compile JSON or YAML. Without a format, text that begins with a bracket is JSON. Without a budget it may take as
    long as it takes."""
    problems = Problems(budget)
    data, plain, found = read(text, format, problems)
    if problems.errors:
        # Refused text is not scanned again for lines: it may be made to be slow, and its problems have their lines.
        return Compiled(None, finish(problems, None), None)
    return _compile(data, problems, Positions(plain, found))


@no_collection()
def compile_definition(data: Any, positions: Locator | None = None, *, budget: Budget | None = None) -> Compiled:
    """Compile a definition that is already data. The data is copied, so later changes to it do no harm."""
    problems = Problems(budget)
    if not check_data(data, problems):
        return Compiled(None, finish(problems, positions), None)
    return _compile(json.loads(json.dumps(data)), problems, positions)


def _compile(data: Any, problems: Problems, positions: Locator | None) -> Compiled:
    try:
        ir, canonical, draft = compile_data(data, problems)
    except OverBudget:
        return Compiled(None, (too_costly(),), None)
    return Compiled(ir, finish(problems, positions), canonical, draft)


def too_costly() -> Problem:
    """The one problem of a definition whose check was given up: what else is wrong with it is not known."""
    return Problem("", None, None, "too_costly", "checking the definition takes too long; use child workflows")


def finish(problems: Problems, positions: Locator | None) -> tuple[Problem, ...]:
    """The problems in order of place, each with its line where it is known."""
    if not problems.found:
        return ()
    places = positions.find({f.path for f in problems.found if f.line is None}) if positions is not None else {}
    finished: dict[Problem, tuple[Any, ...]] = {}
    for found in problems.found:
        line, column = (found.line, found.column) if found.line is not None else places.get(found.path, (None, None))
        problem = Problem(format_path(found.path), line, column, found.code, found.message, found.severity)
        place = (line or 0, column or 0) if line is not None else (0, 0)
        finished[problem] = (
            place,
            [(isinstance(p, str), str(p).rjust(12, "0")) for p in found.path],
            found.code,
            found.message,
        )
    ordered = sorted(finished, key=finished.__getitem__)
    if problems.left_out:
        message = f"{problems.left_out} more problems are not listed; only the first {MAX_PROBLEMS} are"
        ordered.append(Problem("", None, None, "too_many_problems", message))
    return tuple(ordered)
