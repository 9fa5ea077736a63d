"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from perdure.client.views.general_views import Node

ValueKind = Literal["object", "array", "string", "number", "boolean", "null"]


class Entry(TypedDict):
    key: str | int
    kind: Literal["object", "array", "string", "number", "boolean", "null", "stored"]
    """`stored`: a blob of its own; the pointer leads into it all the same."""
    size: NotRequired[int]
    """How many bytes its JSON has."""
    ref: NotRequired[str]
    value: NotRequired[Any]
    """The value, if its JSON has at most 200 bytes."""


class Slice(TypedDict):
    """A part of a value, one level deep."""

    kind: ValueKind
    length: int
    """How many entries, or characters of a text, there are in all."""
    entries: NotRequired[list[Entry]]
    text: NotRequired[str]
    value: NotRequired[Any]
    more: bool


class NodeInput(TypedDict):
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


class MapItem(Node):
    item: int
