"""Workflows as tools of the registry, and of MCP clients: what registering and deleting one changes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.journal import AgentEntry
from perdure.service.tools import Tools

if TYPE_CHECKING:
    from perdure.model.ir import IR

MCP: Literal["mcp"] = "mcp"
"""Where it is kept which workflow an MCP client means by the name of a tool."""


class ExposedWorkflows(Tools):
    async def offer(self, ir: IR, version: int) -> None:
        """Make the tool of a workflow that was registered what it says now. What people decided about it stays."""
        await self._offer_to_mcp(ir)
        name = tool_name(ir.name)
        if not ir.expose.get("tool"):
            await self._withdraw_tool(ir.name)
            return
        known = await self._find(name) or {}
        if known.get("workflow") not in (None, ir.name):
            return  # of another workflow, which had the name first
        row: dict[str, Any] = {
            "name": name,
            "kind": "workflow",
            "state": known.get("state", "live"),
            "description": ir.description or f"Runs the workflow {ir.name}.",
            "schema": ir.inputs_schema or {"type": "object"},
            "effect": ir.expose.get("effect", "send"),
            "workflow": ir.name,
            "version": version,
        }
        if known.get("pinned"):
            pinned = {key: known[key] for key in ("pinned", "description", "schema", "effect")}
            row |= pinned  # what a person has pinned is described as it was then
        await self._save(row)

    async def withdraw(self, workflow: str) -> None:
        """A workflow that was deleted is nobody's tool."""
        await self._withdraw_tool(workflow)
        await self._withdraw_from_mcp(workflow)

    async def _withdraw_tool(self, workflow: str) -> None:
        known = await self._find(tool_name(workflow))
        if known is not None and known.get("workflow") == workflow:
            await self._tenancy.archive.delete_entries(self._tenancy.tenant, "tool", known["name"])

    async def _offer_to_mcp(self, ir: IR) -> None:
        if not ir.expose.get("mcp"):
            await self._withdraw_from_mcp(ir.name)
            return
        tenancy, name = self._tenancy, tool_name(ir.name)
        if await self._find_behind_mcp(name) not in (None, ir.name):
            return  # of another workflow, which had the name first
        now, body = tenancy.engine.clock.now(), msgspec.json.encode({"workflow": ir.name})
        await tenancy.archive.save_entry(
            AgentEntry(tenant=tenancy.tenant, space=MCP, name=name, place="0", at=now, body=body)
        )

    async def _withdraw_from_mcp(self, workflow: str) -> None:
        name = tool_name(workflow)
        if await self._find_behind_mcp(name) == workflow:
            await self._tenancy.archive.delete_entries(self._tenancy.tenant, MCP, name)

    async def _find_behind_mcp(self, name: str) -> str | None:
        found = await self._tenancy.archive.list_entries(self._tenancy.tenant, MCP, name, limit=1)
        return msgspec.json.decode(found[0].body, type=dict[str, str])["workflow"] if found else None


def tool_name(workflow: str) -> str:
    """What a workflow is called as a tool: models know no dots."""
    return workflow.replace(".", "_")[:64]
