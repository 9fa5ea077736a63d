"""What a run may begin with: outcomes of another run, and what its triggers hold."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.values import Flow


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome taken over from another run (rerun, continuation)."""

    node: str
    output: Any = None
    output_ref: str | None = None
    size: int = 0
    taken: tuple[str, ...] | None = None
    rejected: bool = False
    previous: bool = False
    """The looping node's outcome in the iteration before the first one here (`loop.previous`)."""
    flow: Flow | None = None
    """The stream of the node, which has ended."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """The mailbox of a trigger that goes on as a new run."""

    node: str
    mailbox: Mailbox
    inputs: Any = None
    """The inputs of its items, by number."""
    due_at: float | None = None
    """When its timer is due."""
