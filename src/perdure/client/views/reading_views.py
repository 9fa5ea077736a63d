"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, TypedDict


class RunPatch(TypedDict):
    """A change of the definition of one run."""

    seq: int
    """The event that recorded the patch."""
    at: float
    by: str
    reason: str
    hash: str
    """The definition that the run follows from there on."""
    patch: Any
    """The JSON Patch; null where a whole definition was given."""


class RunDefinition(TypedDict):
    run_id: str
    hash: str
    definition: dict[str, Any] | None
    """The canonical form, which always has `nodes` and `edges`; null where it is no longer kept."""
    patches: list[RunPatch]
    """Every patch up to that event, oldest first."""
