"""Runs, read part by part: the definition a run follows, as a whole and as it was at any event.

It must not know HTTP or permissions.
"""

from __future__ import annotations

from perdure.service.run_definitions import definition_of
from perdure.service.starts import Starts
from perdure.service.views import View


class Readings(Starts):
    """The part of `Runs` that reads what a client draws and pages through, each of it by itself."""

    async def definition(self, run_id: str, *, at: int | None = None) -> View:
        """The definition that a run follows, now or after event `at`, with every patch that led to it."""
        record = await self._tenancy.get_run(run_id)
        return await definition_of(self._engine, record, at)
