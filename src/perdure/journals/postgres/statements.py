"""The SQL of this adapter, from `queries/`. Parameters have names there (`:run_id`) and numbers on the wire (`$1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perdure.journals.statements import Statements

_NAME = re.compile(r"(?<!:):([a-z_]+)")  # but not a cast, `::text`

_statements = Statements("perdure.journals.postgres")
names = _statements.names
_numbered: dict[str, tuple[str, tuple[str, ...]]] = {}


def bind(name: str, parameters: Mapping[str, object]) -> tuple[str, list[object]]:
    """A query and its arguments, without the lines whose parameter is None or absent."""
    query = _statements.query(name, parameters)
    known = _numbered.get(query)
    if known is None:
        known = _numbered[query] = _number(query)
    text, order = known
    return text, [parameters[parameter] for parameter in order]


def _number(query: str) -> tuple[str, tuple[str, ...]]:
    order: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${order.setdefault(match[1], len(order) + 1)}"

    return _NAME.sub(number, query), tuple(order)
