"""The filters and tests of expressions: the whole list. Each takes and gives plain data and is bounded by its input.

Named and used as Jinja's, with two differences: text that is no number is an error for `int` and `float` unless a default is
given, and `tojson` is plain JSON, not escaped for HTML.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.routing.scope import Missing, describe_type, get_item
from perdure.routing.values import (
    Trouble,
    add,
    check_number,
    check_size,
    concat,
    is_in,
    is_number,
    is_order,
    need,
    to_json,
    to_text,
)

_UNSET: Any = object()


def _text(value: Any, what: str) -> str:
    if type(value) is not str:
        raise Trouble(f"{what} needs text, got {describe_type(value)}; '| string' makes text of anything")
    return value


def _sequence(value: Any, what: str) -> list[Any]:
    if type(value) is list:
        return value
    if type(value) is dict:
        return list(value)
    if type(value) is str:
        return list(value)
    raise Trouble(f"{what} needs a list, got {describe_type(value)}")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise Trouble(f"{what} needs an object, got {describe_type(value)}")
    return value


def _parts(items: list[Any], attribute: Any) -> list[Any]:
    """The same field of every item, when an attribute is named."""
    if attribute is None:
        return items
    steps = attribute.split(".") if type(attribute) is str else [attribute]
    found = []
    for item in items:
        for step in steps:
            item = get_item(item, int(step) if type(step) is str and step.isdecimal() else step, "item", (step,))
        found.append(need(item))
    return found


def _default(value: Any, default: Any = "", boolean: Any = False) -> Any:
    return default if type(value) is Missing or value is None or (boolean and not value) else value


def _length(value: Any) -> int:
    if type(value) in (str, list, dict):
        return len(value)
    raise Trouble(f"length needs text, a list or an object, got {describe_type(value)}")


def _join(value: Any, separator: Any = "", attribute: Any = None) -> str:
    between = _text(separator, "join")
    if type(value) is str and attribute is None:  # its characters, of which there may be millions
        check_size(len(value) * (1 + len(between)))
        return between.join(value)
    items = _parts(_sequence(value, "join"), attribute)
    texts: list[str] = []
    size = 0
    for item in items:
        texts.append(to_text(item))
        size += len(texts[-1]) + len(between)
        check_size(size)
    return between.join(texts)


def _trim(value: Any, characters: Any = None) -> str:
    return _text(value, "trim").strip(None if characters is None else _text(characters, "trim"))


def _replace(value: Any, old: Any, new: Any, count: Any = -1) -> str:
    text, old, new = _text(value, "replace"), _text(old, "replace"), _text(new, "replace")
    if type(count) is not int:
        raise Trouble("replace needs an integer as its count")
    count = max(count, -1)
    found = text.count(old) if count < 0 else min(count, text.count(old))
    check_size(len(text) + found * len(new))
    return text.replace(old, new, count)


def _round(value: Any, precision: Any = 0, method: Any = "common") -> Any:
    if not is_number(value) or type(precision) is not int or not -15 <= precision <= 15:
        raise Trouble("round needs a number, and a precision between -15 and 15")
    if method == "common":
        return check_number(float(round(value, precision)))
    if method not in ("ceil", "floor"):
        raise Trouble("round knows the methods common, ceil and floor")
    factor = 10.0**precision
    return check_number(float((math.ceil if method == "ceil" else math.floor)(value * factor)) / factor)


def _number(kind: type[int] | type[float]) -> Callable[..., Any]:
    def convert(value: Any, default: Any = _UNSET) -> Any:
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


def _abs(value: Any) -> Any:
    if not is_number(value):
        raise Trouble(f"abs needs a number, got {describe_type(value)}")
    return check_number(abs(value))


def _sort_keys(items: list[Any], what: str) -> list[Any]:
    if all(map(is_number, items)) or all(type(item) is str for item in items):
        return items
    raise Trouble(f"{what} needs all numbers or all text; name a field with attribute='…'")


def _sort(value: Any, reverse: Any = False, attribute: Any = None) -> list[Any]:
    items = _sequence(value, "sort")
    keys = _sort_keys(_parts(items, attribute), "sort")
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))
    return [items[index] for index in order]


def _extreme(name: str, pick: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(value: Any, attribute: Any = None) -> Any:
        items = _sequence(value, name)
        if not items:
            return Missing(f"… | {name}", name, "the list is empty")
        keys = _sort_keys(_parts(items, attribute), name)
        return items[pick(range(len(items)), key=keys.__getitem__)]

    return extreme


def _sum(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    total = start
    for item in _parts(_sequence(value, "sum"), attribute):
        if not is_number(item) or not is_number(total):
            raise Trouble("sum needs numbers; name a field with attribute='…'")
        total = add(total, item)
    return total


def _end(name: str, index: int) -> Callable[[Any], Any]:
    def end(value: Any) -> Any:
        items = value if type(value) is str else _sequence(value, name)
        return items[index] if items else Missing(f"… | {name}", name, "there is nothing in it")

    return end


def _unique(value: Any, attribute: Any = None) -> list[Any]:
    items = _sequence(value, "unique")
    first: dict[bytes, Any] = {}
    try:
        for item, key in zip(items, _parts(items, attribute), strict=True):
            first.setdefault(msgspec.json.encode(key, order="deterministic"), item)
    except (RecursionError, TypeError, ValueError):
        raise Trouble("unique cannot compare these values") from None
    return list(first.values())


def _reverse(value: Any) -> Any:
    return value[::-1] if type(value) is str else _sequence(value, "reverse")[::-1]


def _unwrap(value: Any, name: Any) -> list[Any]:
    """Items that lack it stay what they are: those of a map that failed, most often."""
    if type(name) is not str:
        raise Trouble(f"unwrap needs the name of a field, got {describe_type(name)}")
    items = _sequence(value, "unwrap")
    return [item[name] if type(item) is dict and name in item else item for item in items]


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": _abs,
    "d": _default,
    "default": _default,
    "first": _end("first", 0),
    "float": _number(float),
    "int": _number(int),
    "items": lambda value: [[key, item] for key, item in _mapping(value, "items").items()],
    "join": _join,
    "keys": lambda value: list(_mapping(value, "keys")),
    "last": _end("last", -1),
    "length": _length,
    "list": lambda value: list(_sequence(value, "list")),
    "lower": lambda value: _text(value, "lower").lower(),
    "map": lambda value, attribute: _parts(_sequence(value, "map"), attribute),
    "max": _extreme("max", max),
    "min": _extreme("min", min),
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "sort": _sort,
    "string": lambda value: concat([to_text(value)]),
    "sum": _sum,
    "title": lambda value: _text(value, "title").title(),
    "tojson": to_json,
    "trim": _trim,
    "unique": _unique,
    "unwrap": _unwrap,
    "upper": lambda value: _text(value, "upper").upper(),
    "values": lambda value: list(_mapping(value, "values").values()),
}

TAKE_MISSING = frozenset({"default", "d"})


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise Trouble(f"this test needs an integer, got {describe_type(value)}")
    return value


def _divisible(value: Any, by: Any) -> bool:
    if _whole(by) == 0:
        raise Trouble("divisibleby divides by zero")
    return bool(_whole(value) % by == 0)


TESTS: dict[str, Callable[..., bool]] = {
    "boolean": lambda value: type(value) is bool,
    "defined": lambda value: type(value) is not Missing,
    "divisibleby": _divisible,
    "eq": lambda value, other: bool(value == other),
    "even": lambda value: _whole(value) % 2 == 0,
    "false": lambda value: value is False,
    "float": lambda value: type(value) is float,
    "ge": lambda value, other: is_order(">=", value, other),
    "gt": lambda value, other: is_order(">", value, other),
    "in": is_in,
    "integer": lambda value: type(value) is int,
    "le": lambda value, other: is_order("<=", value, other),
    "lt": lambda value, other: is_order("<", value, other),
    "mapping": lambda value: type(value) is dict,
    "ne": lambda value, other: bool(value != other),
    "none": lambda value: value is None,
    "number": is_number,
    "odd": lambda value: _whole(value) % 2 == 1,
    "sequence": lambda value: type(value) in (list, str),
    "string": lambda value: type(value) is str,
    "true": lambda value: value is True,
    "undefined": lambda value: type(value) is Missing,
}

TEST_MISSING = frozenset({"defined", "undefined"})
