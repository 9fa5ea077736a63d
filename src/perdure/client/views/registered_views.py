"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict

from perdure.client.views.general_views import DefinitionChanges, Problem
from perdure.client.views.trigger_views import TriggerApplied


class OwnTriggers(TypedDict):
    """What became of the triggers in a definition."""

    applied: list[TriggerApplied]
    paused: list[str]
    """Triggers that the version before had and this one no longer has."""


class Registered(TypedDict):
    name: str
    version: int
    hash: str
    created: bool
    """False if this definition was a version already."""
    problems: list[Problem]
    """The warnings of the compiler."""
    triggers: OwnTriggers


class Patched(Registered):
    changes: DefinitionChanges
