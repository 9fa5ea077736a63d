"""What can be wrong with a definition, and how it is said.

Owns the list of problem codes, the problem itself and the collector every stage writes into. It must not know how a
definition is read or what the rules are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from perdure.budget import Budget
from perdure.errors import PerdureError
from perdure.spelling import Suggestions

Path = tuple[str | int, ...]
Severity = Literal["error", "warning"]

# A definition that is wrong everywhere is cut here: people read no more, and every problem costs a search for its line.
MAX_PROBLEMS = 1000
# Each suggestion compares a word with every candidate; more of them would cost more than the compile.
_MAX_SUGGESTIONS = 20

CODES: dict[str, str] = {
    # reading
    "syntax": "the text is not well-formed JSON or YAML",
    "not_utf8": "the text is not valid UTF-8, or holds characters no database can store",
    "too_large": "the text, or the number of values, nodes or edges in it, is beyond the limit",
    "too_costly": "checking the definition takes too much work or time",
    "too_deep": "values are nested deeper than the limit",
    "duplicate_key": "a key is given twice in one mapping",
    "number_out_of_range": "a number is NaN, infinite or beyond 64 bits",
    "yaml_feature": "YAML anchors, aliases, merge keys, tags and several documents are not accepted",
    "not_plain_data": "a value given from Python is not JSON data",
    # shape
    "empty_workflow": "there is no node",
    "wrong_type": "a value has the wrong type",
    "wrong_value": "a value is outside its range or its list of choices",
    "unknown_key": "a key is not known here",
    "missing_key": "a key that is needed is absent",
    "misplaced_key": "a key is known but has no meaning at this place",
    "map_in_map": "the item of a map is a map",
    "conflicting_keys": "two keys say different things about the same fact",
    "missing_name": "the workflow has no name",
    "invalid_name": "the name of the workflow cannot be used in addresses and file names",
    "missing_id": "a node has no id",
    "invalid_id": "an id is not an identifier, or is a reserved word",
    "duplicate_id": "two nodes have the same id",
    "invalid_reference": "a content address is not sha256: and 64 hexadecimal digits",
    # graph
    "unknown_node": "a dependency, route, template or condition names a node that does not exist",
    "self_dependency": "a node depends on itself without a loop",
    "cycle": "nodes depend on each other in a circle that is not a loop",
    "no_entry": "no node can start: every node waits for another",
    "no_exit": "no node can end the run: every node leads to another",
    "unreachable": "a node can never be reached from an entry",
    "no_terminal_reachable": "a node leads to no end",
    "impossible_join": "a join asks for more edges than the node has",
    "mixed_join": "inside a loop, an any or at_least join mixes edges from inside and outside the loop",
    # streams
    "no_such_port": "a stream edge names a port that its node does not have",
    "stream_edge_routed": "a stream edge is also chosen by routing",
    "stream_crosses_loop": "a stream edge enters or leaves a loop",
    "stream_join": "a stream edge leads into a join that is not all",
    "reads_open_stream": "a template or condition reads the output of a node that may still stream then",
    "stream_not_built": "a kind of stream that is not run yet",
    # loops
    "loop_without_maximum": "a loop has neither max_iterations nor endless",
    "loop_not_dominated": "a loop goes back to a node that does not lead to it",
    "loops_overlap": "two loops share nodes without one containing the other",
    "loops_too_deep": "loops are nested deeper than the limit",
    "loops_too_complex": "finding the bodies of the loops takes too much work",
    "endless_without_wait": "an endless loop contains nothing that waits",
    "break_and_branch": "a loop has a break_path and its node also has a branch; both are taken",
    # policies
    "transition_denied": "an edge leads where can_emit_to of its node, or a policy, does not allow",
    # templates and conditions
    "bad_template": "a template cannot be parsed",
    "bad_expression": "the expression of a condition cannot be split into words",
    "bad_reference": "a template or condition reads something that does not exist at this place",
    "not_upstream": "a template or condition reads a node that does not come before this one",
    "may_be_skipped": "a template or condition reads a node that may have been skipped, and gives no default",
    "too_many_problems": "there are more problems than are listed",
}


class Problem(msgspec.Struct, frozen=True):
    path: str
    line: int | None
    column: int | None
    code: str
    message: str
    severity: Severity = "error"


class DefinitionError(PerdureError):
    """A definition was refused. `problems` has every reason, each with its place and a way out."""

    code = "invalid_definition"
    status = 422

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [p for p in self.problems if p.severity == "error"]
        first = errors[0].message if errors else "the definition is not valid"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(first + more)


class Found(msgspec.Struct, frozen=True):
    """A problem before its path is turned into text and its line is looked up."""

    path: Path
    code: str
    message: str
    severity: Severity
    line: int | None = None
    column: int | None = None


class Problems:
    """The collector of problems from every stage, so that all are reported at once."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget.without_end()
        """What all stages together may cost."""
        self.found: list[Found] = []
        self.errors = 0
        self.left_out = 0
        self._suggestions = Suggestions()
        self._suggested = 0

    def error(self, code: str, path: Path, message: str, line: int | None = None, column: int | None = None) -> None:
        self.errors += 1
        self._add(Found(path, code, message, "error", line, column))

    def warning(self, code: str, path: Path, message: str) -> None:
        self._add(Found(path, code, message, "warning"))

    def _add(self, found: Found) -> None:
        if len(self.found) < MAX_PROBLEMS:
            self.found.append(found)
        else:
            self.left_out += 1

    @property
    def full(self) -> bool:
        return self.left_out > 0

    def suggest(self, word: str, choices: Collection[str]) -> str:
        """The words `; did you mean 'x'?`, or nothing."""
        self._suggested += 1
        if self._suggested > _MAX_SUGGESTIONS:
            return ""
        close = self._suggestions.find_close(word, choices)
        return f"; did you mean '{close}'?" if close is not None else ""


def format_path(path: Path) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{_quote(part)}]"
    return text


def _quote(text: str) -> str:
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:  # half a character, which is the problem to report
        return json.dumps(text)


def describe(value: object) -> str:
    """A value as a message shows it: short, and never a whole payload."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else repr(value[:57]) + "…"
    if isinstance(value, int | float):
        return repr(value)
    return type(value).__name__
