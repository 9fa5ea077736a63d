"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, TypedDict


class AssetVersion(TypedDict):
    name: str
    version: int
    media_type: str
    file_name: str
    """What the file is called that is downloaded."""
    size: int
    run_id: str | None
    """The run it was promoted from; null: it was uploaded."""
    node: str | None
    kept_by: str
    kept_at: float
    asset: dict[str, Any]
    """The value that stands for it, for the inputs of a run."""
