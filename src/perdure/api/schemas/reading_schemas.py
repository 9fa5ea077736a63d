"""The types of answers that read a run part by part. See `schemas.py`."""

from __future__ import annotations

from typing import Any

from perdure.api.schemas.general_schemas import View


class RunPatch(View, frozen=True, kw_only=True):
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


class RunDefinition(View, frozen=True, kw_only=True):
    run_id: str
    hash: str
    definition: dict[str, Any] | None
    """The canonical form, which always has `nodes` and `edges`; null where it is no longer kept."""
    patches: list[RunPatch]
    """Every patch up to that event, oldest first."""
