"""JSONPath conditions: RFC 9535 by jsonpath-rfc9535, which parses, and the operators over what a query selects.

`.length()` at the end of a query is not JSONPath, but the reference documents write it: the length of the one value
that a singular query names, or the number of values that any other selects. `selection.py` walks the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from perdure.budget import Budget, OverBudget
from perdure.expressions.compiled_texts import kept
from perdure.expressions.operators import COMPARISONS, Incomparable, compare, equal, is_number
from perdure.expressions.patterns import PatternError, compile_pattern
from perdure.plain_text import cut

MAX_QUERY = 2000
MAX_BRACKETS = 32
MAX_SELECTED = 20_000
_MAX_DESCENTS = 1

_LENGTH = re.compile(r"\.length\(\)\s*\Z")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_NUMERIC = ("count_gt", "count_lt", "sum_gt", "sum_lt")


class JsonPathError(Exception):
    """A query cannot be compiled or evaluated. The text of the error is for people."""


class Query:
    """A compiled query."""

    __slots__ = ("_select", "is_length", "is_singular", "prefix", "text")

    def __init__(
        self,
        text: str,
        select: Callable[[Any, Any, Budget], list[Any]],
        *,
        is_singular: bool,
        is_length: bool,
        prefix: tuple[str | int, ...],
    ) -> None:
        self.text = text
        self._select = select
        self.is_singular = is_singular
        self.is_length = is_length
        self.prefix = prefix
        """The names and indexes before anything that can select more than one value."""

    def select(self, value: Any, budget: Budget | None = None) -> list[Any]:
        try:
            found = self._select(value, value, budget or Budget())
        except (Incomparable, OverBudget, PatternError) as error:
            raise JsonPathError(str(error)) from None
        except RecursionError:
            raise JsonPathError("its filters are nested too deep") from None
        if len(found) > MAX_SELECTED:
            raise JsonPathError(f"it selects {len(found):,} values, {MAX_SELECTED:,} are allowed")
        return found


def compile_query(text: str) -> Query:
    """The compiled query. Raises JsonPathError."""
    try:
        return _compile(text)
    except UnicodeError:
        raise JsonPathError("the query holds characters that are not valid Unicode") from None


@kept(characters=1_000_000)
def _compile(text: str) -> Query:
    from jsonpath_rfc9535.exceptions import JSONPathError

    from perdure.expressions.selection import Unsupported, build

    text.encode()  # refuses lone surrogates
    _check_size(text)
    path = _LENGTH.sub("", text)
    try:
        query = _environment().compile(path)
        select = build(query)
    except Unsupported as error:
        raise JsonPathError(str(error)) from None
    except JSONPathError as error:
        raise JsonPathError(_complaint(error)) from None
    except (RecursionError, ValueError, OverflowError):
        raise JsonPathError("it is not valid") from None
    return Query(
        text,
        select,
        is_singular=query.singular_query(),
        is_length=path != text,
        prefix=_find_prefix(query),
    )


def _check_size(text: str) -> None:
    if len(text) > MAX_QUERY:
        raise JsonPathError(f"it has {len(text):,} characters, {MAX_QUERY:,} are allowed")
    bare = _QUOTED.sub("''", text)
    depth = deepest = 0
    for char in bare:
        if char in "([":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]":
            depth -= 1
    if deepest > MAX_BRACKETS:
        raise JsonPathError(f"brackets are nested more than {MAX_BRACKETS} deep")
    if bare.count("..") > _MAX_DESCENTS:
        raise JsonPathError("'..' is used more than once; name the steps in between")


@cache
def _environment() -> Any:
    from jsonpath_rfc9535 import JSONPathEnvironment

    return JSONPathEnvironment()


def _find_prefix(query: Any) -> tuple[str | int, ...]:
    from jsonpath_rfc9535.segments import JSONPathChildSegment
    from jsonpath_rfc9535.selectors import IndexSelector, NameSelector

    prefix: list[str | int] = []
    for segment in query.segments:
        selector = segment.selectors[0] if len(segment.selectors) == 1 else None
        if not isinstance(segment, JSONPathChildSegment):
            break
        if isinstance(selector, NameSelector):
            prefix.append(selector.name)
        elif isinstance(selector, IndexSelector):
            prefix.append(selector.index)
        else:
            break
    return tuple(prefix)


def _complaint(error: Any) -> str:
    message = str(error).partition("\n")[0][:200]
    return message or "it is not valid"


# -- conditions --------------------------------------------------------------------------------------------------------


def check(spec: dict[str, Any]) -> str | None:
    """What is wrong with the condition, found without data."""
    try:
        query = compile_query(spec["query"])
    except JsonPathError as error:
        return f"query {_cut(spec['query'])!r}: {error}"
    mistake = _find_mistake(query, spec["operator"], spec.get("value"))
    if mistake is None and spec["operator"] == "matches":
        try:
            compile_pattern(spec["value"])
        except PatternError as error:
            return str(error)
    return mistake


def _find_mistake(query: Query, operator: str, value: Any) -> str | None:
    """Why an operator has no meaning with this value, whatever the data; None if it has one."""
    if operator in _NUMERIC and not is_number(value):
        return f"operator {operator} compares with a number"
    if operator in ("in", "not_in") and type(value) not in (list, str, dict):
        return f"operator {operator} looks into a list (or a text), which `value` must be"
    if operator == "exists" and type(value) not in (bool, type(None)):
        return "operator exists takes no `value`, or true or false"
    if operator == "matches" and type(value) is not str:
        return "operator matches takes a pattern as `value`"
    if query.is_length and operator not in COMPARISONS:
        return f"operator {operator} cannot be used on a length; use == != > >= < <="
    if query.is_length and operator in (">", ">=", "<", "<=") and not is_number(value):
        return f"operator {operator} compares a length with a number"
    return None


class Outcome:
    """The result of a condition, and what it looked at."""

    __slots__ = ("is_true", "seen")

    def __init__(self, is_true: bool, seen: Any) -> None:
        self.is_true = is_true
        self.seen = seen


def evaluate(spec: dict[str, Any], value: Any, budget: Budget | None = None) -> Outcome:
    """Evaluate a condition. Raises JsonPathError where it has no answer."""
    query = compile_query(spec["query"])
    operator, expected = spec["operator"], spec.get("value")
    mistake = _find_mistake(query, operator, expected)
    if mistake is not None:
        raise JsonPathError(mistake)
    budget = budget or Budget()
    found = query.select(value, budget)
    try:
        if query.is_length:
            length = _measure(query, found)
            return Outcome(compare(operator, length, expected, budget), length)
        if operator == "exists":
            return Outcome(bool(found) is not (expected is False), len(found))
        if operator in COMPARISONS:
            if operator == "contains" and not query.is_singular:
                return Outcome(compare(operator, found, expected, budget), found)
            single = _only(query, found)
            return Outcome(compare(operator, single, expected, budget), single)
        values = _values(query, found)
        if operator in ("any", "all"):
            return Outcome(_decide(operator, values, spec, budget), values)
        return _aggregate(operator, values, expected)
    except (Incomparable, OverBudget) as error:
        raise JsonPathError(str(error)) from None


def _aggregate(operator: str, values: list[Any], expected: Any) -> Outcome:
    match operator:
        case "count_gt":
            return Outcome(len(values) > expected, len(values))
        case "count_lt":
            return Outcome(len(values) < expected, len(values))
        case "sum_gt" | "sum_lt":
            total = _add(values)
            return Outcome(total > expected if operator == "sum_gt" else total < expected, total)
        case _:
            raise ValueError(f"no operator {operator!r}")


def _only(query: Query, found: list[Any]) -> Any:
    if len(found) == 1:
        return found[0]
    if not found:
        raise JsonPathError("it selects nothing; ask `exists` first where that may be")
    raise JsonPathError(f"it selects {len(found):,} values; use any, all, contains, count_… or sum_…")


def _measure(query: Query, found: list[Any]) -> int:
    if not query.is_singular:
        return len(found)
    value = _only(query, found)
    if type(value) not in (str, list, dict):
        raise JsonPathError("what it selects has no length")
    return len(value)


def _values(query: Query, found: list[Any]) -> list[Any]:
    """The values that the operators over many look at: for a singular query, the elements of its list."""
    if not query.is_singular:
        return found
    value = _only(query, found)
    if type(value) is not list:
        raise JsonPathError("it selects one value that is no list; select several, as in $.items[*]")
    return value


def _add(values: list[Any]) -> float:
    for value in values:
        if not is_number(value):
            raise JsonPathError("it selects something that is no number, so there is no sum")
    try:
        total = math.fsum(values)
    except OverflowError:
        raise JsonPathError("the sum is too large for a number") from None
    return total


def _decide(operator: str, values: list[Any], spec: dict[str, Any], budget: Budget) -> bool:
    """Whether any, or all, of the values are true, or equal to `value` where it is given."""
    if "value" in spec:
        budget.read(values)
        held = [equal(value, spec["value"], budget) for value in values]
    else:
        held = [value for value in values if type(value) is bool]
    decided = operator == "any"
    if decided in held:
        return decided
    if len(held) < len(values):
        raise JsonPathError("any and all without a `value` need true or false; give a `value` to compare with")
    return not decided


def _cut(text: str) -> str:
    return cut(text, 200)
