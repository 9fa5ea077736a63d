"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict


class Session(TypedDict):
    session_id: str
    agent: str
    """The browser's own name for itself."""
    created_at: float
    seen_at: float
    """When it was last used, to the minute."""
    expires_at: float
    current: bool
    """Whether the request came with this session."""
