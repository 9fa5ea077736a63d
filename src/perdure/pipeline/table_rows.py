"""The tables of pipelines, lists of objects, and how a field of a row is read. Everything is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.expressions.namespace import describe_type
from perdure.pipeline.errors import PipelineError

MAX_ROWS = 200_000

Row = dict[str, Any]
Table = list[Row]
Read = Callable[[Row], Any]


class _Absent:
    __slots__ = ()


ABSENT = _Absent()


def as_table(value: Any, what: str = "the input") -> Table:
    """The value as a table, a list of objects. One object is a table of one row."""
    if type(value) is dict:
        return [value]
    if type(value) is not list:
        raise PipelineError(f"{what} must be a table, a list of objects; it is {describe_type(value)}")
    check_rows(len(value))
    for number, row in enumerate(value):
        if type(row) is not dict:
            raise PipelineError(f"{what} must be a list of objects; row {number} is {describe_type(row)}")
    return value


def check_rows(count: int) -> None:
    if count > MAX_ROWS:
        raise PipelineError(f"a table has {count:,} rows, {MAX_ROWS:,} are allowed; reduce it where it comes from")


def reader(field: str) -> Read:
    """A reader of `price`, or of `address.city` inside objects; ABSENT if there is none. Keys with dots go first."""
    parts = field.split(".")
    if len(parts) == 1:
        return lambda row: row.get(field, ABSENT)

    def read(row: Row) -> Any:
        if field in row:
            return row[field]
        value: Any = row
        for part in parts:
            if type(value) is not dict or part not in value:
                return ABSENT
            value = value[part]
        return value

    return read


def value_of(value: Any) -> Any:
    """The value of a field in a result: null if the field is missing."""
    return None if value is ABSENT else value


def sort_key(value: Any) -> tuple[int, Any]:
    """A sort key over all JSON values: numbers, texts, false, true, the rest as equal; missing and null are last."""
    kind = type(value)
    if kind is int or kind is float:
        return (0, value)
    if kind is str:
        return (1, value)
    if kind is bool:
        return (2, value)
    if value is None or value is ABSENT:
        return (9, 0)
    return (3, 0)


def group_key(value: Any) -> Any:
    """A key that is equal for values that are the same in JSON, and usable in a dictionary: 1 is 1.0 and not true."""
    kind = type(value)
    if kind is bool:
        return (bool, value)
    if kind is list:
        return (list, tuple(group_key(item) for item in value))
    if kind is dict:
        return (dict, tuple(sorted((key, group_key(item)) for key, item in value.items())))
    return value
