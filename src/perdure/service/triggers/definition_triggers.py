"""The triggers in a definition: applied when it is registered. Those that vanish from it are paused, never deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.errors import NotFound, PerdureError, Refused
from perdure.model import DefinitionError
from perdure.service.tenancy import Tenancy
from perdure.service.triggers.trigger_reader import TriggerReader
from perdure.service.triggers.triggers import Triggers
from perdure.service.views import View


class OwnTriggers:
    """The triggers of a definition that is about to be registered, and of the version before it."""

    def __init__(self, tenancy: Tenancy, definition: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        self._triggers = Triggers(tenancy)
        self._reader = TriggerReader(tenancy)
        self._name = str(definition["name"])
        self._found = [{"workflow": self._name, **one} for one in definition.get("triggers", ())]
        names = {one["name"] for one in self._found}
        self._gone = [str(one["name"]) for one in before.get("triggers", ()) if one["name"] not in names]

    async def check(self) -> None:
        """Raises DefinitionError with what is wrong about all of them here, before anything is stored."""
        problems = []
        for place, one in enumerate(self._found):
            problems += [
                msgspec.structs.replace(problem, path=f"triggers.{place}.{problem.path}".rstrip("."))
                for problem in await self._reader.find_problems(one, self._name)
                if problem.severity == "error"
            ]
        if problems:
            raise DefinitionError(problems)

    async def apply(self, version: int) -> View:
        """Apply them all, and pause those that are gone. Raises Refused with what was not applied; the rest is."""
        applied, refused = [], []
        for one in self._found:
            try:
                applied.append(await self._triggers.apply(one, own=self._name))
            except PerdureError as error:
                if error.status >= 500:
                    raise
                refused.append(error)
        paused = [one for one in self._gone if await self._pause(one)]
        if refused:
            said = "; ".join(error.message for error in refused)
            message = f"{self._name} is version {version}, but not all of its triggers were applied: {said}"
            raise Refused(message, code=refused[0].code)
        return {"applied": applied, "paused": paused}

    async def _pause(self, trigger: str) -> bool:
        """Pause a trigger that its workflow no longer has. False: there is none that starts this workflow."""
        try:
            view = await self._triggers.get(trigger)
        except NotFound:
            return False
        if view["state"] != "active" or view["workflow"].partition("@")[0] != self._name:
            return False
        await self._triggers.pause(trigger, reason=f"it is no longer in the definition of {self._name}")
        return True
