"""The triggers of an engine: registered, fired and given what was pushed (rules 45 to 50).

A trigger is a run of a built-in workflow, so each request here is a request about that run. It must not know where a spec comes from, nor
who asks.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.errors import Refused
from perdure.kernel.commands import Delivered
from perdure.kernel.mailbox import Mailbox, Overlap, Policy
from perdure.kernel.trigger_run import NODE, TRIGGER
from perdure.model import ir as irs
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.runtime.coordinator.schedules import policy_of, spec_of
from perdure.runtime.runs import Runs

BUILT = ("schedule", "webhook")
"""The kinds of triggers that coordinators drive."""
_SUCCESSOR_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class Triggers:
    def __init__(self, runs: Runs, library: Library, clock: Clock) -> None:
        self._runs = runs
        self._clock = clock
        self._library = library

    async def register(
        self, name: str, kind: str, spec: Any, policy: Policy, *, tenant: str = "default", by: str = ""
    ) -> Reply:
        """Make a trigger, or give it its next revision; the same spec again changes nothing."""
        run_id = trigger_id(tenant, name)
        await self._library.put(TRIGGER.hash, "ir", irs.encode(TRIGGER))
        start = Request(kind="start", run_id=run_id, tenant=tenant, ir=TRIGGER.hash, workflow_version=0, by=by)
        reply = await self._runs.request(start)
        if reply.refused and reply.code != "exists":
            return reply
        fields = {"name": name, "kind": kind, "spec": spec, "policy": msgspec.to_builtins(policy)}
        return await self._ask(run_id, "register", fields, by)

    async def apply(self, trigger: Trigger, *, tenant: str = "default", by: str = "") -> Reply:
        """Register a trigger as it was declared. Raises Refused for what is not built yet."""
        missing = [
            name
            for name, found in (
                ("a source of this kind", trigger.kind not in BUILT),
                ("batch", trigger.batch),
                ("debounce", trigger.debounce),
                ("limits.rate", trigger.limits.rate),
            )
            if found
        ]
        if missing:
            raise Refused(f"trigger {trigger.name}: {', '.join(missing)} cannot be used yet", code="trigger_not_built")
        spec, policy = spec_of(trigger), policy_of(trigger)
        return await self.register(trigger.name, trigger.kind, spec, policy, tenant=tenant, by=by)

    async def deliver(self, name: str, items: list[Delivered], revision: int, *, tenant: str = "default") -> Reply:
        """Give a trigger what was pushed, mapped under a revision of its spec."""
        fields = {"items": msgspec.to_builtins(items), "revision": revision}
        return await self._ask(trigger_id(tenant, name), "deliver", fields)

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
    ) -> Reply:
        """Start a run now. `firing` is made with the request: asked again, it is the same firing."""
        fields = {"firing": firing, "revision": revision, "inputs": inputs, "overlap": overlap}
        return await self._ask(trigger_id(tenant, name), "fire", fields, by)

    async def get(self, name: str, *, tenant: str = "default") -> Mailbox:
        """What a trigger holds. Raises NotFound."""
        run_id = trigger_id(tenant, name)
        state = await self._runs.state(run_id)
        while state.continued_as is not None and await self._runs.exists(state.continued_as):
            state = await self._runs.state(state.continued_as)
        if NODE not in state.triggers:
            raise Refused(f"trigger {name} is not registered", code="not_registered")
        return state.triggers[NODE]

    async def _ask(self, run_id: str, command: str, fields: dict[str, Any], by: str = "") -> Reply:
        """Ask the run that is the trigger now: what comes for one that has gone on is told where (rule 52)."""
        until, followed = self._clock.monotonic() + _SUCCESSOR_SECONDS, False
        while True:
            request = Request(kind="mailbox", run_id=run_id, name=command, data=fields, by=by)
            reply = await self._runs.request(request)
            if reply.code == "continued":
                run_id, followed = reply.continued_as, True
            elif reply.code == "not_found" and followed and self._clock.monotonic() < until:
                await self._clock.sleep(_LOOK_SECONDS)  # it is about to begin
            else:
                return reply


def trigger_id(tenant: str, name: str) -> str:
    """The id of a trigger. Ids that people choose have no `~`, so no run can be in its place."""
    return f"trigger~x{hashlib.sha256(f'{tenant}:{name}'.encode()).hexdigest()[:24]}"
