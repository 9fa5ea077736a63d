"""Lists as parameters of SQLite. What is the same for every database stands in `perdure.journals.rows`."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


def as_json(values: Collection[int] | Collection[str] | None) -> str | None:
    """SQLite takes it apart with json_each."""
    return None if values is None else msgspec.json.encode(list(values)).decode()
