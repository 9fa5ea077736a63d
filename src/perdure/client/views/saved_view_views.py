"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict


class SavedView(TypedDict):
    name: str
    query: str
    """The filter, as it stands in the address of the list of runs: `state=failed&since=24h`."""
    shared: bool
    """Whether everybody of the tenant has it."""
    saved_by: str
    saved_at: float


class SavedViewList(TypedDict):
    items: list[SavedView]
