"""Tools of the tenant's registry, as an agent has them that may find them: workflows that are exposed, and pipelines that were promoted.

They are never shown until the agent searches, and no name of its own list is taken by one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from perdure.agents.tool import EFFECTS, Tool
from perdure.model.labels import UNTRUSTED


def read_registry(rows: Sequence[Mapping[str, Any]], taken: Set[str], most: int) -> list[Tool]:
    """The tools of these rows, without those that are no tools any more."""
    found: dict[str, Tool] = {}
    for row in rows:
        tool = _read(row)
        if tool is not None and tool.name not in taken and len(found) < most:
            found.setdefault(tool.name, tool)
    return list(found.values())


def _read(row: Mapping[str, Any]) -> Tool | None:
    if row.get("effect") not in EFFECTS or row.get("kind") not in ("workflow", "pipeline"):
        return None
    about: dict[str, Any] = {
        "name": row["name"],
        "description": row["description"],
        "schema": row["schema"],
        "effect": row["effect"],
        "returns": UNTRUSTED,
        "hidden": True,
    }
    if row["kind"] == "workflow":
        version = row.get("pinned")
        return Tool(kind="workflow", target=f"{row['workflow']}@{version}" if version else row["workflow"], **about)
    origins = tuple(row.get("origins") or ())
    return Tool(kind="promoted", steps=tuple(row["steps"]), origins=origins, **about)
