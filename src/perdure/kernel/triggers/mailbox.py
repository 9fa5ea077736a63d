"""The mailbox of a trigger: what has come in, what became of it, and what is decided by (rules 45 to 50).

Plain data, which events, commands and state share; no rules. A mailbox belongs to a node of type `trigger`. It is changed only
as events are folded (`facts/trigger_facts.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from perdure.kernel.values import Error

Overlap = Literal["skip", "buffer_one", "buffer", "cancel", "terminate", "allow"]
Cursor = str | float | None
"""How far a trigger has got: for a schedule the last moment that was decided on, otherwise what its source says."""

MOST_BYTES = 64 * 1024 * 1024
"""The most memory of what waits in one mailbox: the whole of it is held, also to be shown."""
SEEN = 10_000
"""How many of the latest items are known by their run ids: one that comes again is the same item."""


class Windowing(msgspec.Struct, frozen=True, omit_defaults=True):
    """How items of one key are put together, so that one run is started for all of them."""

    within: float
    """The seconds after its first item in which a window closes at the latest."""
    items: int = 1_000
    """The items it closes with."""
    quiet: float = 0.0
    """The seconds without another item after which it closes; 0: silence does not close it."""
    keep: Literal["all", "last"] = "all"
    """`last`: each item takes the place of the one before."""


class Rate(msgspec.Struct, frozen=True):
    """How many runs may be started in how many seconds."""

    limit: int
    per: float


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """What decides about the items of a trigger, with every default filled in: it is recorded with the registration."""

    workflow: str = ""
    overlap: Overlap = "skip"
    open: int = 1
    """How many runs may be open at once."""
    per_key: int = 0
    """How many runs of one key may be open at once; 0 is no limit."""
    buffer: int = 1_000
    catchup: Literal["none", "latest", "all"] = "latest"
    within: float = 86_400.0
    """Seconds after which a missed moment is not made up for."""
    max_firings: int = 0
    """How many moments are received in all; 0 is no limit."""
    on_poison: Literal["park", "stop"] = "park"
    pause_after_failures: int = 0
    """The failed runs in a row that pause the trigger; 0: none do."""
    window: Windowing | None = None
    rate: Rate | None = None


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    number: int
    id: str
    """What the source calls it; for a moment its time, for a firing by hand an id made with the command."""
    run_id: str
    """The run it starts, if it starts one (rule 47)."""
    key: str = ""
    at: float = 0.0
    """When it was received."""
    nominal: float | None = None
    """The moment of a schedule, without jitter."""
    previous: float | None = None
    next: float | None = None
    lane: int = 0
    """0: as it comes. A backfill has a lane of its own."""
    round: int = 0
    depth: int = 0
    """How many triggers led to it."""
    overlap: Overlap | None = None
    """What this item says otherwise than the policy."""
    by_hand: bool = False
    by: str = ""
    """Who asked for its run, where a person did: fired it, or let it in again (X17)."""
    window: int = 0
    """The window that it is in, by the number of the first item of that; 0: none."""
    size: int = 0
    """The bytes that it takes in memory, roughly."""
    inputs: Any = None
    """The inputs of the run; of an item in a window, the item itself. Events keep those of all their items in a field of their own."""


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """An item that was pushed, mapped under a revision of the spec."""

    id: str
    key: str = ""
    inputs: Any = None
    error: Error | None = None
    """Why it could not be mapped."""
    depth: int = 0
    size: int = 0
    """The bytes that the mailbox holds of it in memory, as the mapping estimates it."""


class Begun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run that a trigger starts."""

    numbers: tuple[int, ...]
    run_id: str
    workflow: str
    version: int = 1
    ir: str = ""


class Over(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a trigger that has ended."""

    run_id: str
    number: int
    state: Literal["completed", "failed", "cancelled", "rolled_back", "lost", "duplicate"]


class Firing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run that was started and has not been heard to end."""

    number: int
    key: str = ""
    lane: int = 0
    moment: float | None = None
    """The moment of a schedule that it is for."""
    at: float = 0.0
    """When its item, the last one of a window, was received."""


class Parked(msgspec.Struct, frozen=True, omit_defaults=True):
    item: Item
    error: Error


class Lane(msgspec.Struct, omit_defaults=True):
    """A backfill: the moments after `cursor` up to `until`, beside those that come (rule 58)."""

    cursor: float
    until: float
    round: int = 0
    open: int = 1


class Window(msgspec.Struct, omit_defaults=True):
    """Items of one key that start one run."""

    key: str
    first: float
    """When its first item was received."""
    last: float
    numbers: list[int] = []


class Mailbox(msgspec.Struct, kw_only=True, omit_defaults=True):
    trigger: str
    """The id that the runs of its items derive theirs from."""
    name: str
    kind: str
    spec: Any = None
    policy: Policy = Policy()
    revision: int = 1
    cursor: Cursor = None
    by: str = ""
    """Who registered it as it is."""
    hook: str = ""
    """The last part of the address that it is delivered to."""
    position: int = 0
    """The number of the last item."""
    last_at: float = 0.0
    """When that came."""
    counted: int = 0
    """How many moments were received as they came, which `max_firings` bounds."""
    round: int = 0
    waiting: dict[int, Item] = {}
    bytes: int = 0
    """What those that wait take in memory, roughly."""
    apart: int = 0
    """How many of those that wait are in a lane, or say how they overlap."""
    open: dict[str, Firing] = {}
    parked: dict[int, Parked] = {}
    lanes: dict[int, Lane] = {}
    laned: int = 0
    """The number of the last lane."""
    windows: dict[int, Window] = {}
    """By the number of their first item."""
    newest: dict[str, int] = {}
    """The window of each key that may take further items."""
    level: float = 0.0
    """How much of the rate was used up when a run was last started, at `level_at`."""
    level_at: float = 0.0
    failures: int = 0
    """How many runs have failed in a row."""
    succeeded: float | None = None
    """The latest moment whose run has completed (rule 57)."""
    skipped: dict[str, int] = {}
    """How many items and moments have started no run, by reason."""
    seen: dict[str, int] = {}
    """The latest items: run id to number."""
    recent: list[str] = []
    """The run ids in `seen`, in order, behind `head`."""
    head: int = 0
    source: str = ""
    """Which source is polled, as a name for what its items are; empty: nothing is polled."""
    manner: str = ""
    """How it is polled. A revision that changes this, and not the source, goes on from the cursor."""
    begins: str = ""
    """Where reading begins without a cursor, if a revision says so: `start` or `end`."""
    topic: str = ""
    """What it listens to: the cursor is the position up to which that was taken in. Empty: nothing."""
    polled: int = 0
    """The last attempt whose items, or whose cursor, came in."""
    polled_in: tuple[int, ...] = ()
    """The iteration of that attempt."""
    more: bool = False
    """The source said that it has more at once."""
    ended: bool = False
    """The source said that nothing will come any more."""
    last: str = ""
    """The id of the last item that a poll brought."""
    missed: tuple[float, float] | None = None
    """What the present pause has kept from running: the cursor before the first moment, and the last one."""
    inner: bool = False
    """True for a trigger inside a run: its items start no runs, they are handed to activations of the node (rule 54)."""
    again: str = ""
    """The id of the item up to which a rewind runs everything again, in this round; empty: there is no such rewind."""

    def mode(self, item: Item) -> Overlap:
        """What happens to an item that comes while as many runs are open as may be."""
        if item.overlap is not None:
            return item.overlap
        if item.window and self.policy.overlap != "allow":
            return "buffer"
        return "buffer" if item.lane else self.policy.overlap

    def limit(self, lane: int) -> int:
        found = self.lanes.get(lane)
        return self.policy.open if found is None else found.open


def has_room(box: Mailbox) -> bool:
    """Whether more is read: what the cursor has passed is never dropped, so that one page may lead beyond the limits."""
    return len(box.waiting) < box.policy.buffer and box.bytes < MOST_BYTES


def sort(box: Mailbox) -> Mailbox:
    """A copy of the mailbox with its dictionaries in order, whichever order they came to be in: equal ones have equal bytes."""
    return msgspec.structs.replace(
        box,
        waiting=dict(sorted(box.waiting.items())),
        open=dict(sorted(box.open.items())),
        parked=dict(sorted(box.parked.items())),
        lanes={number: msgspec.structs.replace(lane) for number, lane in sorted(box.lanes.items())},
        windows={
            number: msgspec.structs.replace(window, numbers=list(window.numbers))
            for number, window in sorted(box.windows.items())
        },
        newest=dict(sorted(box.newest.items())),
        skipped=dict(sorted(box.skipped.items())),
        seen=dict(sorted(box.seen.items())),
        recent=box.recent[box.head :],
        head=0,
    )


def strip(box: Mailbox) -> Mailbox:
    """The mailbox without the inputs of its items, which an event keeps in a field of their own."""
    return msgspec.structs.replace(
        box,
        waiting={n: msgspec.structs.replace(item, inputs=None) for n, item in box.waiting.items()},
        parked={
            n: msgspec.structs.replace(one, item=msgspec.structs.replace(one.item, inputs=None))
            for n, one in box.parked.items()
        },
    )


def run_of_moment(trigger: str, nominal: float, turn: int = 0) -> str:
    """The run of a moment: the same wherever it is computed, and however often the moment is looked at (rule 47). `turn` is the
    round of a backfill that runs it again."""
    whole = f"{nominal:.3f}".removesuffix(".000").replace(".", "-")
    return f"{trigger}~t{whole}" + (f".{turn}" if turn else "")


def run_of_window(trigger: str, ids: Iterable[str]) -> str:
    """The run of a window: of the ids in it, in their order."""
    whole = msgspec.json.encode(list(ids))
    return f"{trigger}~w{hashlib.sha256(whole).hexdigest()[:32]}"


def run_of_item(trigger: str, id: str, turn: int = 0, *, by_hand: bool = False) -> str:
    name = hashlib.sha256(f"{turn}:{id}".encode()).hexdigest()[:32]
    return f"{trigger}~{'m' if by_hand else 'i'}{name}"
