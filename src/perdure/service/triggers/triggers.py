"""Triggers: register what starts runs by itself, read it, fire it, stop it, and look after what it could not start.

A changed definition is the next revision of its trigger. It must not know HTTP or permissions.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from perdure.access import Permission
from perdure.budget import Budget
from perdure.clock import new_key
from perdure.errors import NotFound, Refused
from perdure.expressions.json_schema import SchemaInvalid
from perdure.journal import TriggerRow
from perdure.kernel.triggers.mailbox import Mailbox, Overlap, Parked
from perdure.model.reader import Format
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.requests import Reply
from perdure.runtime.filled_inputs import fill_in_aside
from perdure.service.errors import Invalid, Trouble
from perdure.service.pages import listing
from perdure.service.tenancy import Tenancy
from perdure.service.triggers.coming_moments import get_schedule, read_firings, read_moments
from perdure.service.triggers.ended_runs import find_ended
from perdure.service.triggers.quarantined_triggers import QUARANTINED, find_quarantined, give_up, mark
from perdure.service.triggers.shown_triggers import item_views, last_success_of, trigger_view
from perdure.service.triggers.trigger_reader import Definition, TriggerReader
from perdure.service.views import View, page_view, problem_view
from perdure.threads import aside
from perdure.triggers.calendar import JUST_BEFORE
from perdure.triggers.mapping import UNMAPPED, UNREADABLE, Filtered, Mapped, Poison, facts_of_item, map_item
from perdure.triggers.trials import fill_inputs, try_item, try_moment

HOOK_BYTES = 16
BEGIN_SECONDS = 2.0
"""How long it is waited for a run that was fired by hand: where triggers are driven it begins at once."""
_LOOK_SECONDS = 0.02


class Triggers:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine
        self._triggers = tenancy.engine.triggers

    # -- registering ---------------------------------------------------------------------------------------------------

    async def apply(
        self, definition: Definition, *, format: Format = "yaml", name: str | None = None, own: str = ""
    ) -> View:
        """Register a trigger, or give the one of its name the next revision; the same definition changes nothing. Every
        problem is found at once. With `name`, it must be called that. `own`: it comes with that workflow, and was checked with it."""
        trigger, warnings = await TriggerReader(self._tenancy).read(definition, format, name, own)
        tenant = self._tenancy.tenant
        before = await self._engine.journal.find_trigger(tenant, trigger.name)
        lives = before is not None and before.state != "deleted"
        if not lives and await self._engine.journal.count_triggers(tenant) >= self._triggers.most:
            raise Refused(
                f"there are {self._triggers.most} triggers, and there may be no more (max_triggers); delete one",
                code="too_many_triggers",
            )
        hook = urlsafe_b64encode(new_key(HOOK_BYTES)).decode().rstrip("=") if trigger.kind == "webhook" else ""
        life = 0 if before is None else before.life + (not lives)
        await self._decide(
            trigger.name,
            lambda: self._triggers.apply(trigger, tenant=tenant, by=self._tenancy.by, hook=hook, life=life),
        )
        after = await self._get(trigger.name)
        changed = before is None or (before.trigger_id, before.revision) != (after.trigger_id, after.revision)
        shown = [problem_view(one) for one in warnings]
        return {**await self._view(after), "created": not lives, "changed": changed, "problems": shown}

    # -- reading -------------------------------------------------------------------------------------------------------

    @listing
    async def list(
        self,
        *,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """The triggers, by name."""
        return await self._page(kind, state, limit, cursor)

    async def _page(self, kind: str | None, state: str | None, limit: int, cursor: str | None) -> View:
        page = await self._engine.journal.list_triggers(
            tenant=self._tenancy.listed, kind=kind, state=state, limit=limit, cursor=cursor
        )
        ended = await find_ended(self._engine.journal, page.items)
        held = await find_quarantined(self._engine, page.items)
        return page_view(page, lambda row: mark(self._show(row, ended), held.get(row.head)))

    async def get(self, name: str) -> View:
        return await self._view(await self._get(name))

    async def _view(self, row: TriggerRow) -> View:
        held = await find_quarantined(self._engine, [row])
        return mark(self._show(row, await find_ended(self._engine.journal, [row])), held.get(row.head))

    def _show(self, row: TriggerRow, ended: Mapping[str, Any]) -> View:
        return trigger_view(row, ended, may_start=self._tenancy.principal.may(Permission.RUNS_START))

    async def next(self, name: str, *, count: int = 10, since: float | None = None) -> View:
        """The next moments of a schedule, from `since` on or later than now, with what a change of the clocks does to them."""
        row = await self._get(name)
        schedule = get_schedule(read_spec(row), row.name)
        begin = None if since is None else since - JUST_BEFORE
        found = await read_moments(self._tenancy, row, schedule, begin, count)
        return {"items": found, "next_cursor": None}

    @listing
    async def items(
        self,
        name: str,
        *,
        state: Literal["waiting", "open", "parked"] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """The items that a trigger holds: those that wait, those whose runs are open, and those that could start none."""
        after = _read_number(cursor)
        row = await self._get(name)
        box = await self._load(row)
        ended = (await find_ended(self._engine.journal, [row])).get(row.trigger_id, set())
        found = [one for one in item_views(box, ended) if one["number"] > after and state in (None, one["state"])]
        more = len(found) > limit
        return {"items": found[:limit], "next_cursor": str(found[limit - 1]["number"]) if more else None}

    async def test(self, name: str, *, item: Any = None, id: str = "", at: float | None = None) -> View:
        """What the trigger would make of an item, or of its first moment after `at`. Nothing is started or written."""
        row = await self._get(name)
        trigger = read_spec(row)
        now = self._engine.clock.now()
        when = now if at is None else at
        is_schedule = row.kind == "schedule"
        trial = (
            partial(try_moment, trigger, when, last_success_of(row))
            if is_schedule
            else partial(try_item, trigger, item, now, id)
        )
        tried = await aside(self._tenancy.tenant, trial)
        misfit = await self._find_misfit(trigger, tried.get("inputs"))
        return {"name": name, **tried} if misfit is None else {"name": name, **misfit}

    async def _find_misfit(self, trigger: Trigger, inputs: Any) -> View | None:
        """Why an item that was mapped would be parked nevertheless: the workflow, as it is today, does not take the inputs."""
        target = (
            None if inputs is None else await self._engine.library.find_target(self._tenancy.tenant, trigger.workflow)
        )
        if target is None or target[1].inputs_schema is None:
            return None
        try:
            _, problems = await fill_in_aside(self._tenancy.tenant, target[1].inputs_schema, inputs, Budget())
        except SchemaInvalid as error:
            problems = [error.message]
        if not problems:
            return None
        said = f"they do not fit {trigger.workflow}: {'; '.join(problems)}"
        return {"result": "poison", "part": "inputs", "error": said[:1000]}

    # -- schedules -----------------------------------------------------------------------------------------------------

    @listing
    async def schedules(self, *, state: str | None = None, limit: int = 100, cursor: str | None = None) -> View:
        """The triggers of kind schedule, by name."""
        return await self._page("schedule", state, limit, cursor)

    async def firings(self, since: float, until: float, *, limit: int = 1000) -> View:
        """When all schedules are due in a range of time, the earliest first."""
        return await read_firings(self._tenancy, since, until, limit)

    # -- changing ------------------------------------------------------------------------------------------------------

    async def pause(self, name: str, *, reason: str = "") -> View:
        """Start nothing more. Moments that pass are skipped; what is pushed waits."""
        return await self._change(name, "pause", reason)

    async def resume(self, name: str, *, catch_up: bool = False) -> View:
        """Go on. With `catch_up`, a schedule makes up for moments that passed meanwhile, as its `catchup` says."""
        return await self._change(name, "resume", catch_up=catch_up)

    async def delete(self, name: str) -> View:
        """End the trigger. What waits is skipped; runs that were started go on. Another one of the same name is another trigger."""
        row = await self._get(name)
        try:
            await self._decide(name, lambda: self._triggers.change(name, "cancel", **self._about(row)))
        except Refused as error:
            if error.code != QUARANTINED:
                raise
            await give_up(self._engine, row)
        return {"name": name, "trigger_id": row.trigger_id, "deleted": True}

    async def _change(
        self, name: str, kind: Literal["pause", "resume"], reason: str = "", *, catch_up: bool = False
    ) -> View:
        row = await self._get(name)
        about = {"reason": reason, "catch_up": catch_up, **self._about(row)}
        await self._decide(name, lambda: self._triggers.change(name, kind, **about))
        return await self.get(name)

    async def fire(
        self,
        name: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        overlap: Overlap | None = None,
        key: str | None = None,
    ) -> View:
        """Start a run now. `inputs` stand in the place of what the trigger would give it. Asked again with the same `key`, it is the
        same firing."""
        row = await self._get(name)
        trigger = read_spec(row)
        now = self._engine.clock.now()
        made = await aside(self._tenancy.tenant, fill_inputs, trigger, dict(inputs or {}), now, last_success_of(row))
        if isinstance(made, Poison):
            message = f"trigger {name} starts nothing: {made.message}"
            raise Invalid(message, [Trouble("inputs", "template_error", message)])
        firing = self._engine.clock.new_id() if key is None else hashlib.sha256(f"key:{key}".encode()).hexdigest()
        reply = await self._decide(
            name,
            lambda: self._triggers.fire(
                name, firing, row.revision, inputs=made, overlap=overlap, by=self._tenancy.by, **self._of(row)
            ),
        )
        (taken,) = reply.items
        begun = await (self._begins if taken.fate == "started" else self._engine.runs.exists)(taken.run_id)
        return {"number": taken.number, "run_id": taken.run_id, "state": taken.fate, "begun": begun}

    async def _begins(self, run_id: str) -> bool:
        """Whether a run that a trigger starts is there, at once or soon: some process that drives triggers makes it."""
        engine = self._engine
        until = engine.clock.monotonic() + BEGIN_SECONDS
        while not await engine.runs.exists(run_id):
            if engine.clock.monotonic() >= until or (engine.holds and not engine.drives_triggers):
                return False
            await engine.clock.sleep(_LOOK_SECONDS)
        return True

    async def backfill(self, name: str, since: float, until: float, *, again: bool = False, open_: int = 1) -> View:
        """Start runs for the moments of a schedule from `since` on and before `until`, `open_` at a time, beside those that come.
        Moments that had a run get another one only with `again`."""
        row = await self._get(name)
        begin, end = since - JUST_BEFORE, until - JUST_BEFORE
        await self._decide(
            name, lambda: self._triggers.backfill(name, begin, end, again=again, open_=open_, **self._about(row))
        )
        return await self.get(name)

    async def rewind(self, name: str, cursor: str | None, reason: str, *, again: bool = False) -> View:
        """Read a source from another cursor on, or from its beginning. What has had a run gets another one only with `again`."""
        row = await self._get(name)
        await self._decide(
            name, lambda: self._triggers.rewind(name, cursor, reason=reason, again=again, **self._about(row))
        )
        return await self.get(name)

    # -- what could not be started -------------------------------------------------------------------------------------

    async def requeue(self, name: str, number: int, *, inputs: Any = None, tenant: str | None = None) -> View:
        """Let a parked item start its run after all: mapped anew by the present revision where that had failed, or with other
        inputs. `tenant` is whose trigger it is, for an owner who has found it in a list of every tenant's."""
        row = await self._get(name, tenant)
        trigger, parked = read_spec(row), await self._get_parked(row, number)
        made: Mapped | Filtered | Poison = Mapped(parked.item.id, parked.item.key, parked.item.inputs)
        if inputs is not None:
            made = Mapped(parked.item.id, parked.item.key, inputs)
        elif parked.error.code == UNREADABLE:
            message = (
                f"item {number} of {name} has no content here: {parked.error.message}; give it inputs, or discard it"
            )
            raise Invalid(message, [Trouble("inputs", UNREADABLE, message)])
        elif parked.error.code == UNMAPPED:
            raw = await self._engine.contents.resolve(row.tenant, parked.item.inputs, masked=False)
            facts = facts_of_item(parked.item.at)
            made = await aside(self._tenancy.tenant, lambda: map_item(trigger, raw, facts, id=parked.item.id))
        if isinstance(made, Poison):
            message = (
                f"item {number} of {name} cannot be mapped by revision {row.revision}: {made.part}: {made.message}"
            )
            raise Invalid(message, [Trouble(made.part, "template_error", made.message)])
        about: dict[str, Any] = {"revision": row.revision, **self._about(row)}
        if isinstance(made, Filtered):
            await self._decide(name, lambda: self._triggers.settle(name, number, "skip", **about))
        else:
            # An item of a window is kept as it came: the window is mapped as a whole.
            key, given = made.key, parked.item.inputs if made.inputs is None else made.inputs
            await self._decide(
                name, lambda: self._triggers.settle(name, number, "again", key=key, inputs=given, **about)
            )
            await self._refuse_parked(row, number)
        return await self._view(await self._get(name, tenant))

    async def _refuse_parked(self, row: TriggerRow, number: int) -> None:
        """Say why an item that was to start its run is parked again."""
        parked = (await self._load(row)).parked.get(number)
        if parked is not None:
            message = f"item {number} of {row.name} is parked again: {parked.error.code}: {parked.error.message}"
            raise Invalid(
                f"{message}; give it inputs that fit, or mend the workflow or the trigger first",
                [Trouble("inputs", parked.error.code, message)],
            )

    async def discard(self, name: str, number: int, *, tenant: str | None = None) -> View:
        """Give a parked item up."""
        row = await self._get(name, tenant)
        await self._get_parked(row, number)
        await self._decide(name, lambda: self._triggers.settle(name, number, "skip", **self._about(row)))
        return await self._view(await self._get(name, tenant))

    async def _get_parked(self, row: TriggerRow, number: int) -> Parked:
        parked = (await self._load(row)).parked.get(number)
        if parked is None:
            raise NotFound(f"trigger {row.name} has no parked item {number}")
        return parked

    # -- all of these --------------------------------------------------------------------------------------------------

    async def _get(self, name: str, tenant: str | None = None) -> TriggerRow:
        return await self._tenancy.get_trigger(name, tenant)

    async def _load(self, row: TriggerRow) -> Mailbox:
        return await self._triggers.get(row.name, **self._of(row))

    @staticmethod
    def _of(row: TriggerRow) -> dict[str, Any]:
        return {"tenant": row.tenant, "life": row.life}

    def _about(self, row: TriggerRow) -> dict[str, Any]:
        return {**self._of(row), "by": self._tenancy.by}

    async def _decide(self, name: str, work: Callable[[], Awaitable[Reply]]) -> Reply:
        return await self._tenancy.decide(f"trigger {name}", lambda stored: work())


def read_spec(row: TriggerRow) -> Trigger:
    return msgspec.convert(msgspec.json.decode(row.body)["spec"], Trigger)


def _read_number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 15:
        message = "cursor: expected the number of an item"
        raise Invalid(message, [Trouble("cursor", "wrong_value", message)])
    return int(cursor)
