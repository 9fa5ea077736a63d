"""The checker's picture of a mailbox: which fate each item has, which runs are open, how far its cursors are."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.kernel.mailbox import Cursor, Item, Policy

Fate = Literal["waiting", "started", "skipped", "parked"]


class Box(msgspec.Struct, kw_only=True):
    policy: Policy
    revision: int
    cursor: Cursor
    scheduled: bool
    fates: dict[int, Fate] = {}
    items: dict[int, Item] = {}
    """Those that wait or are parked."""
    runs: dict[str, int] = {}
    """Every run id, and the last item that had it."""
    open: dict[str, Item] = {}
    lanes: dict[int, tuple[float, float, int]] = {}
    """Backfills: cursor, end, and how many runs may be open."""
    position: int = 0

    def copy(self) -> Box:
        return msgspec.structs.replace(
            self,
            fates=dict(self.fates),
            items=dict(self.items),
            runs=dict(self.runs),
            open=dict(self.open),
            lanes=dict(self.lanes),
        )

    def overlaps(self, item: Item) -> str:
        return item.overlap or ("buffer" if item.lane else self.policy.overlap)

    def limit(self, lane: int) -> int:
        return self.lanes[lane][2] if lane else self.policy.open
