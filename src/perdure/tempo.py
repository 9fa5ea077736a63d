"""How often processes say that they live, and how long the others wait before they conclude anything from silence.

One value that is passed whole; the numbers stand here and nowhere else. Each of them is also a setting with a name of
its own.
"""

from __future__ import annotations

import msgspec


class Tempo(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_seconds: float = 5.0
    """How often a worker says that it lives."""
    late_seconds: float = 1.0
    """How late a beat may be, where that decides whether a task is called missing."""
    dead_seconds: float = 15.0
    """Silence after which a worker counts as dead."""
    sweep_seconds: float = 15.0
    """How often the journal is compared with what is really under way."""
    lease_seconds: float = 10.0
    """How long a coordinator that went silent keeps its share of the runs."""
    stale_seconds: float = 30.0
    """Age at which a result that was received and not acknowledged is handed to another coordinator."""
    look_for_stale_seconds: float = 15.0
    """How often a coordinator looks for such results."""


TEMPO = Tempo()

GRACE_SECONDS = 10.0
"""How long a process that is to end lets handlers and requests finish before it cuts them off."""
