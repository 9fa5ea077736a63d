"""The types of parts of values, and of what nodes and items were given. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Maybe, Node, View

ValueKind = Literal["object", "array", "string", "number", "boolean", "null"]


class Entry(View, frozen=True, kw_only=True):
    key: str | int
    kind: Literal["object", "array", "string", "number", "boolean", "null", "stored"]
    """`stored`: a blob of its own; the pointer leads into it all the same."""
    size: Maybe[int] = UNSET
    """How many bytes its JSON has."""
    ref: Maybe[str] = UNSET
    value: Any = UNSET
    """The value, if its JSON has at most 200 bytes."""


class Slice(View, frozen=True, kw_only=True):
    """A part of a value, one level deep."""

    kind: ValueKind
    length: int
    """How many entries, or characters of a text, there are in all."""
    entries: Maybe[list[Entry]] = UNSET
    text: Maybe[str] = UNSET
    value: Any = UNSET
    more: bool


class NodeInput(View, frozen=True, kw_only=True):
    run_id: str
    node: str
    visit: int
    attempt: int
    """The number of the attempt, as in the events of the run."""
    scope: list[int]
    item: int | None
    config: Any
    """The rendered config; secrets and sensitive fields are masked."""
    inputs: Any
    problem: str | None
    """Why the config cannot be derived."""


class MapItem(Node, frozen=True, kw_only=True):
    item: int


class MapItemPage(View, frozen=True, kw_only=True):
    items: list[MapItem]
    next_cursor: str | None
