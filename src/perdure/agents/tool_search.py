"""Which tools of an agent fit a few words: full text search over their names, descriptions and parameters.

Only what the agent may call is looked through, and only what was pinned with its first attempt. The index is made for each search: a
thousand tools take a few milliseconds.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from perdure.agents.tool import Tool
from perdure.nodes.search import make_query

LIMIT = 10
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def search_tools(tools: Iterable[Tool], query: str, limit: int = LIMIT) -> list[dict[str, Any]]:
    """The tools that fit best, as the model is told of them. To be called in a thread."""
    known = [tool for tool in tools if tool.kind not in ("search_tools", "use_tool")]
    words = make_query(query)
    if not words:
        return []
    rows = [
        (number, _HUMP.sub(" ", tool.name), tool.description, _parameters(tool.schema))
        for number, tool in enumerate(known)
    ]
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(
            "CREATE VIRTUAL TABLE tools USING fts5(name, description, parameters, tokenize = 'porter unicode61')"
        )
        index.executemany("INSERT INTO tools(rowid, name, description, parameters) VALUES (?, ?, ?, ?)", rows)
        found = index.execute(
            "SELECT rowid, -bm25(tools, 5.0, 3.0, 1.0) AS score FROM tools WHERE tools MATCH ? ORDER BY score DESC, rowid LIMIT ?",
            (words, limit),
        ).fetchall()
    return [_told(known[number], score) for number, score in found]


def _told(tool: Tool, score: float) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {**about, "kind": tool.kind, "effect": tool.effect, "score": round(score, 3)}


def _parameters(schema: dict[str, Any]) -> str:
    """What a search finds of the parameters: their names, what is said of them, and the values that they are chosen from."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    rows = [one for one in properties.values() if isinstance(one, dict)]
    described = [one.get("description") for one in rows]
    chosen = [value for one in rows if isinstance(one.get("enum"), list) for value in one["enum"]]
    return " ".join([*properties, *(text for text in [*described, *chosen] if isinstance(text, str))])
