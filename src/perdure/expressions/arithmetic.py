"""Arithmetic, comparison and text over plain data, with a bound on everything that could grow.

No operator of Python is applied before the types of both sides are known: text times number, `%` on text and powers
without end do not exist here. It raises `Trouble`, which the caller that knows the template turns into a TemplateError.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from perdure.budget import CHARACTERS_A_STEP, Budget
from perdure.expressions.errors import NeedsBlob
from perdure.expressions.namespace import Missing, describe_type
from perdure.kernel.segments import SEALED, BlobRef

_PAY_AT = 10_000  # characters; so that a long text in a list is noticed before the list is walked
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # what JSON encoders and CEL take


SEALED_TROUBLE = "a sensitive field is sealed: it can be passed on whole, or put into a text, and nothing else"


class Trouble(Exception):
    """An expression cannot be computed. `missing` says what did not exist, if that is why."""

    def __init__(self, problem: str, missing: Missing | None = None) -> None:
        super().__init__(problem)
        self.missing = missing


def need(value: Any) -> Any:
    """The value; raises if it is missing or still a blob."""
    if type(value) is Missing:
        raise Trouble(value.explain(), value)
    if type(value) is BlobRef:
        raise NeedsBlob(value.ref, "a value of the expression")
    return value


def is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def check_number(value: Any) -> Any:
    """A computed number; raises Trouble if it cannot be stored."""
    if type(value) is int:
        if _SMALLEST <= value <= _LARGEST:
            return value
        raise Trouble("a number is beyond 64 bits")
    if type(value) is float and math.isfinite(value):
        return value
    raise Trouble("the result is not a finite number")


def measure(value: Any, budget: Budget, *, passed_on: bool = False) -> int:
    """How many characters of JSON a value comes to, paid for; no more is looked at than can be paid.

    With `passed_on` the value goes on as it is, so it may hold references and sealed fields, which are not looked into.
    """
    size = paid = 0
    stack = [value]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is str:
            size += len(value) + 3
        elif kind is list:
            size += 2
            budget.spend(len(value))
            stack.extend(value)
        elif kind is dict:
            if SEALED in value and not passed_on:
                raise Trouble(SEALED_TROUBLE)
            budget.spend(len(value))
            size += 2 + sum(len(key) + 4 if type(key) is str else 8 for key in value)
            stack.extend(value.values())
        elif kind is BlobRef and not passed_on:
            raise NeedsBlob(value.ref, "a part of the value")
        else:
            size += 4
        if size - paid > _PAY_AT:
            budget.make(size - paid)
            paid = size
    budget.make(size - paid)
    return size


def to_json(value: Any, budget: Budget) -> str:
    measure(value, budget)
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, TypeError, ValueError, OverflowError) as error:
        raise Trouble(f"the value cannot be written as JSON: {type(error).__name__}") from None


def to_text(value: Any, budget: Budget) -> str:
    """A value as part of a text."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if value is None:
        return ""
    return to_json(need(value), budget)


def concat(parts: list[str], budget: Budget) -> str:
    budget.make(sum(map(len, parts)))
    return "".join(parts)


def add(left: Any, right: Any, budget: Budget) -> Any:
    if is_number(left) and is_number(right):
        return check_number(left + right)
    if type(left) is str and type(right) is str:
        return concat([left, right], budget)
    if type(left) is list and type(right) is list:
        budget.spend((len(left) + len(right)) // 8)
        return left + right
    raise _refuse("+", left, right, "; '~' joins anything as text")


def calculate(operator: str, left: Any, right: Any) -> Any:
    """The result of - * / // % ** on numbers, and nothing else."""
    if not (is_number(left) and is_number(right)):
        raise _refuse(operator, left, right)
    try:
        match operator:
            case "-":
                value = left - right
            case "*":
                value = left * right
            case "/":
                value = left / right
            case "//":
                value = left // right
            case "%":
                value = left % right
            case _:
                value = _power(left, right)
    except ZeroDivisionError:
        raise Trouble(f"'{operator}' divides by zero") from None
    except OverflowError:
        raise Trouble("the result is not a finite number") from None
    return check_number(value)


def _power(base: Any, exponent: Any) -> Any:
    if type(base) is int and type(exponent) is int and exponent > 64 and abs(base) > 1:
        raise Trouble("a number is beyond 64 bits")
    return base**exponent


def negate(value: Any) -> Any:
    if not is_number(value):
        raise Trouble(f"'-' needs a number, got {describe_type(value)}")
    return check_number(-value)


def is_order(operator: str, left: Any, right: Any) -> bool:
    """The result of < <= > >= between two numbers or two texts."""
    if not ((is_number(left) and is_number(right)) or (type(left) is str and type(right) is str)):
        raise _refuse(operator, left, right)
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def is_equal(left: Any, right: Any, budget: Budget) -> bool:
    _pay_to_compare(left, right, budget)
    return bool(left == right)


def _pay_to_compare(left: Any, right: Any, budget: Budget) -> None:
    """Pay for a comparison: two texts of one length, or two lists or objects, are gone through together."""
    kind = type(left)
    if kind is not type(right):
        return
    if kind is list or kind is dict:
        measure(left, budget)
    elif kind is str and len(left) == len(right):
        budget.read(left)


def is_in(item: Any, container: Any, budget: Budget) -> bool:
    kind = type(container)
    if kind is list:
        budget.read(container)
        if type(item) is str and len(item) >= CHARACTERS_A_STEP:
            budget.spend(len(container) * (len(item) // CHARACTERS_A_STEP))
        elif type(item) is list or type(item) is dict:
            measure(container, budget)
        return item in container
    if kind is str and type(item) is str:
        budget.read(container)
        return item in container
    if kind is dict:
        return type(item) is str and item in container
    raise _refuse("in", item, container)


def slice_of(budget: Budget, value: Any, start: Any, stop: Any, step: Any) -> Any:
    if type(value) is not str and type(value) is not list:
        raise Trouble(f"[:] needs text or a list, got {describe_type(value)}")
    if not all(bound is None or type(bound) is int for bound in (start, stop, step)) or step == 0:
        raise Trouble("[:] needs integers, and a step that is not 0")
    budget.read(value)
    return value[start:stop:step]


def _refuse(operator: str, left: Any, right: Any, hint: str = "") -> Trouble:
    return Trouble(f"'{operator}' cannot be used between {describe_type(left)} and {describe_type(right)}{hint}")
