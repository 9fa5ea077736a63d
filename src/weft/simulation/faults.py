"""Chance that goes wrong: which faults there are, how often each happens in one history, and when it stops.

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
"""Per command of a journal. Reads can only crash, fail and be slow; writes are fewer, and fail more often."""
_WRITES_ONLY = ("journal_timeout_applied", "journal_timeout_lost", "journal_conflict")
_WRITES_FAIL = 4.0
TRANSPORT = (
    "transport_crash_before",
    "transport_crash_after",
    "transport_error",
    "transport_error_after",
    "transport_lose",
    "transport_duplicate",
    "transport_late_duplicate",
    "transport_hold_back",
    "transport_delay",
)
"""Per command of a transport."""
WORLD = (
    "crash",
    "shutdown",
    "stop_short",
    "stop_long",
    "clock_jump",
    "journal_outage",
    "journal_rollback",
    "transport_flush",
    "caller_gone",
)
"""Now and then."""
HANDLER = ("raise", "abort", "not_done", "retry_later", "hang", "slow", "stubborn", "huge", "garbage", "cancel_itself")
"""Per execution."""
USER = ("cancel", "force", "pause", "resume", "retry", "rollback", "signal", "vote", "requeue", "discard")
"""What people do, at any moment. Not faults, and drawn like them."""

ALL = (*JOURNAL, *TRANSPORT, *WORLD, *HANDLER, *USER)


def draw_rates(random: Random) -> dict[str, float]:
    """Each kind of trouble is absent, rare or frequent; sometimes there is none at all."""
    rates: dict[str, float] = {}
    calm = random.random() < 0.06
    for group, chance, low, high in (
        (JOURNAL, 0.45, 0.002, 0.05),
        (TRANSPORT, 0.45, 0.002, 0.08),
        (WORLD, 0.4, 0.2, 2.0),
        (HANDLER, 0.5, 0.02, 0.25),
        (USER, 0.45, 0.3, 3.0),
    ):
        share = random.choice((0.0, chance, chance, 1.0))
        for name in group:
            if not calm and random.random() < share:
                rates[name] = round(low * (high / low) ** random.random(), 4)
    return rates


class Chaos:
    """Draws faults while it lasts. `hit` counts what happened."""

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
