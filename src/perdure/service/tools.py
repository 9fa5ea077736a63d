"""The registry of a tenant's tools: workflows that are exposed, pipelines that were promoted, and shapes of pipelines that may be.

Agents find of it what their `search_tools` allows. It must not know HTTP.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from perdure.access import Permission
from perdure.agents.pipeline_shapes import Use, make_tool
from perdure.agents.tool_registry import read_registry
from perdure.agents.tool_search import search_tools
from perdure.errors import NotFound, Refused
from perdure.journal import AgentEntry
from perdure.model.definition import LARGEST_TOOL
from perdure.runtime.coordinator.agent_memory import read_body
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

FEWEST = 2
"""In how many runs, of how many people, a pipeline has to be used before it may become a tool."""
MOST = 500
"""The most tools, and the most shapes, that are listed."""
_USES = 100
_PLACE = "0"


class Tools:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def list(self, *, q: str = "", state: str | None = None) -> View:
        """The tools of the tenant by name; with `q`, those that fit the words, the best first."""
        rows = [*await self._rows(), *await self._candidates()]
        rows = [one for one in sorted(rows, key=lambda one: str(one["name"])) if state in (None, one["state"])]
        if q:
            tools = read_registry(rows, set(), len(rows))
            found = await aside(self._tenancy.tenant, search_tools, tools, q, len(rows))
            by_name = {one["name"]: one for one in rows}
            rows = [by_name[one["name"]] for one in found]
        return {"items": rows}

    async def get(self, name: str) -> View:
        """One by its name."""
        row = await self._find(name)
        if row is not None:
            return row
        found = next((one for one in await self._candidates() if one["name"] == name), None)
        if found is None:
            raise NotFound(f"there is no tool {name[:80]!r} in the registry")
        return found

    async def promote(self, name: str, *, alone: bool = False) -> View:
        """Let agents find a tool: a candidate, or one that was retired. `alone`: though one person alone has used it."""
        self._tenancy.principal.require(Permission.SYSTEM_OPERATE)
        row = await self.get(name)
        if row["state"] == "candidate" and row["principals"] < FEWEST and not alone:
            message = (
                f"only one person's runs have used {name}: an agent that was talked into it could install a tool for others. Look at its "
                "steps, and say alone if it is good"
            )
            raise Refused(message, code="too_few_principals")
        return await self._save({**row, "state": "live"})

    async def retire(self, name: str) -> View:
        """Let no agent find a tool any more. Agents that have begun keep it."""
        self._tenancy.principal.require(Permission.SYSTEM_OPERATE)
        return await self._save({**await self.get(name), "state": "retired"})

    async def pin(self, name: str) -> View:
        """Keep agents to the version of a workflow that is the highest now, until it is pinned again."""
        self._tenancy.principal.require(Permission.SYSTEM_OPERATE)
        row = await self.get(name)
        if row["kind"] != "workflow":
            raise Refused(f"{name} is a pipeline, which never changes: there is nothing to pin", code="not_a_workflow")
        return await self._save({**row, "pinned": row["version"]})

    # -- rows ----------------------------------------------------------------------------------------------------------

    async def _save(self, row: Mapping[str, Any]) -> View:
        tenancy = self._tenancy
        now = tenancy.engine.clock.now()
        kept = {**row, "by": tenancy.by, "at": now}
        for name in ("runs", "principals"):
            kept.pop(name, None)
        body = msgspec.json.encode(kept)
        entry = AgentEntry(tenant=tenancy.tenant, space="tool", name=row["name"], place=_PLACE, at=now, body=body)
        await tenancy.archive.save_entry(entry)
        return _shown(kept)

    async def _find(self, name: str) -> View | None:
        if not self._tenancy.is_sane(name):
            return None
        found = await self._tenancy.archive.list_entries(self._tenancy.tenant, "tool", name, limit=1)
        return _shown(msgspec.json.decode(found[0].body)) if found else None

    async def _rows(self) -> builtins.list[View]:
        page = await self._tenancy.archive.list_entry_names(self._tenancy.tenant, "tool", limit=MOST)
        found = [await self._find(one.name) for one in page.items]
        return [one for one in found if one is not None]

    async def _candidates(self) -> builtins.list[View]:
        """Shapes of pipelines that were used in several runs, and are no tools yet."""
        tenancy = self._tenancy
        known = {one["hash"] for one in await self._rows()}
        page = await tenancy.archive.list_entry_names(tenancy.tenant, "shape", limit=MOST)
        found = []
        for one in page.items:
            if one.count < FEWEST or one.name in known:
                continue
            entries = await tenancy.archive.list_entries(tenancy.tenant, "shape", one.name, limit=_USES)
            try:
                uses = [msgspec.convert(await read_body(tenancy.engine.contents, entry), Use) for entry in entries]
            except msgspec.ValidationError:  # what a worker left that lies is no tool, and hides no other
                continue
            tool = make_tool(uses)
            if len(msgspec.json.encode(tool)) > LARGEST_TOOL:  # it would not be exposed as a workflow either
                continue
            tool["origins"] = _origins(tool["steps"])
            counts = {
                "runs": len({entry.run_id for entry in entries}),
                "principals": len({entry.owner for entry in entries}),
            }
            found.append(_shown({**tool, **counts, "state": "candidate"}))
        return found


def _origins(steps: Any) -> builtins.list[str]:
    """Where the requests of a pipeline go: addresses are a part of its shape, and no parameter changes them."""
    found = []
    for step in steps:
        if step.get("step") == "http_request":
            url = step["url"] if "://" in step["url"] else f"https://{step['url']}"
            parts = urlsplit(url)
            found.append(f"{parts.scheme}://{parts.netloc}")
    return sorted(set(found))


_KEYS: dict[str, Any] = {
    "name": "",
    "kind": "",
    "state": "",
    "description": "",
    "schema": {},
    "effect": "",
    "workflow": None,
    "version": None,
    "pinned": None,
    "steps": None,
    "origins": None,
    "hash": None,
    "runs": None,
    "principals": None,
    "by": None,
    "at": None,
}


def _shown(row: Mapping[str, Any]) -> View:
    return {name: row.get(name, otherwise) for name, otherwise in _KEYS.items()}
