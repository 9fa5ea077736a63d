"""What the attempts of one worker have streamed, for figures. It is added up by batches, never by chunks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Streamed:
    yielded: int = 0
    yielded_bytes: int = 0
    read: int = 0
    unread: int = 0
    """Chunks that the slowest readers of streams which are yielded here have not taken, as it was when that was last looked at."""
    stalls: int = 0
    """How often a producer went on without its slowest reader, which did not move."""
