"""Saved views: filters of the list of runs that people keep under a name, for themselves or for their tenant. It must not
know HTTP, nor what a filter means: who opens one reads it as an address.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perdure.access import Permission, name_of
from perdure.archive.kept_rows import SavedView
from perdure.errors import NotFound, Refused
from perdure.plain_text import find_name_trouble
from perdure.service.errors import Invalid, Trouble
from perdure.service.views import View

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

_NO_NAME = "the name of a view is text of 1 to 100 characters, without slashes and control characters"
MOST = 100
"""How many views an owner may have; a tenant as a whole is one."""
_NAME = re.compile(r"[^/\x00-\x1f\x7f\ud800-\udfff\ufffd]{1,100}")
"""U+FFFD stands for bytes of an address that are no text."""
SHARED = ""
"""The owner of what everybody of a tenant has."""


class SavedViews:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._owner = name_of(tenancy.principal)

    async def list(self) -> View:
        """The caller's own views and those of the tenant, by name."""
        found = []
        for owner in (self._owner, SHARED):
            found += await self._tenancy.archive.list_views(self._tenancy.tenant, owner, MOST)
        return {"items": [_describe(one) for one in sorted(found, key=lambda one: (one.name, one.owner == SHARED))]}

    async def get(self, name: str) -> View:
        """One by its name: the caller's own before that of the tenant."""
        for owner in (self._owner, SHARED) if _NAME.fullmatch(name) else ():
            found = await self._tenancy.archive.find_view(self._tenancy.tenant, owner, name)
            if found is not None:
                return _describe(found)
        raise _missing(name)

    async def save(self, name: str, query: str, *, shared: bool = False) -> View:
        """Keep a filter under a name. One that there was under it is replaced."""
        trouble = find_name_trouble(name) if _NAME.fullmatch(name) else ""
        if trouble is not None:
            message = f"the name of a view: {trouble}" if trouble else _NO_NAME
            raise Invalid(message, [Trouble("name", "bad_name", message)])
        tenancy, owner = self._tenancy, self._get_owner(shared)
        known = await tenancy.archive.list_views(tenancy.tenant, owner, MOST)
        if len(known) >= MOST and all(one.name != name for one in known):
            raise Refused(
                f"there are {MOST} saved views already, and no more are kept; delete one", code="too_many_views"
            )
        view = SavedView(
            tenant=tenancy.tenant,
            owner=owner,
            name=name,
            query=query,
            saved_by=tenancy.by,
            saved_at=tenancy.engine.clock.now(),
        )
        await tenancy.archive.save_view(view)
        return _describe(view)

    async def delete(self, name: str, *, shared: bool = False) -> View:
        """Delete one's own view, or with `shared` that of the tenant."""
        owner = self._get_owner(shared)
        named = _NAME.fullmatch(name)
        gone = await self._tenancy.archive.delete_view(self._tenancy.tenant, owner, name) if named else None
        if gone is None:
            raise _missing(name)
        return _describe(gone)

    def _get_owner(self, shared: bool) -> str:
        """The owner of the view that is written. Only those who operate runs change what everybody sees."""
        if shared:
            self._tenancy.principal.require(Permission.RUNS_OPERATE)
        return SHARED if shared else self._owner


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no saved view {name[:80]!r}")


def _describe(view: SavedView) -> View:
    return {
        "name": view.name,
        "query": view.query,
        "shared": view.owner == SHARED,
        "saved_by": view.saved_by,
        "saved_at": view.saved_at,
    }
