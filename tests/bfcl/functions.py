"""The functions of BFCL, the questions that people ask of them, and the calls that answer them, as tools and arguments."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from perdure.llms.port import Tool

SAMPLE = Path(__file__).with_name("sample.json")
"""Some of them (github.com/ShishirPatil/gorilla, Apache-2.0)."""
FILES = """simple_python simple_java simple_javascript multiple parallel parallel_multiple live_simple live_multiple live_parallel
live_parallel_multiple""".split()
_TYPES = {
    "dict": "object", "HashMap": "object", "float": "number", "double": "number", "long": "integer", "tuple": "array", "Array": "array",
    "ArrayList": "array", "String": "string", "char": "string", "Boolean": "boolean",
}  # fmt: skip
_ANY = ("any", "")


class Question(msgspec.Struct, frozen=True):
    id: str
    text: str
    functions: list[dict[str, Any]]
    """As BFCL has them."""
    calls: list[tuple[str, dict[str, Any]]]
    """What answers it: the first of the arguments that BFCL accepts."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple({tool.name: tool for tool in map(tool_of, self.functions)}.values())


def tool_of(function: dict[str, Any]) -> Tool:
    return Tool(name_of(function["name"]), function["description"], schema_of(function["parameters"]))


def name_of(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def schema_of(schema: Any) -> Any:
    """A JSON Schema: BFCL has types of Python and Java."""
    if isinstance(schema, list):
        return [schema_of(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: schema_of(value) for key, value in schema.items()}
    kind = schema.get("type")
    if isinstance(kind, str):
        if kind in _ANY:
            del found["type"]
        else:
            found["type"] = _TYPES.get(kind, kind)
    return found


def read_all(folder: Path) -> list[Question]:
    found = []
    for name in FILES:
        asked = _lines(folder / f"BFCL_v4_{name}.json")
        answers = {
            row["id"]: row["ground_truth"] for row in _lines(folder / "possible_answer" / f"BFCL_v4_{name}.json")
        }
        found += [_question(row, answers[row["id"]]) for row in asked]
    return found


def read_sample() -> list[Question]:
    return msgspec.json.decode(SAMPLE.read_bytes(), type=list[Question])


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _question(row: dict[str, Any], truth: list[dict[str, Any]]) -> Question:
    texts = [one["content"] for one in row["question"][0] if one["role"] == "user"]
    calls = [(name_of(name), _arguments(given)) for call in truth for name, given in call.items()]
    return Question(row["id"], texts[-1] if texts else "", row["function"], calls)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """One of each list of values that are right; an empty text there means that it may be left out."""
    chosen = {name: next((one for one in values if one != ""), "") for name, values in given.items() if values}
    return {name: _inner(value) for name, value in chosen.items() if value != "" or "" not in given[name]}


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return _arguments({name: one if isinstance(one, list) else [one] for name, one in value.items()})
    return [_inner(one) for one in value] if isinstance(value, list) else value
