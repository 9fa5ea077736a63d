"""What templates and conditions may read without waiting: contents of blobs, verdicts of sandboxes.

Rendering and evaluating are functions of a state and of this. What is not at hand is raised as `NotAtHand`; the
coordinator sets the message aside, fetches it, and decides again. Keys name content (the hash of a blob, the hash of code
and arguments), so a key never means two things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Lost(msgspec.Struct, frozen=True):
    """What was looked for and cannot be had, now or later: missing, damaged, over its limits."""

    code: str
    message: str


AtHand = Mapping[str, Any]
"""By key: the content, or `Lost`."""

NOTHING: AtHand = {}
