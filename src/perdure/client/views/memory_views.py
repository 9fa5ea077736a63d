"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class RegistryTool(TypedDict):
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


class RegistryToolList(TypedDict):
    items: list[RegistryTool]


class AgentSession(TypedDict):
    workflow: str
    node: str
    key: str
    turns: int
    first_at: float
    last_at: float
    owner: str | None
    """The person the session belongs to; null if several share it."""


class SessionTurn(TypedDict):
    run_id: str
    at: float
    owner: str
    asked: str
    said: str
    label: str
    """What it counts as: whom what the agent had read could come from."""
    summary: str
    """What was before, where that was summed up then."""


class SessionNote(TypedDict):
    run_id: str
    at: float
    key: str
    text: str
    label: str


class AgentSessionDetails(TypedDict):
    workflow: str
    node: str
    key: str
    turns: list[SessionTurn]
    notes: list[SessionNote]


class AgentSessionDeleted(TypedDict):
    workflow: str
    node: str
    key: str
    turns: int
    notes: int
