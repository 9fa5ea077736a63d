"""Workflows as tools of the registry: what registering and deleting one changes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.service.tools import Tools

if TYPE_CHECKING:
    from perdure.model.ir import IR


class ExposedWorkflows(Tools):
    async def offer(self, ir: IR, version: int) -> None:
        """Make the tool of a workflow that was registered what it says now. What people decided about it stays."""
        name = tool_name(ir.name)
        if not ir.expose.get("tool"):
            await self.withdraw(ir.name)
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
        """Take the tool of a workflow out of the registry."""
        known = await self._find(tool_name(workflow))
        if known is not None and known.get("workflow") == workflow:
            await self._tenancy.archive.delete_entries(self._tenancy.tenant, "tool", known["name"])


def tool_name(workflow: str) -> str:
    """What a workflow is called as a tool: models know no dots."""
    return workflow.replace(".", "_")[:64]
