"""The filters and tests of expressions: the whole list. Each takes and gives plain data, and pays for what it looks at.

They are named and used as Jinja's, with two differences: text that is no number is an error for `int` and `float`
unless a default is given, and `tojson` is plain JSON, not escaped for HTML.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.budget import CHARACTERS_A_STEP, Budget
from perdure.expressions.arithmetic import (
    Trouble,
    add,
    check_number,
    concat,
    is_equal,
    is_in,
    is_number,
    is_order,
    measure,
    need,
    to_json,
    to_text,
)
from perdure.expressions.namespace import Missing, describe_type, get_item

_UNSET: Any = object()
_SORTING = 4  # steps to put one item in its place


def _text(value: Any, what: str) -> str:
    if type(value) is not str:
        raise Trouble(f"{what} needs text, got {describe_type(value)}; '| string' makes text of anything")
    return value


def _sequence(budget: Budget, value: Any, what: str) -> list[Any]:
    if type(value) is list:
        budget.read(value)
        return value
    if type(value) is dict or type(value) is str:
        budget.spend(len(value))
        return list(value)
    raise Trouble(f"{what} needs a list, got {describe_type(value)}")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise Trouble(f"{what} needs an object, got {describe_type(value)}")
    return value


def _parts(budget: Budget, items: list[Any], attribute: Any) -> list[Any]:
    """The items; if an attribute is named, that field of every item."""
    if attribute is None:
        return items
    budget.read(attribute)
    steps = attribute.split(".") if type(attribute) is str else [attribute]
    budget.spend(2 * len(items) * len(steps))
    found = []
    for item in items:
        for step in steps:
            item = get_item(item, int(step) if type(step) is str and step.isdecimal() else step, "item", (step,))
        found.append(need(item))
    return found


def _default(budget: Budget, value: Any, default: Any = "", boolean: Any = False) -> Any:
    return default if type(value) is Missing or value is None or (boolean and not value) else value


def _length(budget: Budget, value: Any) -> int:
    if type(value) in (str, list, dict):
        return len(value)
    raise Trouble(f"length needs text, a list or an object, got {describe_type(value)}")


def _join(budget: Budget, value: Any, separator: Any = "", attribute: Any = None) -> str:
    between = _text(separator, "join")
    if type(value) is str and attribute is None:  # joins the characters of a text, of which there may be millions
        budget.make(len(value) * (1 + len(between)))
        return between.join(value)
    items = _parts(budget, _sequence(budget, value, "join"), attribute)
    texts = [to_text(item, budget) for item in items]
    budget.make(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _trim(budget: Budget, value: Any, characters: Any = None) -> str:
    text = _text(value, "trim")
    if characters is None:
        return text.strip()
    # Each character at an end is compared with all those to be taken away.
    budget.spend(len(text) * (1 + len(_text(characters, "trim"))) // 64)
    return text.strip(characters)


def _replace(budget: Budget, value: Any, old: Any, new: Any, count: Any = -1) -> str:
    text, old, new = _text(value, "replace"), _text(old, "replace"), _text(new, "replace")
    if type(count) is not int:
        raise Trouble("replace needs an integer as its count")
    count = max(count, -1)
    found = text.count(old) if count < 0 else min(count, text.count(old))
    budget.make(len(text) + found * len(new))
    budget.spend(found // 8)
    return text.replace(old, new, count)


def _round(budget: Budget, value: Any, precision: Any = 0, method: Any = "common") -> Any:
    if not is_number(value) or type(precision) is not int or not -15 <= precision <= 15:
        raise Trouble("round needs a number, and a precision between -15 and 15")
    if method == "common":
        return check_number(float(round(value, precision)))
    if method not in ("ceil", "floor"):
        raise Trouble("round knows the methods common, ceil and floor")
    factor = 10.0**precision
    return check_number(float((math.ceil if method == "ceil" else math.floor)(value * factor)) / factor)


def _number(kind: type[int] | type[float]) -> Callable[..., Any]:
    def convert(budget: Budget, value: Any, default: Any = _UNSET) -> Any:
        try:
            if type(value) is str and len(value) <= 400:
                number = kind(value) if kind is float else int(value, 10) if "." not in value else int(float(value))
                return check_number(number)
            if type(value) in (int, float, bool):
                return check_number(kind(value))
        except (ValueError, OverflowError, Trouble):
            pass
        if default is not _UNSET:
            return default
        raise Trouble(
            f"{kind.__name__} got {describe_type(value)} that is no such number; give a default, as in int(0)"
        )

    return convert


def _abs(budget: Budget, value: Any) -> Any:
    if not is_number(value):
        raise Trouble(f"abs needs a number, got {describe_type(value)}")
    return check_number(abs(value))


def _sort_keys(budget: Budget, items: list[Any], what: str) -> list[Any]:
    budget.spend(_SORTING * len(items))
    if all(map(is_number, items)) or all(type(item) is str for item in items):
        if items and type(items[0]) is str:  # texts that begin alike are compared up to where they differ
            budget.spend(len(items).bit_length() * sum(map(len, items)) // CHARACTERS_A_STEP)
        return items
    raise Trouble(f"{what} needs all numbers or all text; name a field with attribute='…'")


def _sort(budget: Budget, value: Any, reverse: Any = False, attribute: Any = None) -> list[Any]:
    items = _sequence(budget, value, "sort")
    keys = _sort_keys(budget, _parts(budget, items, attribute), "sort")
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))
    return [items[index] for index in order]


def _extreme(name: str, pick: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(budget: Budget, value: Any, attribute: Any = None) -> Any:
        items = _sequence(budget, value, name)
        if not items:
            return Missing(f"… | {name}", name, "the list is empty")
        keys = _sort_keys(budget, _parts(budget, items, attribute), name)
        return items[pick(range(len(items)), key=keys.__getitem__)]

    return extreme


def _sum(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    total = start
    for item in _parts(budget, _sequence(budget, value, "sum"), attribute):
        if not is_number(item) or not is_number(total):
            raise Trouble("sum needs numbers; name a field with attribute='…'")
        total = add(total, item, budget)
    return total


def _end(name: str, index: int) -> Callable[..., Any]:
    def end(budget: Budget, value: Any) -> Any:
        items = value if type(value) is str else _sequence(budget, value, name)
        return items[index] if items else Missing(f"… | {name}", name, "there is nothing in it")

    return end


def _unique(budget: Budget, value: Any, attribute: Any = None) -> list[Any]:
    items = _sequence(budget, value, "unique")
    measure(items, budget)
    first: dict[bytes, Any] = {}
    try:
        for item, key in zip(items, _parts(budget, items, attribute), strict=True):
            first.setdefault(msgspec.json.encode(key, order="deterministic"), item)
    except (RecursionError, TypeError, ValueError):
        raise Trouble("unique cannot compare these values") from None
    return list(first.values())


def _reverse(budget: Budget, value: Any) -> Any:
    budget.read(value)
    return value[::-1] if type(value) is str else _sequence(budget, value, "reverse")[::-1]


def _case(name: str) -> Callable[..., str]:
    """The filter `lower`, `upper` or `title`."""

    def change(budget: Budget, value: Any) -> str:
        text = _text(value, name)
        budget.make(len(text))
        budget.spend(len(text) // 32)
        changed: str = getattr(str, name)(text)  # a name of the table below
        return changed

    return change


def _items(budget: Budget, value: Any) -> list[Any]:
    budget.read(_mapping(value, "items"))
    return [[key, item] for key, item in value.items()]


def _values(budget: Budget, value: Any) -> list[Any]:
    budget.read(_mapping(value, "values"))
    return list(value.values())


def _unwrap(budget: Budget, value: Any, name: Any) -> list[Any]:
    """The named field of every item. Items without it stay as they are: most often those of a map that failed."""
    if type(name) is not str:
        raise Trouble(f"unwrap needs the name of a field, got {describe_type(name)}")
    items = _sequence(budget, value, "unwrap")
    return [item[name] if type(item) is dict and name in item else item for item in items]


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": _abs,
    "d": _default,
    "default": _default,
    "first": _end("first", 0),
    "float": _number(float),
    "int": _number(int),
    "items": _items,
    "join": _join,
    "keys": lambda budget, value: list(_sequence(budget, _mapping(value, "keys"), "keys")),
    "last": _end("last", -1),
    "length": _length,
    "list": lambda budget, value: list(_sequence(budget, value, "list")),
    "lower": _case("lower"),
    "map": lambda budget, value, attribute: _parts(budget, _sequence(budget, value, "map"), attribute),
    "max": _extreme("max", max),
    "min": _extreme("min", min),
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "slashes": lambda budget, value: _text(value, "slashes"),  # a mark in a URL: slashes stay slashes
    "sort": _sort,
    "string": lambda budget, value: concat([to_text(value, budget)], budget),
    "sum": _sum,
    "title": _case("title"),
    "tojson": lambda budget, value: to_json(value, budget),
    "trim": _trim,
    "unique": _unique,
    "unwrap": _unwrap,
    "upper": _case("upper"),
    "values": _values,
}

TAKE_MISSING = frozenset({"default", "d"})


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise Trouble(f"this test needs an integer, got {describe_type(value)}")
    return value


def _divisible(budget: Budget, value: Any, by: Any) -> bool:
    if _whole(by) == 0:
        raise Trouble("divisibleby divides by zero")
    return bool(_whole(value) % by == 0)


TESTS: dict[str, Callable[..., bool]] = {
    "boolean": lambda budget, value: type(value) is bool,
    "defined": lambda budget, value: type(value) is not Missing,
    "divisibleby": _divisible,
    "eq": lambda budget, value, other: is_equal(value, other, budget),
    "even": lambda budget, value: _whole(value) % 2 == 0,
    "false": lambda budget, value: value is False,
    "float": lambda budget, value: type(value) is float,
    "ge": lambda budget, value, other: is_order(">=", value, other),
    "gt": lambda budget, value, other: is_order(">", value, other),
    "in": lambda budget, value, container: is_in(value, container, budget),
    "integer": lambda budget, value: type(value) is int,
    "le": lambda budget, value, other: is_order("<=", value, other),
    "lt": lambda budget, value, other: is_order("<", value, other),
    "mapping": lambda budget, value: type(value) is dict,
    "ne": lambda budget, value, other: not is_equal(value, other, budget),
    "none": lambda budget, value: value is None,
    "number": lambda budget, value: is_number(value),
    "odd": lambda budget, value: _whole(value) % 2 == 1,
    "sequence": lambda budget, value: type(value) in (list, str),
    "string": lambda budget, value: type(value) is str,
    "true": lambda budget, value: value is True,
    "undefined": lambda budget, value: type(value) is Missing,
}

TEST_MISSING = frozenset({"defined", "undefined"})
