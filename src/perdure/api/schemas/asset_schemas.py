"""The types of answers about assets. See `schemas.py`."""

from __future__ import annotations

from typing import Any

from perdure.api.schemas.general_schemas import View


class AssetVersion(View, frozen=True, kw_only=True):
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


class AssetPage(View, frozen=True):
    items: list[AssetVersion]
    next_cursor: str | None
