"""Saved views: filters of the list of runs under a name."""

from __future__ import annotations

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, put
from perdure.client.operations import AsyncNoun, Noun, operation


class SavedViewsCalls:
    """Filters of the list of runs that were given a name: the caller's own, and those of the tenant."""

    @operation
    def list(self) -> Call[v.SavedViewList]:
        """The caller's own views and those of the tenant, by name."""
        return get("views")

    @operation
    def get(self, name: str) -> Call[v.SavedView]:
        """One by its name: the caller's own before that of the tenant."""
        return get("views", name)

    @operation
    def save(self, name: str, query: str, *, shared: bool = False) -> Call[v.SavedView]:
        """Keep a filter, as in the address of the list, under a name. One that there was under it is replaced."""
        return put("views", name, body={"query": query, "shared": shared})

    @operation
    def delete(self, name: str, *, shared: bool = False) -> Call[v.SavedView]:
        """Delete one's own view, or with `shared` that of the tenant."""
        return delete("views", name, shared=shared)


class SavedViews(SavedViewsCalls, Noun):
    __doc__ = SavedViewsCalls.__doc__


class AsyncSavedViews(SavedViewsCalls, AsyncNoun):
    __doc__ = SavedViewsCalls.__doc__
