"""The types of answers about definitions that were registered. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.general_schemas import DefinitionChanges, Problem, View
from perdure.api.schemas.trigger_schemas import TriggerApplied


class OwnTriggers(View, frozen=True, kw_only=True):
    """What became of the triggers in a definition."""

    applied: list[TriggerApplied]
    paused: list[str]
    """Triggers that the version before had and this one no longer has."""


class Registered(View, frozen=True, kw_only=True):
    name: str
    version: int
    hash: str
    created: bool
    """False if this definition was a version already."""
    problems: list[Problem]
    """The warnings of the compiler."""
    triggers: OwnTriggers


class Patched(Registered, frozen=True, kw_only=True):
    changes: DefinitionChanges
