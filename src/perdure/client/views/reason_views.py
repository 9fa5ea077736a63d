"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from perdure.client.views.general_views import RunState


class AwaitedNode(TypedDict):
    node: str
    state: str


class OpenAsk(TypedDict):
    """Something that a handler asked for and that has no answer yet."""

    name: str
    kind: str
    """`approval`, `child`, `sleep` or `signal`."""
    approval_id: NotRequired[str]
    signal: NotRequired[str]
    child: NotRequired[str]
    until: NotRequired[float]


class Obstacle(TypedDict):
    code: str
    """What holds a node up: `dependencies`, `queued`, `no_worker`, `paused`, `retry`, `approval`, `signal`, `event`, `timer`, `delay`, `child`,
    `items`, `asks`, `parked`, `running`, …; for a run also `quarantined`."""
    node: NotRequired[str]
    """Which node it is, where the reason is that of the run."""
    item: NotRequired[int]
    waits_for: NotRequired[list[AwaitedNode]]
    arrived: NotRequired[list[str]]
    at_least: NotRequired[int]
    """How many of them it needs; without it, all."""
    queue: NotRequired[str]
    worker: NotRequired[str]
    until: NotRequired[float | None]
    approval_id: NotRequired[str]
    dead_letter_id: NotRequired[str]
    signal: NotRequired[str]
    event: NotRequired[str]
    key: NotRequired[str]
    """The key that the event must have; empty: any."""
    child: NotRequired[str]
    """The run that it waits for."""
    open: NotRequired[int]
    """How many items are under way."""
    error: NotRequired[str | None]
    """The code of its error."""
    asks: NotRequired[list[OpenAsk]]
    """What its handler asked for and waits for."""
    by: NotRequired[str | None]
    reason: NotRequired[str | None]
    """Why the run is paused or quarantined."""


class Explanation(TypedDict):
    run_id: str
    state: RunState
    nodes: dict[str, str]
    reasons: dict[str, Obstacle]
    """The same in codes and ids."""
    first: Obstacle | None
    """What holds the run up first; null: nothing does."""
    quarantined: NotRequired[str]
