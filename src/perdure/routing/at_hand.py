"""What templates and conditions may read without waiting: contents of blobs, verdicts of sandboxes.

Rendering and evaluating are functions of a state and of this. What is not at hand is raised as `NotAtHand`; the
coordinator sets the message aside, fetches it, and decides again. Keys name content (the hash of a blob, the hash of code
and arguments), so a key never means two things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.kernel.segments import BlobRef, has_refs
from perdure.routing.errors import ContentLost, NeedsBlob


class Lost(msgspec.Struct, frozen=True):
    """What was looked for and cannot be had, now or later: missing, damaged, over its limits."""

    code: str
    message: str


AtHand = Mapping[str, Any]
"""By key: the content, or `Lost`."""

NOTHING: AtHand = {}


def take(ref: str, path: str, at_hand: AtHand) -> Any:
    """The content of a blob; it may hold references itself. Raises NeedsBlob, or ContentLost."""
    if ref not in at_hand:
        raise NeedsBlob(ref, path)
    found = at_hand[ref]
    if type(found) is Lost:
        raise ContentLost(path, found.code, found.message)
    return found


def resolve(value: Any, path: str, at_hand: AtHand) -> Any:
    """The value with every blob in it replaced by its content. What has none is given back as it is."""
    if type(value) is not BlobRef and not has_refs(value):
        return value
    return _replace(value, path, at_hand)


def _replace(value: Any, path: str, at_hand: AtHand) -> Any:
    kind = type(value)
    if kind is BlobRef:
        return resolve(take(value.ref, path, at_hand), path, at_hand)
    if kind is dict:
        return {key: _replace(item, path, at_hand) for key, item in value.items()}
    if kind is list:
        return [_replace(item, path, at_hand) for item in value]
    return value
