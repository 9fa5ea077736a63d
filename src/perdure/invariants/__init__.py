"""docs/internals/invariants.md, checked over a journal by a model of its own.

Shares nothing with the kernel but the event types: what a token, an edge, a scope, an attempt or a timer is stands here
a second time, written from docs/internals/semantics.md, so that a mistake in one of the two shows. Property tests and
the simulator feed it every event as it is decided; `perdure doctor` feeds it a journal.

    check(events, library) -> list[Violation]        library: IRs by hash, as for the kernel
    Checker(library).feed(event) -> list[Violation]  the same, event by event; about constant cost each
"""

from __future__ import annotations

from perdure.invariants.checker import Checker, check
from perdure.invariants.model import Violation

__all__ = ["Checker", "Violation", "check"]
