"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict


class BlobPut(TypedDict):
    ref: str
    size: int


class BlobStat(TypedDict):
    size: int
    modified_at: float
    """When the content was last put."""
