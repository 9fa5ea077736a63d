"""Triggers over HTTP. What each does is in `perdure.service.triggers.triggers`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from perdure.access import Permission
from perdure.api.endpoints import Answer, Call, Routes, hash_of
from perdure.api.parameters import Limit, Text, moment
from perdure.api.request_reader import Body, Query
from perdure.api.routes.workflows import SENDS, read_definition
from perdure.api.schemas import trigger_schemas as s
from perdure.errors import NotFound
from perdure.kernel.triggers.mailbox import Overlap
from perdure.model.trigger_sources import READERS
from perdure.service.errors import Invalid, Trouble

routes = Routes("triggers")
READ, OPERATE, WRITE = Permission.SYSTEM_READ, Permission.RUNS_OPERATE, Permission.WORKFLOWS_WRITE
START = Permission.RUNS_START
"""What starts a run that nothing else would have started needs the right to start runs; to operate those there are is another."""
Kind = Annotated[str, Meta(pattern=f"^({'|'.join(READERS)})$")]
State = Literal["active", "paused", "done"]
Time = Annotated[str, Meta(description="RFC 3339, or seconds since 1970.", max_length=100)] | float


def _moment(name: str, value: str | float | None) -> float | None:
    return moment(name, None if value is None else str(value))


def _needed(name: str, value: str | float) -> float:
    found = _moment(name, value)
    assert found is not None
    return found


# -- registering and reading -------------------------------------------------------------------------------------------


@routes.post("/triggers", WRITE, s.TriggerApplied, status=201, also={200: s.TriggerApplied}, sends=SENDS)
async def apply(call: Call) -> Answer:
    """Register a trigger: the body, as JSON or YAML.

    201: it is new. 200: there was one of this name. A changed definition is its next revision, the same one changes nothing.
    """
    return await _apply(call, None)


class ListTriggers(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Kind | None = None
    state: State | None = None
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/triggers", READ, s.TriggerPage)
async def list_(call: Call, query: ListTriggers) -> Any:
    """List triggers, by name."""
    pages = call.service.triggers.list(kind=query.kind, state=query.state, limit=query.limit, cursor=query.cursor)
    return await pages.first()


@routes.get("/triggers/{name}", READ, s.Trigger)
async def get(call: Call) -> Any:
    """Get a trigger: how it stands, and the definition it was registered with."""
    return await call.service.triggers.get(call.path("name"))


@routes.put("/triggers/{name}", WRITE, s.TriggerApplied, also={201: s.TriggerApplied}, sends=SENDS)
async def put(call: Call) -> Answer:
    """Register a trigger under its name; otherwise as POST /triggers."""
    return await _apply(call, call.path("name"))


async def _apply(call: Call, name: str | None) -> Answer:
    data, kind = await read_definition(call)
    view = await call.service.triggers.apply(data, format=kind, name=name)
    call.object = view["name"]
    call.noted = {"revision": view["revision"], "spec": hash_of(view["spec"])}
    return Answer(view, 201 if view["created"] else 200, {"Location": f"/api/v1/triggers/{view['name']}"})


@routes.delete("/triggers/{name}", WRITE, s.TriggerDeleted)
async def delete(call: Call) -> Any:
    """Delete a trigger. What waits is skipped; runs that it started go on."""
    return await call.service.triggers.delete(call.path("name"))


class NextMoments(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    count: Annotated[int, Meta(description="How many moments.", ge=1, le=1000)] = 10
    since: Annotated[str, Meta(description="Later than this; now without it.", max_length=100)] | None = None


@routes.get("/triggers/{name}/next", READ, s.TriggerMomentPage)
async def next_(call: Call, query: NextMoments) -> Any:
    """List the next moments of a schedule, with what a change of the clocks does to them."""
    return await call.service.triggers.next(call.path("name"), count=query.count, since=_moment("since", query.since))


class ListItems(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["waiting", "open", "parked"] | None = None
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/triggers/{name}/items", READ, s.TriggerItemPage)
async def items(call: Call, query: ListItems) -> Any:
    """List the items that a trigger holds, by number: those that wait, those whose runs are open, and those that could start none."""
    pages = call.service.triggers.items(call.path("name"), state=query.state, limit=query.limit, cursor=query.cursor)
    return await pages.first()


# -- changing ----------------------------------------------------------------------------------------------------------


class Why(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(description="Why; it is written down.", max_length=2000)] = ""


@routes.post("/triggers/{name}/pause", OPERATE, s.Trigger, needs_body=False)
async def pause(call: Call, body: Why) -> Any:
    """Pause a trigger. Moments that pass meanwhile are skipped; what is pushed waits until it is resumed."""
    return await call.service.triggers.pause(call.path("name"), reason=body.reason)


class Resume(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    catch_up: Annotated[
        bool, Meta(description="Make up for moments that passed while it was paused, as its `catchup` says.")
    ] = False


class DiscardItem(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


@routes.post("/triggers/{name}/resume", OPERATE, s.Trigger, needs_body=False)
async def resume(call: Call, body: Resume) -> Any:
    """Resume a trigger. Moments that passed while it was paused are made up for only if `catch_up` says so."""
    return await call.service.triggers.resume(call.path("name"), catch_up=body.catch_up)


class Fire(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    inputs: (
        Annotated[dict[str, Any], Meta(description="These stand in the place of what the trigger gives.")] | None
    ) = None
    overlap: Annotated[Overlap, Meta(description="Instead of what the trigger says.")] | None = None


@routes.post("/triggers/{name}/fire", START, s.TriggerFired, needs_body=False)
async def fire(call: Call, body: Fire) -> Any:
    """Start a run now, by hand; while the trigger is paused, the item is `waiting` until it is resumed. With an `Idempotency-Key`, asking again is the same firing."""
    call.noted = {"inputs": hash_of(body.inputs or {})}
    return await call.service.triggers.fire(call.path("name"), body.inputs, overlap=body.overlap, key=call.key)


class Backfill(Body, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"open_": "open"}):
    since: Time
    until: Time
    again: Annotated[bool, Meta(description="Also the moments that have had a run: they get another one.")] = False
    open_: Annotated[int, Meta(description="How many of its runs may be open at once.", ge=1, le=1000)] = 1


@routes.post("/triggers/{name}/backfill", START, s.Trigger)
async def backfill(call: Call, body: Backfill) -> Any:
    """Start runs for the moments of a schedule from `since` on and before `until`, beside those that come."""
    await call.service.tenancy.get_trigger(call.path("name"))  # a caller that may not see it must learn nothing of it
    since, until = _needed("since", body.since), _needed("until", body.until)
    return await call.service.triggers.backfill(call.path("name"), since, until, again=body.again, open_=body.open_)


class Rewind(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cursor: Annotated[str, Meta(description="Where it is read from; null: its beginning.", max_length=100_000)] | None
    reason: Annotated[str, Meta(description="Why; it is written down.", min_length=1, max_length=2000)]
    again: Annotated[bool, Meta(description="Items that have had a run get another one.")] = False


@routes.post("/triggers/{name}/rewind", OPERATE, s.Trigger)
async def rewind(call: Call, body: Rewind) -> Any:
    """Read a source from another cursor on. A reason is asked for, and written down."""
    return await call.service.triggers.rewind(call.path("name"), body.cursor, reason=body.reason, again=body.again)


class Test(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    item: Annotated[Any, Meta(description="An item, such as `{headers, body, query}` for a webhook.")] = UNSET
    id: Annotated[str, Meta(description="What the source calls the item.", max_length=500)] = ""
    at: Annotated[Time, Meta(description="For a schedule: its first moment after this, or after now.")] | None = None


@routes.post("/triggers/{name}/test", READ, s.TriggerTested, needs_body=False, audited=False)
async def test(call: Call, body: Test) -> Any:
    """Show what a trigger would make of an item or a moment. Nothing is started and nothing written."""
    await call.service.tenancy.get_trigger(call.path("name"))
    item = None if body.item is UNSET else body.item
    return await call.service.triggers.test(call.path("name"), item=item, id=body.id, at=_moment("at", body.at))


# -- what could not be started -----------------------------------------------------------------------------------------


class RequeueItem(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    inputs: Annotated[Any, Meta(description="Other inputs for its run.")] = UNSET


def _number(call: Call) -> int:
    text = call.path("number")
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise NotFound(f"trigger {call.path('name')} has no parked item {text[:40]}")
    return int(text)


@routes.post("/triggers/{name}/items/{number}/requeue", OPERATE, s.Trigger, needs_body=False)
async def requeue(call: Call, body: RequeueItem) -> Any:
    """Let a parked item start its run after all, mapped by the present revision, or with other inputs.

    Other inputs need the permission `runs:start` too.
    """
    inputs = None if body.inputs is UNSET else body.inputs
    if inputs is not None:
        call.principal.require(START)
        call.noted = {"inputs": hash_of(inputs)}
    return await call.service.triggers.requeue(call.path("name"), _number(call), inputs=inputs)


@routes.post("/triggers/{name}/items/{number}/discard", OPERATE, s.Trigger, needs_body=False)
async def discard(call: Call, body: DiscardItem) -> Any:
    """Give a parked item up."""
    return await call.service.triggers.discard(call.path("name"), _number(call))


# -- schedules ---------------------------------------------------------------------------------------------------------


class ListSchedules(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: State | None = None
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/schedules", READ, s.TriggerPage)
async def schedules(call: Call, query: ListSchedules) -> Any:
    """List the triggers of kind schedule, by name."""
    pages = call.service.triggers.schedules(state=query.state, limit=query.limit, cursor=query.cursor)
    return await pages.first()


class ListFirings(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    from_: Annotated[str, Meta(description="Later than this.", max_length=100)] = msgspec.field(name="from")
    to: Annotated[str, Meta(description="Up to this; at most a year after `from`.", max_length=100)]
    limit: Limit = 1000


@routes.get("/schedules/firings", READ, s.FiringsToCome)
async def firings(call: Call, query: ListFirings) -> Any:
    """List when active schedules are due in a range of time, the earliest first."""
    since, until = _needed("from", query.from_), _needed("to", query.to)
    if not since < until <= since + 366 * 86_400:
        message = "'to' comes after 'from', and at most a year after it"
        raise Invalid(message, [Trouble("to", "wrong_value", message)])
    return await call.service.triggers.firings(since, until, limit=query.limit)
