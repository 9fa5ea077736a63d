"""Seeded faults: which there are, how often each happens in one history, and when they stop.

It owns the rates and the drawing. What a fault does stands where it is injected.
"""

from __future__ import annotations

from collections import Counter
from random import Random

JOURNAL = (
    "journal_crash_before",
    "journal_crash_after",
    "journal_error",
    "journal_timeout_applied",
    "journal_timeout_lost",
    "journal_conflict",
    "journal_delay",
)
"""Faults of a journal command. Reads can only crash, fail and be slow; writes are fewer, and fail more often."""
_WRITES_ONLY = ("journal_timeout_applied", "journal_timeout_lost", "journal_conflict")
_WRITES_FAIL = 4.0
CRASHES = ("transport_crash_before", "transport_crash_after")
"""Crashes, which also happen where nothing gets lost on the way: inside one process."""
TRANSPORT = (
    *CRASHES,
    "transport_error",
    "transport_error_after",
    "transport_full",
    "transport_lose",
    "transport_duplicate",
    "transport_late_duplicate",
    "transport_hold_back",
    "transport_delay",
)
"""Faults of a transport command."""
BLOB = (
    "blob_crash_before",
    "blob_crash_after",
    "blob_error",
    "blob_full",
    "blob_timeout_applied",
    "blob_timeout_lost",
    "blob_missing",
    "blob_delay",
)
"""Faults of a blob store command; such commands are few, so they fail more often."""
WORLD = (
    "crash",
    "shutdown",
    "stop_short",
    "stop_long",
    "clock_jump",
    "journal_outage",
    "journal_rollback",
    "transport_flush",
    "transport_outage",
    "blob_outage",
    "caller_gone",
    "task_cancelled",
)
"""Faults that happen now and then, to the world as a whole."""
HANDLER = (
    "raise",
    "abort",
    "not_done",
    "retry_later",
    "hang",
    "slow",
    "stubborn",
    "huge",
    "garbage",
    "cancel_itself",
    "kill",
)
"""Faults of one execution of a handler."""
USER = (
    "cancel",
    "force",
    "pause",
    "resume",
    "retry",
    "rollback",
    "signal",
    "vote",
    "requeue",
    "discard",
    "patch",
    "rerun",
)
"""Requests of people, at any moment. They are not faults, but are drawn like them."""

ALL = (*JOURNAL, *TRANSPORT, *BLOB, *WORLD, *HANDLER, *USER)


_ATTENDED = {"vote": 1.0, "signal": 1.0, "requeue": 0.5, "discard": 0.5}
PROFILES: tuple[dict[str, float], ...] = (
    {"patch": 6.0, "pause": 0.5, "resume": 1.0, "retry": 0.5, "raise": 0.1, "rerun": 1.0, **_ATTENDED},
    {"patch": 4.0, "retry": 1.0, "raise": 0.2, "crash": 1.0, "journal_conflict": 0.05, "rollback": 0.3, **_ATTENDED},
    {"task_cancelled": 5.0, "caller_gone": 1.0, "cancel": 0.2, "pause": 0.3, "resume": 0.5, **_ATTENDED},
    {"raise": 0.3, "retry": 4.0, "rollback": 1.0, "cancel": 0.2, "force": 0.2, "rerun": 1.0, **_ATTENDED},
    dict.fromkeys(BLOB, 0.07) | {"blob_outage": 0.5, "journal_rollback": 0.3, "retry": 1.0, "rerun": 0.5},
    dict.fromkeys(TRANSPORT, 0.04) | {"transport_outage": 0.7, "transport_flush": 0.5, "pause": 0.5, "resume": 1.0},
    {"journal_rollback": 1.0, "transport_late_duplicate": 0.05, "stop_short": 0.5, "pause": 0.5, "resume": 0.5},
    dict.fromkeys(JOURNAL, 0.02) | {"pause": 0.5, "resume": 1.0, "cancel": 0.1, "retry": 1.0},
    {"stop_long": 1.5, "slow": 0.3, "hang": 0.05, "clock_jump": 0.5, "retry": 1.0},
)
"""Profiles with much of a few things: what takes several faults of one kind hardly ever happens where all kinds do."""


def draw_rates(random: Random) -> dict[str, float]:
    """Rates of trouble: each kind is absent, rare or frequent; sometimes all are absent, often a profile is used.

    Each kind is drawn by itself: one kind more leaves the rates of the others as they are.
    """
    rates: dict[str, float] = {}
    calm = random.random() < 0.06
    seed = random.getrandbits(64)
    if not calm and random.random() < 0.4:
        factor = random.choice((0.3, 1.0, 1.0, 2.0))
        return {name: round(rate * factor, 4) for name, rate in random.choice(PROFILES).items()}
    for group, chance, low, high in (
        (JOURNAL, 0.45, 0.002, 0.05),
        (TRANSPORT, 0.45, 0.002, 0.08),
        (BLOB, 0.45, 0.02, 0.2),
        (WORLD, 0.4, 0.2, 2.0),
        (HANDLER, 0.5, 0.02, 0.25),
        (USER, 0.45, 0.3, 3.0),
    ):
        share = random.choice((0.0, chance, chance, 1.0))
        for name in group:
            own = Random(f"{seed} {name}")
            if not calm and own.random() < share:
                rates[name] = round(low * (high / low) ** own.random(), 4)
    return rates


class Chaos:
    """The source of faults, until it is healed. `hit` counts what happened."""

    def __init__(self, random: Random, rates: dict[str, float]) -> None:
        self.random = random
        self.rates = rates
        self.healed = False
        self.hit: Counter[str] = Counter()
        reads = tuple(name for name in JOURNAL if name not in _WRITES_ONLY)
        self._groups: dict[str, tuple[list[tuple[str, float]], float]] = {}
        for group, names, factor in (
            ("journal_read", reads, 1.0),
            ("journal_write", JOURNAL, _WRITES_FAIL),
            ("transport", TRANSPORT, 1.0),
            ("transport_local", CRASHES, 1.0),
            ("blob", BLOB, 1.0),
            ("handler", HANDLER, 1.0),
        ):
            drawn = [(name, rates[name] * factor) for name in names if name in rates]
            self._groups[group] = (drawn, sum(rate for _, rate in drawn))

    def draw(self, group: str) -> str | None:
        """The fault of this command or execution, if it has one."""
        if self.healed:
            return None
        names, total = self._groups[group]
        if not names:
            return None
        number = self.random.random() * max(1.0, total)
        for name, rate in names:
            number -= rate
            if number < 0:
                return name
        return None

    def happened(self, name: str) -> None:
        self.hit[name] += 1
