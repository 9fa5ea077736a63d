"""What the kernel must know before it can decide, and the answers (rule 41)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel.event_base import Scope
from perdure.kernel.values import Error
from perdure.model.ir import Condition


class Need(msgspec.Struct, frozen=True):
    """Something the kernel must know first and must not compute itself (rule 41)."""

    kind: Literal["when", "loop", "branch", "outputs", "collect", "moments", "target"]
    node: str = ""
    scope: Scope = ()
    rule: int = 0


class MomentsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What `moments` is about. The answer is `{"moments": [[nominal, due, previous, next], …], "next": due or None, "more": bool}`:
    those after `since` that are due by `until`, at most so many, in order; and when the one after them is due. With `more` there
    are further ones to find; `upto`, if given, is as far as was looked though no moment is there."""

    trigger: str
    spec: Any
    since: float
    until: float
    most: int
    nominal: bool = False
    """`until` is about the moments themselves, not about when they are due."""


class TargetAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What `target` is about. The answer is `{"version": 3, "ir": hash}`, with `inputs` where they are rendered only now; an
    error means that the item can start no run."""

    workflow: str
    spec: Any
    item: Any
    items: tuple[Any, ...] = ()
    """The items of a window, of which `item` is the last."""
    last_success: float | None = None
    """The latest moment whose run has completed (rule 57)."""


class Verdict(msgspec.Struct, frozen=True):
    """The answer to a `Need`: a value, or the error that kept it from being evaluated (never false)."""

    value: Any = None
    error: Error | None = None
    seen: Any = None
    output_ref: str | None = None
    size: int = 0


class Question(msgspec.Struct, frozen=True):
    """A need, what it is about, and everything its evaluation may read."""

    need: Need
    evidence: Any
    condition: Condition | None = None


class Needs(msgspec.Struct, frozen=True):
    questions: tuple[Question, ...]
