"""Selecting values by a parsed JSONPath query, with a bound on the work.

The library parses and checks (`jsonpath.py`); here its tree becomes functions that walk the data. The library's own
evaluation cannot be stopped, keeps the place of every value and asks a backtracking engine for patterns. Results and
their order are the same (RFC 9535), which a test checks against the library. Two differences: values are compared
strictly, so `[1]` does not equal `[true]`; and `$` in a filter inside a filter still means the whole document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jsonpath_rfc9535 import filter_expressions as expressions
from jsonpath_rfc9535 import segments, selectors
from jsonpath_rfc9535.query import JSONPathQuery

from perdure.budget import Budget
from perdure.expressions.operators import equal, is_number
from perdure.expressions.patterns import PatternError, compile_pattern

Step = Callable[[list[Any], Any, Budget], list[Any]]
"""A function from the values so far and the root to the next values."""
Selector = Callable[[Any, list[Any], Any, Budget], None]
"""A function that adds what it selects below one value to a list."""
Test = Callable[[Any, Any, Budget], bool]
"""A function that says whether a filter keeps a value."""
Operand = Callable[[Any, Any, Budget], Any]
"""One side of a comparison, as a function: a value or NOTHING."""


class _Nothing:
    __slots__ = ()


NOTHING = _Nothing()


class Unsupported(Exception):
    """A query goes beyond what is accepted here. The text of the error is for people."""


def build(query: JSONPathQuery) -> Callable[[Any, Any, Budget], list[Any]]:
    """The query as a function of the value it starts at and the root."""
    steps = [_step(segment) for segment in query.segments]

    def select(value: Any, root: Any, budget: Budget) -> list[Any]:
        values = [value]
        for step in steps:
            values = step(values, root, budget)
            if not values:
                break
        return values

    return select


def _step(segment: segments.JSONPathSegment) -> Step:
    chosen = [_selector(selector) for selector in segment.selectors]
    only = chosen[0] if len(chosen) == 1 else None

    def children(values: list[Any], root: Any, budget: Budget) -> list[Any]:
        found: list[Any] = []
        for value in values:
            budget.spend(1)
            if only is not None:
                only(value, found, root, budget)
            else:
                for select in chosen:
                    select(value, found, root, budget)
        return found

    def descendants(values: list[Any], root: Any, budget: Budget) -> list[Any]:
        found: list[Any] = []
        stack = values[::-1]
        while stack:
            value = stack.pop()
            budget.spend(1)
            for select in chosen:
                select(value, found, root, budget)
            kind = type(value)
            if kind is dict or kind is list:
                inner = value.values() if kind is dict else value
                stack += [one for one in reversed(list(inner)) if type(one) is dict or type(one) is list]
                budget.spend(len(value))
        return found

    return descendants if isinstance(segment, segments.JSONPathRecursiveDescentSegment) else children


def _selector(selector: selectors.JSONPathSelector) -> Selector:
    match selector:
        case selectors.NameSelector():
            return _by_name(selector.name)
        case selectors.IndexSelector():
            return _by_index(selector.index)
        case selectors.SliceSelector():
            return _by_slice(selector.slice)
        case selectors.WildcardSelector():
            return _every
        case selectors.FilterSelector():
            return _by_filter(_test(selector.expression.expression))
        case _:
            raise Unsupported(f"{type(selector).__name__} is not accepted")


def _by_name(name: str) -> Selector:
    def select(value: Any, found: list[Any], root: Any, budget: Budget) -> None:
        if type(value) is dict and name in value:
            found.append(value[name])

    return select


def _by_index(index: int) -> Selector:
    def select(value: Any, found: list[Any], root: Any, budget: Budget) -> None:
        if type(value) is list and -len(value) <= index < len(value):
            found.append(value[index])

    return select


def _by_slice(part: slice) -> Selector:
    def select(value: Any, found: list[Any], root: Any, budget: Budget) -> None:
        if type(value) is list and part.step != 0:
            chosen = value[part]
            budget.spend(len(chosen))
            found += chosen

    return select


def _every(value: Any, found: list[Any], root: Any, budget: Budget) -> None:
    kind = type(value)
    if kind is dict or kind is list:
        budget.spend(len(value))
        found.extend(value.values() if kind is dict else value)


def _by_filter(test: Test) -> Selector:
    def select(value: Any, found: list[Any], root: Any, budget: Budget) -> None:
        kind = type(value)
        if kind is dict or kind is list:
            for one in value.values() if kind is dict else value:
                budget.spend(1)
                if test(one, root, budget):
                    found.append(one)

    return select


# -- filters -----------------------------------------------------------------------------------------------------------


def _test(expression: expressions.Expression) -> Test:
    match expression:
        case expressions.LogicalExpression():
            return _logical(expression.operator, _test(expression.left), _test(expression.right))
        case expressions.PrefixExpression():
            inner = _test(expression.right)
            return lambda current, root, budget: not inner(current, root, budget)
        case expressions.ComparisonExpression():
            return _comparison(expression.operator, _operand(expression.left), _operand(expression.right))
        case expressions.FilterQuery():
            nodes = _nodes(expression)
            return lambda current, root, budget: bool(nodes(current, root, budget))
        case expressions.FunctionExtension() if expression.name in ("match", "search"):
            return _pattern(expression)
        case _:
            raise Unsupported(f"{expression} cannot be a test by itself")


def _logical(operator: str, left: Test, right: Test) -> Test:
    if operator == "&&":
        return lambda current, root, budget: left(current, root, budget) and right(current, root, budget)
    return lambda current, root, budget: left(current, root, budget) or right(current, root, budget)


def _comparison(operator: str, left: Operand, right: Operand) -> Test:
    compare = _COMPARE[operator]

    def test(current: Any, root: Any, budget: Budget) -> bool:
        budget.spend(1)
        return compare(left(current, root, budget), right(current, root, budget), budget)

    return test


def _equals(left: Any, right: Any, budget: Budget) -> bool:
    if left is NOTHING or right is NOTHING:
        return left is right
    return equal(left, right, budget)


def _less(left: Any, right: Any, budget: Budget) -> bool:
    if (type(left) is str and type(right) is str) or (is_number(left) and is_number(right)):
        return bool(left < right)
    return False


_COMPARE: dict[str, Callable[[Any, Any, Budget], bool]] = {
    "==": _equals,
    "!=": lambda left, right, budget: not _equals(left, right, budget),
    "<": _less,
    ">": lambda left, right, budget: _less(right, left, budget),
    "<=": lambda left, right, budget: _less(left, right, budget) or _equals(left, right, budget),
    ">=": lambda left, right, budget: _less(right, left, budget) or _equals(left, right, budget),
}


def _nodes(expression: expressions.FilterQuery) -> Callable[[Any, Any, Budget], list[Any]]:
    select = build(expression.query)
    if isinstance(expression, expressions.RootFilterQuery):
        return lambda current, root, budget: select(root, root, budget)
    return select  # inside its own filters too `$` means the whole document


def _operand(expression: expressions.Expression) -> Operand:
    match expression:
        case expressions.FilterExpressionLiteral():
            value = expression.value
            return lambda current, root, budget: value
        case expressions.FilterQuery():
            return _single(_nodes(expression))
        case expressions.FunctionExtension():
            return _function(expression)
        case _:
            raise Unsupported(f"{expression} cannot be compared")


def _single(nodes: Callable[[Any, Any, Budget], list[Any]]) -> Operand:
    def operand(current: Any, root: Any, budget: Budget) -> Any:
        found = nodes(current, root, budget)
        return found[0] if len(found) == 1 else NOTHING

    return operand


def _function(expression: expressions.FunctionExtension) -> Operand:
    argument = expression.args[0]
    match expression.name:
        case "length":
            of = _operand(argument)

            def length(current: Any, root: Any, budget: Budget) -> Any:
                value = of(current, root, budget)
                return len(value) if type(value) in (str, list, dict) else NOTHING

            return length
        case "count":
            nodes = _nodes(_query(argument))
            return lambda current, root, budget: len(nodes(current, root, budget))
        case "value":
            return _single(_nodes(_query(argument)))
        case _:
            raise Unsupported(f"{expression.name}() gives no value")


def _query(expression: expressions.Expression) -> expressions.FilterQuery:
    if not isinstance(expression, expressions.FilterQuery):
        raise Unsupported("a function of nodes needs a query, such as count(@.items[*])")
    return expression


def _pattern(expression: expressions.FunctionExtension) -> Test:
    text, pattern = expression.args
    if not isinstance(pattern, expressions.StringLiteral):
        raise Unsupported(f"{expression.name}() takes its pattern in quotes; data never becomes a pattern")
    try:
        compiled = compile_pattern(pattern.value)
    except PatternError as error:
        raise Unsupported(str(error)) from None
    of = _operand(text)
    whole = expression.name == "match"

    def test(current: Any, root: Any, budget: Budget) -> bool:
        value = of(current, root, budget)
        if type(value) is not str:
            return False
        budget.spend(1 + compiled.steps_over(value))
        return compiled.is_all_of(value) if whole else compiled.is_found_in(value)

    return test
