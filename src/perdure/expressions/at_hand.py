"""What templates and conditions may read without waiting: contents of blobs, verdicts of sandboxes.

Rendering and evaluating are functions of a state and of this. Content that is not at hand is raised as `NotAtHand`; the
coordinator sets the message aside, fetches the content, and decides again. Keys name content (the hash of a blob, the
hash of code and arguments), so a key never means two things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.budget import Budget, OverBudget
from perdure.expressions.errors import ContentLost, NeedsBlob, TemplateError
from perdure.kernel.segments import BlobRef, has_refs


class Lost(msgspec.Struct, frozen=True):
    """Content that was looked for and cannot be had, now or later: missing, damaged, over its limits."""

    code: str
    message: str


AtHand = Mapping[str, Any]
"""By key: the content, or `Lost`."""

NOTHING: AtHand = {}


def pick(ref: str, path: str, at_hand: AtHand) -> Any:
    """The content of a blob, which may hold references itself. Raises NeedsBlob or ContentLost."""
    if ref not in at_hand:
        raise NeedsBlob(ref, path)
    found = at_hand[ref]
    if type(found) is Lost:
        raise ContentLost(path, found.code, found.message)
    return found


def resolve(value: Any, path: str, at_hand: AtHand, budget: Budget | None = None) -> Any:
    """The value with every blob in it replaced by its content. A value without blobs is given back as it is.

    Raises NeedsBlob, ContentLost, or TemplateError where references multiply: blobs that name each other twice double
    at every level.
    """
    if type(value) is not BlobRef and not has_refs(value):
        return value
    try:
        return _replace(value, path, at_hand, budget or Budget(), {})
    except OverBudget as error:
        raise TemplateError(str(error), path=path) from None


def _replace(value: Any, path: str, at_hand: AtHand, budget: Budget, has_more: dict[str, bool]) -> Any:
    kind = type(value)
    if kind is BlobRef:
        ref, value = value.ref, pick(value.ref, path, at_hand)
        budget.spend(1)
        if ref not in has_more:
            has_more[ref] = has_refs(value)
        return _replace(value, path, at_hand, budget, has_more) if has_more[ref] else value
    if kind is dict:
        budget.spend(len(value))
        return {key: _replace(item, path, at_hand, budget, has_more) for key, item in value.items()}
    if kind is list:
        budget.spend(len(value))
        return [_replace(item, path, at_hand, budget, has_more) for item in value]
    return value
