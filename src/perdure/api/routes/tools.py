"""The registry of tools, and sessions of agents, over HTTP. What each operation does is in `perdure.service`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import Limit, Text
from perdure.api.request_reader import Body, Query
from perdure.api.schemas import memory_schemas as s

routes = Routes("tools")
OPERATE = Permission.SYSTEM_OPERATE


class FindTools(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(description="Words; those that fit best come first.", max_length=200)] = ""
    state: Annotated[Literal["live", "candidate", "retired"] | None, Meta(description="Only those.")] = None


class PromoteTool(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    alone: Annotated[bool, Meta(description="Though the runs of one person alone have used it.")] = False


class FindSessions(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Annotated[str, Meta(description="Only sessions with this key.", max_length=200)] = ""
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/tools", Permission.WORKFLOWS_READ, s.RegistryToolList)
async def list_tools(call: Call, query: FindTools) -> Any:
    """List the tools that agents may find in the registry, and pipelines of agents that may become tools."""
    return await call.service.tools.list(q=query.q, state=query.state)


@routes.get("/tools/{name}", Permission.WORKFLOWS_READ, s.RegistryTool)
async def get_tool(call: Call) -> Any:
    """Get a tool of the registry, with the steps of a pipeline."""
    return await call.service.tools.get(call.path("name"))


@routes.post("/tools/{name}/promote", OPERATE, s.RegistryTool, needs_body=False)
async def promote_tool(call: Call, body: PromoteTool) -> Any:
    """Let agents find a tool: a candidate, or one that was retired."""
    return await call.service.tools.promote(call.path("name"), alone=body.alone)


@routes.post("/tools/{name}/retire", OPERATE, s.RegistryTool, needs_body=False)
async def retire_tool(call: Call) -> Any:
    """Let no agent find a tool any more. Agents that have begun keep it."""
    return await call.service.tools.retire(call.path("name"))


@routes.post("/tools/{name}/pin", OPERATE, s.RegistryTool, needs_body=False)
async def pin_tool(call: Call) -> Any:
    """Keep agents to the version of a workflow that is the highest now, until it is pinned again."""
    return await call.service.tools.pin(call.path("name"))


@routes.get("/agent-sessions", Permission.RUNS_READ, s.AgentSessionPage)
async def list_agent_sessions(call: Call, query: FindSessions) -> Any:
    """List the sessions of agents by workflow, node and key."""
    return await call.service.agent_sessions.list(key=query.key or None, limit=query.limit, cursor=query.cursor).first()


@routes.get("/agent-sessions/{workflow}/{node}/{key:path}", Permission.RUNS_READ, s.AgentSessionDetails)
async def get_agent_session(call: Call) -> Any:
    """Get what a session knows: its newest turns and its notes."""
    return await call.service.agent_sessions.get(call.path("workflow"), call.path("node"), call.path("key"))


@routes.delete("/agent-sessions/{workflow}/{node}/{key:path}", Permission.RUNS_OPERATE, s.AgentSessionDeleted)
async def delete_agent_session(call: Call) -> Any:
    """Forget a session of an agent. Runs that have begun know what they were told."""
    return await call.service.agent_sessions.delete(call.path("workflow"), call.path("node"), call.path("key"))
