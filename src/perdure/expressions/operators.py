"""Comparisons between JSON values, as conditions and pipelines make them.

A bool is no number, a number equals a number of another kind, and values of different types are unequal. Values that
cannot be compared raise `Incomparable`: the answer is never just false.
"""

from __future__ import annotations

from typing import Any

from perdure.budget import Budget
from perdure.expressions.namespace import describe_type
from perdure.expressions.patterns import PatternError, compile_pattern

COMPARISONS = ("==", "!=", ">", ">=", "<", "<=", "in", "not_in", "contains", "matches")


class Incomparable(Exception):
    """The operator has no meaning between these values."""


def is_number(value: Any) -> bool:
    kind = type(value)
    return kind is int or kind is float


def equal(left: Any, right: Any, budget: Budget | None = None) -> bool:
    kind, other = type(left), type(right)
    if kind is other and kind is not dict and kind is not list:
        return bool(left == right)
    if kind is dict or kind is list:
        return kind is other and _equal_deep(left, right, budget or Budget())
    return is_number(left) and is_number(right) and bool(left == right)


def _equal_deep(left: Any, right: Any, budget: Budget) -> bool:
    """Compare without recursion, so that depth does no harm, and within the budget."""
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        budget.spend(1)
        kind = type(left)
        if kind is dict and type(right) is dict:
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[key]) for key, value in left.items()]
        elif kind is list and type(right) is list:
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif kind is dict or kind is list or not equal(left, right):
            return False
    return True


def compare(operator: str, left: Any, right: Any, budget: Budget | None = None) -> bool:
    """The answer of one of COMPARISONS. Raises Incomparable and OverBudget."""
    budget = budget or Budget()
    match operator:
        case "==":
            return equal(left, right, budget)
        case "!=":
            return not equal(left, right, budget)
        case "in":
            return _contains(right, left, operator, budget)
        case "not_in":
            return not _contains(right, left, operator, budget)
        case "contains":
            return _contains(left, right, operator, budget)
        case "matches":
            return _matches(left, right, budget)
        case _:
            return _is_ordered(operator, left, right)


def _is_ordered(operator: str, left: Any, right: Any) -> bool:
    if not ((is_number(left) and is_number(right)) or (type(left) is str and type(right) is str)):
        raise _refuse(operator, left, right, "; it orders two numbers or two texts")
    match operator:
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case _:
            raise ValueError(f"no operator {operator!r}")


def _contains(container: Any, item: Any, operator: str, budget: Budget) -> bool:
    kind = type(container)
    if kind is list:
        budget.read(container)
        return any(equal(item, one, budget) for one in container)
    if type(item) is str and (kind is str or kind is dict):
        if kind is str:
            budget.read(container)
        return item in container
    left, right = (container, item) if operator == "contains" else (item, container)
    raise _refuse(operator, left, right, "; it looks into a list, a text or the keys of an object")


def _matches(text: Any, pattern: Any, budget: Budget) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise _refuse("matches", text, pattern, "; it searches a text for a pattern")
    try:
        compiled = compile_pattern(pattern)
        budget.spend(compiled.steps_over(text))
        return compiled.is_found_in(text)
    except PatternError as error:
        raise Incomparable(str(error)) from None


def _refuse(operator: str, left: Any, right: Any, why: str) -> Incomparable:
    return Incomparable(f"'{operator}' cannot be used between {describe_type(left)} and {describe_type(right)}{why}")
