"""Cross-node comparisons: two operands and an operator, or one expression over `current` and `ctx`.

Numbers are doubles in both forms (rule 24), so that `(current.output.n - ctx.a.output.n) / ctx.a.output.n > 0.1` means
what it says. An expression is CEL; for CEL to take it so, its data and its number literals are made doubles first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from perdure.expressions.compiled_texts import kept
from perdure.expressions.cost import SKIPPED

_LITERAL = re.compile(
    rf"""
    (?P<skip> {SKIPPED} | (?:\.\s*+)?[A-Za-z_]\w*+ )
  | (?P<index> \[\s*+\d++\s*+\] )
  | (?P<number> (?:0[xX][0-9a-fA-F]++ | \d++(?:\.\d++)?(?:[eE][-+]?\d++)? | \.\d++(?:[eE][-+]?\d++)? )[uU]?+ )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class TooBig(Exception):
    """A number is too large for a double."""


@kept(characters=1_000_000)
def with_doubles(expression: str) -> str:
    """The expression with every number in it made a double that may meet any other number. Indexes and text stay.

    `dyn(…)` keeps the checker from refusing `size(x) > 3`, where one side is an int.
    """
    return _LITERAL.sub(_replace, expression)


def _replace(match: re.Match[str]) -> str:
    word = match[0]
    if match.lastgroup == "index":
        before = match.string[: match.start()].rstrip()
        if before and (before[-1].isalnum() or before[-1] in "_)]"):
            return word
        return f"[dyn({_double(word[1:-1].strip())})]"  # a list of one number
    if match.lastgroup != "number" or word[-1] in "uU":
        return word
    if match.string[: match.start()].rstrip().endswith("%"):
        return word  # a remainder needs whole numbers: int(x) % 2
    return f"dyn({_double(word)})"


def _double(word: str) -> str:
    if word[:2] in ("0x", "0X"):
        return f"{int(word, 16)}.0" if len(word) <= 18 else word  # more than 64 bits is for CEL to refuse
    if word[0] == ".":
        return f"0{word}"
    return word if "." in word or "e" in word or "E" in word else f"{word}.0"


def doubled(value: Any) -> Any:
    """A copy of the value in which every number is a double. Raises TooBig."""
    kind = type(value)
    if kind is int:
        try:
            return float(value)
        except OverflowError:
            raise TooBig("a number is beyond what a double can hold") from None
    if kind is dict:
        return {key: doubled(item) for key, item in value.items()}
    if kind is list:
        return [doubled(item) for item in value]
    return value


def narrowed(value: Any, paths: Iterable[tuple[str | int, ...]]) -> Any:
    """A copy of the value with only what these paths lead to: what is not read need not be converted."""
    keep: dict[Any, Any] = {}
    for path in paths:
        branch = keep
        for part in path:
            branch = branch.setdefault(part, {})
        branch[None] = {}  # everything from here on
    return _narrow(value, keep)


def _narrow(value: Any, keep: dict[Any, Any]) -> Any:
    if type(value) is not dict or None in keep:
        return value
    return {key: _narrow(value[key], inner) for key, inner in keep.items() if key in value}
