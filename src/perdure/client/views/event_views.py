"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict


class EventSent(TypedDict):
    name: str
    id: str
    key: str
    position: int
    """The place of the event among all events: a later one has a higher number."""
    duplicate: bool
    """An event of this name had the id before: nothing has happened."""
    listeners: int
    """How many triggers and waiting runs listened to the name, and to the key where they name one, when it was sent; 1000: at least so many. A `match` or
    `filter` may still turn it away."""
    other_keys: int
    """Where none did, how many waited for the name under another key."""
    kept_until: float
    """Until then runs that have begun before it was sent find it, unless more than `max_events` come."""
