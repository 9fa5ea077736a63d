"""The types of answers about saved views. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.general_schemas import View


class SavedView(View, frozen=True, kw_only=True):
    name: str
    query: str
    """The filter, as it stands in the address of the list of runs: `state=failed&since=24h`."""
    shared: bool
    """Whether everybody of the tenant has it."""
    saved_by: str
    saved_at: float


class SavedViewList(View, frozen=True):
    items: list[SavedView]
