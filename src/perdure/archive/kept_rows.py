"""What people keep under a name: filters of lists, and files that outlive their run."""

from __future__ import annotations

import msgspec


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of a list that was given a name."""

    tenant: str
    owner: str
    """The credential whose view it is; empty: everybody of the tenant has it."""
    name: str
    query: str
    """The filter, as it stands in the address of the list."""
    saved_by: str
    saved_at: float


class AssetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a file that outlives the run it came from."""

    tenant: str
    name: str
    version: int = 0
    """The database gives it, from 1 on."""
    ref: str
    media_type: str
    file_name: str
    size: int
    preview: str = ""
    """What is known of its preview, as JSON; empty: there is none."""
    run_id: str = ""
    """Where it came from; empty: it was uploaded."""
    node: str = ""
    kept_by: str
    kept_at: float
