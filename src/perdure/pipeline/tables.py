"""The steps that turn one table into another: table_sort, table_filter, table_select, top_k, groupby, join.

They are plain Python over lists of objects, which beats every table library as long as the data comes and goes as
objects. No step changes the rows it is given.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

from perdure.budget import OverBudget
from perdure.expressions.operators import Incomparable, compare, is_number
from perdure.pipeline.errors import PipelineError
from perdure.pipeline.table_rows import (
    ABSENT,
    Read,
    Row,
    Table,
    as_table,
    check_rows,
    group_key,
    reader,
    sort_key,
    value_of,
)

Step = dict[str, Any]
Test = Callable[[Row], bool]

DESCENDING = ("desc", "descending")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# -- order -------------------------------------------------------------------------------------------------------------


def table_sort(value: Any, step: Step) -> Table:
    """Sort by `field` (or several), each `asc` or `desc`. Stable; rows without a value come last either way."""
    table = list(as_table(value))
    for entry in reversed(_as_list(step["field"])):
        field, order = (
            (entry["field"], entry.get("order", "asc"))
            if isinstance(entry, dict)
            else (entry, step.get("order", "asc"))
        )
        read = reader(field)
        if order in DESCENDING:
            # Two passes: `reverse` would also move the rows without a value to the front.
            table.sort(key=lambda row, read=read: sort_key(read(row)), reverse=True)  # type: ignore[misc]
            table.sort(key=lambda row, read=read: sort_key(read(row))[0] == 9)  # type: ignore[misc]
        else:
            table.sort(key=lambda row, read=read: sort_key(read(row)))  # type: ignore[misc]
    return table


def top_k(value: Any, step: Step) -> Table:
    """The first `k` rows; with `field`, those with the largest values (`order: asc`: the smallest)."""
    table = as_table(value)
    k = int(step["k"])  # 3.0 is an integer too
    if "field" not in step:
        return table[:k]
    read = reader(step["field"])
    having = [row for row in table if sort_key(read(row))[0] != 9]
    if step.get("order", "desc") in DESCENDING:
        best = heapq.nlargest(k, having, key=lambda row: sort_key(read(row)))
    else:
        best = heapq.nsmallest(k, having, key=lambda row: sort_key(read(row)))
    if len(best) < k:
        best += [row for row in table if sort_key(read(row))[0] == 9][: k - len(best)]
    return best


# -- choice ------------------------------------------------------------------------------------------------------------


def table_filter(value: Any, step: Step) -> Table:
    """The rows for which `condition` holds."""
    test = make_test(step["condition"])
    kept = []
    for number, row in enumerate(as_table(value)):
        try:
            if test(row):
                kept.append(row)
        except (Incomparable, OverBudget) as error:
            raise PipelineError(f"row {number}: {error}") from None
    return kept


def make_test(condition: Any) -> Test:
    """A test for `{field, operator, value}`, for a list of those (all must hold), or for `{all|any: […]}` and `{not:
    …}`.

    As in SQL, a field that is missing or null satisfies no comparison but `== null`.
    """
    if isinstance(condition, list):
        return _make_all(condition)
    if "all" in condition:
        return _make_all(condition["all"])
    if "any" in condition:
        tests = [make_test(inner) for inner in condition["any"]]
        return lambda row: any(test(row) for test in tests)
    if "not" in condition:
        inner = make_test(condition["not"])
        return lambda row: not inner(row)
    read, operator, expected = reader(condition["field"]), condition.get("operator", "=="), condition.get("value")
    if operator == "exists":
        return lambda row: (value_of(read(row)) is not None) is not (expected is False)
    if expected is None and operator in ("==", "!="):
        return lambda row: (value_of(read(row)) is None) is (operator == "==")

    def test(row: Row) -> bool:
        found = value_of(read(row))
        return found is not None and compare(operator, found, expected)

    return test


def _make_all(conditions: list[Any]) -> Test:
    tests = [make_test(inner) for inner in conditions]
    return lambda row: all(test(row) for test in tests)


def table_select(value: Any, step: Step) -> Table:
    """Only these `fields`, in this order; an object renames them: `{city: address.city}`. Missing ones are null."""
    fields = step["fields"]
    pairs = fields.items() if isinstance(fields, dict) else [(name, name) for name in fields]
    readers = [(name, reader(field)) for name, field in pairs]
    return [{name: value_of(read(row)) for name, read in readers} for row in as_table(value)]


# -- groups ------------------------------------------------------------------------------------------------------------


def groupby(value: Any, step: Step) -> Table:
    """One row per value of `by`, in order of first appearance, with `aggregates` (a `count` when there are none)."""
    table = as_table(value)
    names = _as_list(step["by"])
    readers = [reader(name) for name in names]
    groups: dict[Any, tuple[list[Any], Table]] = {}
    for row in table:
        values = [value_of(read(row)) for read in readers]
        key = tuple(group_key(one) for one in values)
        found = groups.get(key)
        if found is None:
            groups[key] = (values, [row])
        else:
            found[1].append(row)
    aggregates = step.get("aggregates") or {"count": {"function": "count"}}
    result = []
    for values, rows in groups.values():
        made = dict(zip(names, values, strict=True))
        for name, aggregate in aggregates.items():
            made[name] = _aggregate(aggregate["function"], aggregate.get("field"), rows)
        result.append(made)
    return result


def _aggregate(function: str, field: str | None, rows: Table) -> Any:
    if field is None:
        return len(rows)
    read = reader(field)
    values = [found for row in rows if (found := value_of(read(row))) is not None]
    match function:
        case "count":
            return len(values)
        case "count_distinct":
            return len({group_key(value) for value in values})
        case "list":
            return values
        case "first":
            return values[0] if values else None
        case "last":
            return values[-1] if values else None
        case "sum":
            return _add(values, field)
        case "avg":
            return _add(values, field) / len(values) if values else None
        case "min" | "max":
            return _extreme(function, values, field)
        case _:
            raise PipelineError(f"there is no aggregate {function!r}")


def _add(values: list[Any], field: str) -> Any:
    if not all(is_number(value) for value in values):
        raise PipelineError(f"field {field!r} holds something that is no number, so it has no sum")
    if all(type(value) is int for value in values):
        return sum(values)
    try:
        total = math.fsum(values)
    except OverflowError:
        total = math.inf
    if not math.isfinite(total):
        raise PipelineError(f"the sum of field {field!r} is too large for a number")
    return total


def _extreme(function: str, values: list[Any], field: str) -> Any:
    if not values:
        return None
    if not (all(is_number(value) for value in values) or all(type(value) is str for value in values)):
        raise PipelineError(f"field {field!r} holds values of several types, so it has no {function}")
    return min(values) if function == "min" else max(values)


# -- join --------------------------------------------------------------------------------------------------------------


def join(value: Any, step: Step) -> Table:
    """Join with the table `with`, `on` equal fields; `how`: inner, left, right or outer.

    Where both have a field that is not joined on, the right one gets the suffix. Null equals nothing.
    """
    left, right = as_table(value), as_table(step["with"], "`with`")
    pairs = _join_fields(step["on"])
    left_reads = [reader(one) for one, _ in pairs]
    right_reads = [reader(other) for _, other in pairs]
    how, suffix = step.get("how", "inner"), step.get("suffix", "_right")
    rename = _find_clashes(left, right, {other for _, other in pairs}, suffix)
    shared = {other for one, other in pairs if one == other}
    found = _index(right, right_reads)
    used: set[int] = set()
    joined: Table = []
    for row in left:
        key = _key(row, left_reads)
        matches = found.get(key, ()) if key is not None else ()
        for number in matches:
            used.add(number)
            joined.append({**row, **_rename_fields(right[number], rename, shared)})
        check_rows(len(joined))
        if not matches and how in ("left", "outer"):
            joined.append(dict(row))
    if how in ("right", "outer"):
        joined += [
            {rename.get(name, name): item for name, item in row.items()}
            for number, row in enumerate(right)
            if number not in used
        ]
        check_rows(len(joined))
    return joined


def _join_fields(on: Any) -> list[tuple[str, str]]:
    if isinstance(on, dict):
        return list(on.items())
    return [(name, name) for name in _as_list(on)]


def _find_clashes(left: Table, right: Table, keys: set[str], suffix: str) -> dict[str, str]:
    ours = set().union(*(row.keys() for row in left)) if left else set()
    theirs = set().union(*(row.keys() for row in right)) if right else set()
    return {name: f"{name}{suffix}" for name in (ours & theirs) - keys}


def _rename_fields(row: Row, rename: dict[str, str], shared: set[str]) -> Row:
    return {rename.get(name, name): value for name, value in row.items() if name not in shared}


def _index(table: Table, reads: list[Read]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for number, row in enumerate(table):
        key = _key(row, reads)
        if key is not None:
            found.setdefault(key, []).append(number)
    return found


def _key(row: Row, reads: list[Read]) -> Any:
    values = [read(row) for read in reads]
    if any(value is None or value is ABSENT for value in values):
        return None
    return tuple(group_key(value) for value in values)


__all__ = ["groupby", "join", "make_test", "table_filter", "table_select", "table_sort", "top_k"]
