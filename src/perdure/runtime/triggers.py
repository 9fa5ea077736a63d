"""The triggers of an engine: registered, fired and given what was pushed (rules 45 to 50).

A trigger is a run of a built-in workflow, so each request here is a request about that run. It must not know where a spec comes from, nor
who asks.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from perdure.clock import Clock
from perdure.errors import Refused
from perdure.journal import Journal
from perdure.kernel.commands import Delivered
from perdure.kernel.segments import has_refs, pack
from perdure.kernel.triggers.mailbox import Mailbox, Overlap, Policy
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.model import ir as irs
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.heard import topic_of
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.runtime.coordinator.triggers.poll_tasks import POLLED, names_of
from perdure.runtime.coordinator.triggers.schedules import policy_of, spec_of
from perdure.runtime.runs import Runs
from perdure.settings import Settings

_SUCCESSOR_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class Triggers:
    def __init__(self, runs: Runs, library: Library, journal: Journal, clock: Clock, settings: Settings) -> None:
        self._runs = runs
        self._journal = journal
        self._clock = clock
        self._library = library
        self.most = settings.max_triggers
        """How many triggers a tenant may have."""
        self.allow_unsigned = settings.allow_unsigned_hooks
        """Whether webhooks may prove nothing."""

    async def register(
        self,
        name: str,
        kind: str,
        spec: Any,
        policy: Policy,
        *,
        tenant: str = "default",
        by: str = "",
        hook: str = "",
        life: int = 0,
        names: tuple[str, str] = ("", ""),
        begins: str = "",
        topic: str = "",
        cursor: str = "",
    ) -> Reply:
        """Make a trigger, or give it its next revision; the same spec again changes nothing. A new one takes `hook` for the last part
        of its address. `life` is how many of the same name were deleted before. `names` say what is polled and how, `begins` where another
        source begins: start, end or cursor. `topic` is what it listens to, and `cursor` the last that has happened."""
        run_id = trigger_id(tenant, name, life)
        await self._library.put(TRIGGER.hash, "ir", irs.encode(TRIGGER))
        start = Request(kind="start", run_id=run_id, tenant=tenant, ir=TRIGGER.hash, workflow_version=0, by=by)
        reply = await self._runs.request(start)
        if reply.refused and reply.code != "exists":
            return reply
        fields = {"name": name, "kind": kind, "spec": spec, "policy": msgspec.to_builtins(policy), "hook": hook}
        fields |= {"source": names[0], "manner": names[1], "begins": begins, "topic": topic, "cursor": cursor}
        return await self._ask(run_id, "register", fields, by)

    async def apply(
        self,
        trigger: Trigger,
        *,
        tenant: str = "default",
        by: str = "",
        hook: str = "",
        life: int = 0,
        begins: str = "",
    ) -> Reply:
        """Register a trigger as it was declared. `begins` says where another source begins."""
        spec, policy = spec_of(trigger), policy_of(trigger)
        about: dict[str, Any] = {"tenant": tenant, "by": by, "hook": hook, "life": life}
        if trigger.kind in POLLED:
            about |= {"names": names_of(trigger), "begins": begins or getattr(trigger.source, "from_", "")}
        if topic := topic_of(trigger):
            # Read first: what happens from here on is behind this, and what happened before is no item.
            about |= {"topic": topic, "cursor": str(await self._journal.last_occurrence())}
        return await self.register(trigger.name, trigger.kind, spec, policy, **about)

    async def deliver(
        self, name: str, items: list[Delivered], revision: int, *, tenant: str = "default", life: int = 0
    ) -> Reply:
        """Give a trigger what was pushed, mapped under a revision of its spec. Where it gathers items in windows, their inputs are the
        items themselves: templates are filled in when the window closes."""
        given = [
            {  # inputs as they are: they may be references to blobs
                "id": one.id,
                "key": one.key,
                "inputs": one.inputs,
                "error": msgspec.to_builtins(one.error),
                "depth": one.depth,
                "size": one.size,
            }
            for one in items
        ]
        fields = {"items": given, "revision": revision}
        return await self._ask(trigger_id(tenant, name, life), "deliver", fields)

    async def fire(
        self,
        name: str,
        firing: str,
        revision: int,
        *,
        inputs: Any = None,
        overlap: Overlap | None = None,
        tenant: str = "default",
        by: str = "",
        life: int = 0,
    ) -> Reply:
        """Start a run now. `firing` is made with the request: asked again, it is the same firing."""
        fields = {"firing": firing, "revision": revision, "inputs": inputs, "overlap": overlap}
        return await self._ask(trigger_id(tenant, name, life), "fire", fields, by)

    async def backfill(
        self,
        name: str,
        since: float,
        until: float,
        *,
        again: bool = False,
        open_: int = 1,
        tenant: str = "default",
        by: str = "",
        life: int = 0,
    ) -> Reply:
        """Start runs for moments of the past, `open_` at a time; with `again` also for those that have had one."""
        fields = {"since": since, "until": until, "again": again, "open": open_}
        return await self._ask(trigger_id(tenant, name, life), "backfill", fields, by)

    async def rewind(
        self,
        name: str,
        cursor: str | None,
        *,
        reason: str,
        again: bool = False,
        tenant: str = "default",
        by: str = "",
        life: int = 0,
    ) -> Reply:
        """Read a source from another cursor on; with `again`, what has had a run gets another one."""
        fields = {"cursor": cursor, "again": again, "reason": reason}
        return await self._ask(trigger_id(tenant, name, life), "rewind", fields, by)

    async def settle(
        self,
        name: str,
        number: int,
        as_: Literal["again", "skip"],
        *,
        key: str = "",
        inputs: Any = None,
        revision: int = 0,
        tenant: str = "default",
        by: str = "",
        life: int = 0,
    ) -> Reply:
        """Decide on a parked item: it waits again, mapped under a revision, or is skipped."""
        fields = {"number": number, "as_": as_, "key": key, "inputs": inputs, "revision": revision}
        return await self._ask(trigger_id(tenant, name, life), "settle", fields, by)

    async def change(
        self,
        name: str,
        kind: Literal["pause", "resume", "cancel"],
        *,
        reason: str = "",
        catch_up: bool = False,
        tenant: str = "default",
        by: str = "",
        life: int = 0,
    ) -> Reply:
        """Pause the trigger, resume it, or delete it (`cancel`). `catch_up`: it makes up for what the pause kept from running."""
        request = Request(kind=kind, run_id=trigger_id(tenant, name, life), reason=reason, by=by, catch_up=catch_up)
        return await self._follow(request)

    async def get(self, name: str, *, tenant: str = "default", life: int = 0) -> Mailbox:
        """What a trigger holds. Raises NotFound."""
        run_id = trigger_id(tenant, name, life)
        state = await self._runs.state(run_id)
        while state.continued_as is not None and await self._runs.exists(state.continued_as):
            state = await self._runs.state(state.continued_as)
        if NODE not in state.triggers:
            raise Refused(f"trigger {name} is not registered", code="not_registered")
        return state.triggers[NODE]

    async def _ask(self, run_id: str, command: str, fields: dict[str, Any], by: str = "") -> Reply:
        request = Request(kind="mailbox", run_id=run_id, name=command, data=fields, by=by)
        if has_refs(fields):
            request = msgspec.structs.replace(request, data=pack(fields, secrets=False), refs=True)
        return await self._follow(request)

    async def _follow(self, request: Request) -> Reply:
        """Ask the run that is the trigger now: what comes for one that has gone on is told where (rule 52)."""
        until, followed = self._clock.monotonic() + _SUCCESSOR_SECONDS, False
        while True:
            reply = await self._runs.request(request)
            if reply.code == "continued":
                request, followed = msgspec.structs.replace(request, run_id=reply.continued_as), True
            elif reply.code == "not_found" and followed and self._clock.monotonic() < until:
                await self._clock.sleep(_LOOK_SECONDS)  # it is about to begin
            else:
                return reply


def trigger_id(tenant: str, name: str, life: int = 0) -> str:
    """The id of a trigger. Ids that people choose have no `~`, so no run can be in its place. One that is made after another of its
    name was deleted is another trigger: the items of the one before are none of its own (rule 47)."""
    named = f"trigger~x{hashlib.sha256(f'{tenant}:{name}'.encode()).hexdigest()[:24]}"
    return f"{named}.{life}" if life else named
