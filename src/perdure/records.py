"""A run as lists show it: the row of a run and a page of anything, the words that journal and archive share.

They are the journal's words, and are imported from there; they stand apart so that the port of journals can name the
archive.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")


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


class Page(msgspec.Struct, Generic[Item], frozen=True):
    items: tuple[Item, ...]
    next_cursor: str | None = None
    """The cursor to ask for the next page with; None if this is the last one."""
