"""A run and a trigger as lists show them, and a page of anything: the words that journal and archive share.

They are the journal's words, and are imported from there; they stand apart so that the port of journals can name the
archive.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

Item = TypeVar("Item")


TRIGGER_WORKFLOW = "perdure:trigger"
"""The workflow of the runs that triggers are."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a writer says about its run, beside the events. Fields marked * are stored at creation and never changed."""

    state: str
    workflow: str  # *
    workflow_version: int = 0  # *
    ir: str = ""
    partition: int = 0  # * `partition_of` the run id
    tenant: str = "default"  # *
    tags: bytes = b"{}"  # * a JSON object of strings
    generation: int = 1
    counter: int = 0
    busy: bool = False
    """Whether the run has work out with workers: a coordinator that takes it over must look at it at once."""
    created_at: float  # *
    started_at: float | None = None
    ended_at: float | None = None
    """When the run ended: this, not `state`, is what makes a run inactive."""
    error: bytes | None = None
    parent: str | None = None  # * the run whose child this is


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is read: its row, and what only the journal knows of it."""

    run_id: str
    seq: int
    commit_id: str
    quarantined: str | None = None
    """Why no coordinator may touch this run, or None."""
    row: RunRow


class TriggerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger as lists show it, derived from the run that it is."""

    tenant: str = "default"
    name: str
    trigger_id: str
    life: int = 0
    """How many triggers of this name were deleted before it."""
    head: str
    """The run that is the trigger now: itself, or the one that it has gone on as."""
    kind: str
    state: str
    """`active`, `paused`, `done` or `deleted`."""
    revision: int = 1
    workflow: str
    hook: str | None = None
    """The last part of the address of a webhook, which nobody can guess."""
    cursor: bytes = b"null"
    """In JSON. A long one is cut."""
    next_at: float | None = None
    last_at: float | None = None
    waiting: int = 0
    open: int = 0
    parked: int = 0
    error: bytes | None = None
    body: bytes = b"{}"


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened and has a topic: an event that was sent, or the end of a run."""

    position: int = 0
    """The place of the event among all, given when it is kept. A reader that has got to a position has missed none below it."""
    tenant: str = "default"
    topic: str
    key: str = ""
    id: str
    """Unique within its topic: what is put again is the same occurrence."""
    at: float
    body: bytes


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has used since its last commit, on one day and of one model: added to what the ledger has (rule 85). The amounts are
    those of `Usage`, money in millionths."""

    tenant: str
    day: str
    """In UTC, as 2026-11-18. Empty: what is set aside for calls under way, for as long as it is."""
    workflow: str
    model: str = ""
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    reasoning: int = 0
    calls: int = 0
    usd: int = 0
    unpriced: int = 0
    """How often something was used whose price is not known, and which `usd` does not hold."""
    unsettled_calls: int = 0
    """What of it counts as used because nobody knows whether it happened."""
    unsettled_usd: int = 0


class LedgerSum(msgspec.Struct, frozen=True, kw_only=True):
    """A sum of rows of the ledger, under the name that they share."""

    name: str
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    reasoning: int = 0
    calls: int = 0
    usd: int = 0
    unpriced: int = 0
    unsettled_calls: int = 0
    unsettled_usd: int = 0


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent leaves for later runs. What has the same place is the same entry, and the first stands."""

    tenant: str
    space: Literal["session", "note", "shape", "tool", "mcp"]
    """A turn of a session, a note that an agent made there, a pipeline that it ran, a tool of the registry, a tool of MCP clients."""
    name: str
    """The name of the session, of the pipeline's shape, or of the tool."""
    place: str
    """Unique under its name. Places sort as they came."""
    owner: str = ""
    """Who started the run."""
    run_id: str = ""
    at: float
    body: bytes


class EntryName(msgspec.Struct, frozen=True):
    """What there is under one name."""

    name: str
    count: int
    first_at: float
    last_at: float
    owner: str
    last_owner: str
    """The first and the last of those who own them, by name."""


class Topic(msgspec.Struct, frozen=True):
    """What of a topic has happened lately, under one key."""

    tenant: str
    topic: str
    key: str
    position: int
    """The highest of these occurrences."""
    at: float


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a run that takes in what happens on a topic."""

    tenant: str = "default"
    topic: str
    key: str = ""
    """Only what has this key; empty: everything."""
    run_id: str
    place: str
    """The name of the subscription, which no other has: a run that goes on as another leaves its place to that one."""
    since: int = 0
    """The position behind which it reads."""
    since_at: float | None = None
    """Only what happened from then on. None: it reads everything behind `since`, in order, and until then that is kept."""


class Page(msgspec.Struct, Generic[Item], frozen=True):
    items: tuple[Item, ...]
    next_cursor: str | None = None
    """The cursor to ask for the next page with; None if this is the last one."""
