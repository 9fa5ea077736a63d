"""`csv_read`: CSV text to a list of objects, with types."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any

import perdure

TYPES: dict[str, Callable[[str], Any]] = {
    "text": str,
    "integer": int,
    "number": float,
    "boolean": lambda text: {"true": True, "false": False}[text.strip().lower()],
}


def read(config: dict[str, Any], ctx: perdure.Context) -> dict[str, Any]:
    """Called in a thread, because it is not async. The config fits the schema below."""
    columns, rows = _split(config)
    types = config.get("types", {})
    missing = sorted(types.keys() - set(columns))
    if missing:
        raise perdure.Failure("missing_column", f"there is no column {', '.join(missing)}", retryable=False)
    found = [_convert(number, dict(zip(columns, row, strict=False)), types) for number, row in rows]
    return {"columns": columns, "rows": found, "count": len(found)}


def _split(config: dict[str, Any]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    lines = csv.reader(io.StringIO(config["text"]), delimiter=config.get("delimiter", ","))
    filled = ((lines.line_num, row) for row in lines if row)
    if "columns" in config:
        return config["columns"], filled
    first = next(filled, (0, []))
    return first[1], filled


def _convert(line: int, row: dict[str, str], types: dict[str, str]) -> dict[str, Any]:
    converted: dict[str, Any] = dict(row)
    for column, name in types.items():
        text = row.get(column, "")
        try:
            converted[column] = TYPES[name](text) if text else None
        except (KeyError, ValueError):
            # Says where, never what: the value may be nobody's business.
            raise perdure.Failure("bad_value", f"line {line}: {column} is not a {name}", retryable=False) from None
    return converted


CSV_READ = perdure.NodeType(
    name="csv_read",
    description="Turns CSV text into a list of objects, with numbers and booleans where `types` says so.",
    version="1.0",
    config_schema={
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": {"type": "string"},
            "delimiter": {"type": "string", "minLength": 1, "maxLength": 1, "default": ","},
            "columns": {"type": "array", "items": {"type": "string"}, "description": "when the first line has none"},
            "types": {"type": "object", "additionalProperties": {"enum": list(TYPES)}},
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "required": ["columns", "rows", "count"],
        "properties": {
            "columns": {"type": "array", "items": {"type": "string"}},
            "rows": {"type": "array", "items": {"type": "object"}},
            "count": {"type": "integer"},
        },
    },
    example={"type": "csv_read", "config": {"text": "{{ fetch.body }}", "types": {"price": "number"}}},
    handler=read,
)
