"""What is seen beside the journal: which worker executes which attempt now.

A start is not an event, because it would cost an append per attempt (PROTOCOL 7), so the journal of a run says `queued`
while a worker runs it. The service that shows a run asks the workers and lays their answers over the state. Those are
never stored and decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from perdure.kernel.lifecycle import NodeState
from perdure.kernel.state import Activation, Key, State, key_of

DEEPEST_PROGRESS = 200
"""Brackets in what a handler says of how far it is, so that it is never too deep to be shown."""


class Working(msgspec.Struct, frozen=True):
    """A worker that says it executes the current attempt of an activation."""

    worker: str
    since: float | None = None
    """When the handler was called; None when the worker does not say."""
    host: str = ""
    pid: int = 0
    silent_seconds: float = 0.0
    """Seconds since the worker was last heard of."""
    progress: str = ""
    """How far the handler says it is, as JSON; empty if it does not say."""


class Seen(msgspec.Struct, frozen=True):
    working: Mapping[Key, Working] = {}
    blind: str = ""
    """Why it cannot be known from here whether an attempt runs; empty when it can."""

    def find(self, activation: Activation) -> Working | None:
        return self.working.get(activation.key) if activation.state is NodeState.QUEUED else None

    def state(self, activation: Activation) -> NodeState:
        return activation.state if self.find(activation) is None else NodeState.RUNNING

    def count_items(self, owner: Activation) -> int:
        """How many items of a map are being executed now."""
        if not owner.items_started:
            return 0
        keys = (key_of(owner.node, owner.scope, item) for item in range(owner.items_started))
        return sum(key in self.working for key in keys) if self.working else 0

    def started_at(self, state: State) -> float | None:
        """When the first attempt of the run began."""
        begun = [one.since for one in self.working.values() if one.since is not None]
        return min([*begun, *([] if state.started_at is None else [state.started_at])], default=None)


JOURNAL = Seen()
"""The view with nothing but what the journal says."""
