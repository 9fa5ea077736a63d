"""The registry of tools, and sessions of agents."""

from __future__ import annotations

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, post
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class ToolsCalls:
    """Tools that agents may find in the registry: workflows that are exposed, and pipelines that were promoted."""

    @operation
    def list(self, *, q: str = "", state: str | None = None) -> Call[v.RegistryToolList]:
        """The tools of the tenant by name; with `q`, those that fit the words, the best first."""
        return get("tools", q=q or None, state=state)

    @operation
    def get(self, name: str) -> Call[v.RegistryTool]:
        """One by its name."""
        return get("tools", name)

    @operation
    def promote(self, name: str, *, alone: bool = False) -> Call[v.RegistryTool]:
        """Let agents find a tool: a candidate, or one that was retired. `alone`: though one person alone has used it."""
        return post("tools", name, "promote", body={"alone": alone})

    @operation
    def retire(self, name: str) -> Call[v.RegistryTool]:
        """Let no agent find a tool any more. Agents that have begun keep it."""
        return post("tools", name, "retire")

    @operation
    def pin(self, name: str) -> Call[v.RegistryTool]:
        """Keep agents to the version of a workflow that is the highest now, until it is pinned again."""
        return post("tools", name, "pin")


class AgentSessionsCalls:
    """Sessions of agents: what runs with the same key know of each other."""

    @listing
    def list(
        self, *, key: str | None = None, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.AgentSession]]:
        """The sessions of the tenant by workflow, node and key; with `key` those of that key."""
        return get("agent-sessions", key=key, limit=limit, cursor=cursor)

    @operation
    def get(self, workflow: str, node: str, key: str) -> Call[v.AgentSessionDetails]:
        """What a session knows: its newest turns, the oldest first, and its notes."""
        return get("agent-sessions", workflow, node, key)

    @operation
    def delete(self, workflow: str, node: str, key: str) -> Call[v.AgentSessionDeleted]:
        """Forget a session. Runs that have begun know what they were told."""
        return delete("agent-sessions", workflow, node, key)


class Tools(ToolsCalls, Noun):
    __doc__ = ToolsCalls.__doc__


class AsyncTools(ToolsCalls, AsyncNoun):
    __doc__ = ToolsCalls.__doc__


class AgentSessions(AgentSessionsCalls, Noun):
    __doc__ = AgentSessionsCalls.__doc__


class AsyncAgentSessions(AgentSessionsCalls, AsyncNoun):
    __doc__ = AgentSessionsCalls.__doc__
