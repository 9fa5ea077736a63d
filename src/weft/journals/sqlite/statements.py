"""The SQL of this adapter, read from `queries/`, one file per query.

A line that ends in `-- if name` belongs to the query only when that parameter is given, so the planner sees exactly what was
asked and can choose an index for it. Nothing else is ever put into a query: values are always bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

_CONDITION = re.compile(r"--\s*if (\w+)\s*$")


def names() -> list[str]:
    folder = resources.files("weft.journals.sqlite") / "queries"
    return sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))


@cache
def text(name: str) -> str:
    return (resources.files("weft.journals.sqlite") / "queries" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def _chosen(name: str, given: frozenset[str]) -> str:
    lines = []
    for line in text(name).splitlines():
        condition = _CONDITION.search(line)
        if condition is None:
            lines.append(line)
        elif condition[1] in given:
            lines.append(line[: condition.start()].rstrip())
    return "\n".join(lines)


def query(name: str, parameters: Mapping[str, object]) -> str:
    """The text of a query, without the lines whose parameter is None or absent."""
    return _chosen(name, frozenset(key for key, value in parameters.items() if value is not None))
