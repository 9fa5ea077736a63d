"""The checker's picture of a mailbox: which fate each item has, which runs are open, how far its cursors are."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel.triggers.mailbox import Cursor, Item, Policy

Fate = Literal["waiting", "started", "skipped", "parked", "handed"]


class Grouped(msgspec.Struct):
    """A window: its key, when the first and the last item came, and how many there were."""

    key: str
    first: float
    last: float
    count: int = 0


class Box(msgspec.Struct, kw_only=True):
    policy: Policy
    revision: int
    cursor: Cursor
    scheduled: bool
    fates: dict[int, Fate] = {}
    items: dict[int, Item] = {}
    """The items that wait or are parked."""
    runs: dict[str, int] = {}
    """Every run id, and the last item that had it."""
    open: dict[str, Item] = {}
    lanes: dict[int, tuple[float, float, int]] = {}
    """Backfills: cursor, end, and how many runs may be open."""
    windows: dict[int, Grouped] = {}
    """By the number of their first item; also those whose items have gone."""
    newest: dict[str, int] = {}
    used: float = 0.0
    """What is used up of the rate, as of `used_at`."""
    used_at: float = 0.0
    position: int = 0
    source: str = ""
    """What is polled; empty: nothing is."""
    topic: str = ""
    """What it listens to; empty: nothing."""
    polled: tuple[tuple[int, ...], int] = ((), 0)
    """The last poll that brought something: its iteration and attempt."""
    inner: bool = False
    """True for a trigger inside a run, whose items are handed to activations of its node."""
    contents: dict[int, Any] = {}
    """What such items hold that were not handed over yet."""
    outcomes: dict[tuple[int, ...], Any] = {}
    """What activations were handed that have not completed, by iteration."""

    def copy(self) -> Box:
        return msgspec.structs.replace(
            self,
            fates=dict(self.fates),
            items=dict(self.items),
            runs=dict(self.runs),
            open=dict(self.open),
            lanes=dict(self.lanes),
            windows={number: msgspec.structs.replace(one) for number, one in self.windows.items()},
            newest=dict(self.newest),
            contents=dict(self.contents),
            outcomes=dict(self.outcomes),
        )

    def overlaps(self, item: Item) -> str:
        if item.window and item.overlap is None and self.policy.overlap != "allow":
            return "buffer"
        return item.overlap or ("buffer" if item.lane else self.policy.overlap)

    def limit(self, lane: int) -> int:
        return self.lanes[lane][2] if lane else self.policy.open
