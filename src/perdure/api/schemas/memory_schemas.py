"""The types of answers about the registry of tools and about sessions of agents. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from perdure.api.schemas.general_schemas import View


class RegistryTool(View, frozen=True, kw_only=True):
    name: str
    """What a model calls it."""
    kind: Literal["workflow", "pipeline"]
    state: Literal["live", "candidate", "retired"]
    description: str
    schema: dict[str, Any]
    """A JSON Schema of its arguments."""
    effect: Literal["read", "write", "send"]
    workflow: str | None
    version: int | None
    """The highest version that is exposed."""
    pinned: int | None
    """The version that agents are kept to."""
    steps: list[Any] | None
    """The steps of a pipeline, with `{"$param": name}` where arguments go; null for a workflow."""
    origins: list[str] | None
    """Where its requests go."""
    hash: str | None
    runs: int | None
    """In how many runs agents ran the pipeline, as far as they are counted; null for a workflow."""
    principals: int | None
    """By how many people those runs were started; null for a workflow."""
    by: str | None
    """Who decided about it last."""
    at: float | None


class RegistryToolList(View, frozen=True):
    items: list[RegistryTool]


class AgentSession(View, frozen=True, kw_only=True):
    workflow: str
    node: str
    key: str
    turns: int
    first_at: float
    last_at: float
    owner: str | None
    """The person the session belongs to; null if several share it."""


class AgentSessionPage(View, frozen=True):
    items: list[AgentSession]
    next_cursor: str | None


class SessionTurn(View, frozen=True, kw_only=True):
    run_id: str
    at: float
    owner: str
    asked: str
    said: str
    label: str
    """What it counts as: whom what the agent had read could come from."""
    summary: str
    """What was before, where that was summed up then."""


class SessionNote(View, frozen=True, kw_only=True):
    run_id: str
    at: float
    key: str
    text: str
    label: str


class AgentSessionDetails(View, frozen=True, kw_only=True):
    workflow: str
    node: str
    key: str
    turns: list[SessionTurn]
    notes: list[SessionNote]


class AgentSessionDeleted(View, frozen=True, kw_only=True):
    workflow: str
    node: str
    key: str
    turns: int
    notes: int
