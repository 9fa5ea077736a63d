"""CEL, through cel-expr-python; the only file that knows the library.

It contains the library's traps: evaluation does not raise but gives a value of type ERROR whose text is true; `loop` is
a reserved word of CEL, so it goes by another name inside; data nested deeper than the C++ stack kills the process; text
with lone surrogates breaks the binding; an evaluation cannot be interrupted. Expressions are capped before the parser
sees them, and their work is estimated before they run (`cost.py`).
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.budget import Budget
from perdure.expressions.compiled_texts import kept
from perdure.expressions.cost import MAX_STEPS, WORD, Shape
from perdure.spelling import find_close

MAX_LENGTH = 20_000
MAX_DEPTH = 32
"""How deep brackets may be nested. The library's own limit is the same; this one has the better message and costs
nothing."""
MAX_DATA_DEPTH = 100
"""How deep data may be nested: the binding recurses about 2 kB of stack a level, in threads that may have 256 kB."""
MAX_MESSAGE = 500
_EACH = 40  # steps that every evaluation takes

VARIABLES = ("output", "ctx", "inputs", "run", "loop", "current")
"""What a condition of a run reads. A filter of a trigger reads other names, and says which."""

_LOOP = "_lp_"  # as long as `loop`, so that columns in messages stay right
_CHARACTERS = 1_000_000
"""What the programs that are kept were compiled from."""

_SPELLED = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "is": "==",
    "None": "null",
    "True": "true",
    "False": "false",
    "len": "size",
}
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")
_UNDECLARED = re.compile(r"undeclared reference to '(\w+)")
_COMPLAINT = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")


class CelError(Exception):
    """An expression cannot be compiled or evaluated. The text of the error is for people."""


def check(expression: str, names: tuple[str, ...] = VARIABLES) -> str | None:
    """What is wrong with an expression, found without running it; None if it can be used as a condition."""
    try:
        _compile(expression, names)
    except CelError as error:
        return str(error)
    return None


def evaluate(
    expression: str,
    variables: Mapping[str, Any],
    budget: Budget | None = None,
    names: tuple[str, ...] = VARIABLES,
) -> bool:
    """Whether the condition holds. Other results and errors raise CelError; a condition too costly, OverBudget."""
    program, shape = _compile(expression, names)
    budget = budget or Budget()
    budget.spend(_EACH + sum(_check_depth(name, value) for name, value in variables.items()))
    steps = shape.estimate(variables)
    if steps > MAX_STEPS:
        raise CelError(
            "the condition could take too long over this data; use shorter lists or texts, or fewer loops inside loops"
        )
    budget.spend(steps // 8)
    data = dict(variables)
    if "loop" in data:
        data[_LOOP] = data.pop("loop")
    try:
        result = program.eval(data=data)
        value = result.value()
    except (RuntimeError, TypeError, ValueError, UnicodeError) as error:
        if "Iteration budget exceeded" in str(error):
            raise CelError("the condition takes more than 10,000 iterations") from None
        raise CelError(f"the data cannot be given to CEL: {_plain(str(error))}") from None
    if value is True or value is False:
        return value
    kind = result.type().name()
    if kind == "ERROR":
        raise CelError(_plain(str(value)))
    raise CelError(f"the result is of type {kind.lower()}, not bool")


def _compile(expression: str, names: tuple[str, ...]) -> tuple[Any, Shape]:
    try:
        return _compile_cached(expression, " ".join(names))
    except UnicodeError:
        raise CelError("the expression holds characters that are not valid Unicode") from None


@kept(characters=_CHARACTERS)
def _compile_cached(expression: str, names: str) -> tuple[Any, Shape]:
    source = _prepare(expression)
    try:
        program = _environment(names).compile(source)
        kind = program.return_type().name()
    except (RuntimeError, TypeError, ValueError) as error:
        raise CelError(_complaint(str(error), expression, names.split())) from None
    if kind not in ("BOOL", "DYN"):
        raise CelError(f"the expression gives {kind.lower()}, not bool")
    return program, Shape(expression)


@functools.cache
def _environment(names: str) -> Any:
    try:
        cel: Any = importlib.import_module("cel_expr_python.cel")
    except ImportError as error:
        raise CelError(
            f"CEL is not available on this platform ({error}); cel-expr-python has wheels for Linux (glibc), macOS and "
            "Windows on x86-64, and for Linux and macOS on arm64"
        ) from None
    inside = [_LOOP if name == "loop" else name for name in names.split()]
    return cel.NewEnv(variables=dict.fromkeys(inside, cel.Type.DYN))


def _prepare(expression: str) -> str:
    """The expression as the library gets it. Raises CelError if it is too long or too deep."""
    if len(expression) > MAX_LENGTH:
        raise CelError(f"the expression is longer than {MAX_LENGTH:,} characters")
    expression.encode()  # refuses lone surrogates
    depth = 0
    words: list[str] = []
    position = 0
    for match in WORD.finditer(expression):
        if match.lastgroup == "open":
            depth += 1
            if depth > MAX_DEPTH:
                raise CelError(f"brackets are nested more than {MAX_DEPTH} deep")
        elif match.lastgroup == "close":
            depth -= 1
        elif match.lastgroup == "name":
            if match[0] == "loop":
                words += [expression[position : match.start()], _LOOP]
                position = match.end()
            elif match[0] == _LOOP:
                raise CelError(f"undeclared reference to '{_LOOP}'")
    words.append(expression[position:])
    return "".join(words)


def _check_depth(name: str, value: Any) -> int:
    """Check how deep a value is nested; returns how many values it holds, each of which is converted."""
    level = [value] if type(value) is dict or type(value) is list else []
    depth = count = 0
    while level:
        depth += 1
        if depth > MAX_DATA_DEPTH:
            raise CelError(f"{name} is nested more than {MAX_DATA_DEPTH} deep")
        count += sum(map(len, level))
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]
    return count


def _complaint(text: str, expression: str, names: Sequence[str]) -> str:
    found = [f"{message} (line {line}, column {column})" for line, column, message in _COMPLAINT.findall(text)]
    if found and (way_out := _suggest_way_out(found[0], expression, names)):
        return f"{_plain(found[0])}; {way_out}"
    return _plain("; ".join(found[:3]) or text)


def _suggest_way_out(complaint: str, expression: str, names: Sequence[str]) -> str:
    """What to write instead, for words of other languages: most people know conditions from Python, and templates from here."""
    if expression.lstrip().startswith("{{"):
        return "a condition is an expression and no template: leave the braces out"
    used = {match[0] for match in WORD.finditer(expression) if match.lastgroup == "name"}
    found = [f"write {right} for {wrong}" for wrong, right in _SPELLED.items() if wrong in used]
    plain = WORD.sub(lambda match: "" if match.lastgroup == "skip" else match[0], expression)
    if not found and _ASSIGNS.search(plain):
        found = ["write == to compare"]
    if not found and (name := _UNDECLARED.search(complaint)) is not None:
        close = find_close(name[1], names)
        found = [f"did you mean '{close}'?"] if close is not None else []
    return ", ".join(found)


def _say_unfit(found: re.Match[str]) -> str:
    """An operation and the types that it was given, as the library names them: `_>_(string, int64)`, `(int64).size()`."""
    before, name, after = found["before"], found["name"].replace("_", "").removeprefix("@"), found["after"]
    if name == "<jumpcondition>":
        return "what stands before '?' is no bool"
    types = [kind.strip().removesuffix("64") for part in (before, after) for kind in (part or "").split(",")]
    given = " and ".join(kind for kind in types if kind)
    return f"'{name}' cannot be used with {given or 'what it is given here'}"


_OPERATION = r"(?:\((?P<before>[^()]*)\)\.)?(?P<name>[^\s(']+)"
_WORDS: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(rf"No matching overloads found : {_OPERATION}(?:\((?P<after>[^()]*)\))?"), _say_unfit),
    (
        re.compile(
            r"found no matching overload for '(?P<before>)(?P<name>[^']+)' applied to '\(?(?P<after>[^')]*)\)?'"
        ),
        _say_unfit,
    ),
    (re.compile(r'Key not found in map : "?([^"]*)"?'), r"there is no key '\1'"),
    (re.compile(r"Index error: index=(-?\d+) size=(\d+)"), r"there is no item \1 in a list of \2"),
    (re.compile(r"mismatched input '<EOF>' expecting"), "it ends too early, expecting"),
    (re.compile(r"missing ('.+?') at '<EOF>'"), r"it ends too early, \1 is missing"),
    (
        re.compile(r"token recognition error at: |no viable alternative at input |(?:mismatched|extraneous) input "),
        "unexpected ",
    ),
    (re.compile(r" \[INVALID_ARGUMENT\]"), ""),
)
"""What the library says, in the words of this product."""


def _plain(text: str) -> str:
    text = text.replace(_LOOP, "loop").replace(" (in container '')", "")
    text = re.sub(r"^[A-Z_]+: ", "", text)
    text = re.sub(r"expecting \{.*?IDENTIFIER\}", "expecting a value", text)
    text = text.replace("Applying SELECT to non-message type", "a field is read of something that is no object")
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
