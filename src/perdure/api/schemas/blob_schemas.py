"""The types of answers about blobs. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.general_schemas import View


class BlobPut(View, frozen=True, kw_only=True):
    ref: str
    size: int


class BlobStat(View, frozen=True, kw_only=True):
    size: int
    modified_at: float
    """When the content was last put."""
