"""Triggers: what starts runs by itself, registered, read, fired and stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, given, path_of, post
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation
from perdure.client.runs import with_key

PAGE = 100
Format = Literal["json", "yaml"]
Overlap = Literal["skip", "buffer_one", "buffer", "cancel", "terminate", "allow"]


class TriggersCalls:
    """Every operation on triggers, described once. A `definition` is data, or text in a `format`."""

    @operation
    def apply(
        self, definition: Mapping[str, Any] | str | bytes, *, format: Format = "yaml", name: str | None = None
    ) -> Call[v.TriggerApplied]:
        """Register a trigger, or give the one of its name the next revision; the same definition changes nothing. With `name`, it
        must be called that."""
        if isinstance(definition, str | bytes):
            body = definition.encode() if isinstance(definition, str) else definition
        else:
            body, format = msgspec.json.encode(definition), "json"
        headers = {"Content-Type": f"application/{format}"}
        method, path = ("POST", path_of("triggers")) if name is None else ("PUT", path_of("triggers", name))
        return Call(method=method, path=path, body=body, headers=headers, repeatable=True)

    @listing
    def list(
        self, *, kind: str | None = None, state: str | None = None, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.Trigger]]:
        """The triggers, by name."""
        return get("triggers", kind=kind, state=state, limit=limit, cursor=cursor)

    @operation
    def get(self, name: str) -> Call[v.Trigger]:
        """How the trigger stands, and the definition it was registered with."""
        return get("triggers", name)

    @operation
    def next(self, name: str, *, count: int = 10, since: float | str | None = None) -> Call[Page[v.TriggerMoment]]:
        """The next moments of a schedule, from `since` on or later than now, with what a change of the clocks does to them."""
        return get("triggers", name, "next", count=count, since=since)

    @listing
    def items(
        self,
        name: str,
        *,
        state: Literal["waiting", "open", "parked"] | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.TriggerItem]]:
        """The items that a trigger holds: those that wait, those whose runs are open, and those that could start none."""
        return get("triggers", name, "items", state=state, limit=limit, cursor=cursor)

    @operation
    def test(
        self, name: str, *, item: Any = None, id: str = "", at: float | str | None = None
    ) -> Call[v.TriggerTested]:
        """What the trigger would make of an item, or of its first moment after `at`. Nothing is started or written."""
        return post("triggers", name, "test", body=given(item=item, id=id or None, at=at), repeatable=True)

    @listing
    def schedules(
        self, *, state: str | None = None, limit: int = PAGE, cursor: str | None = None
    ) -> Call[Page[v.Trigger]]:
        """The triggers of kind schedule, by name."""
        return get("schedules", state=state, limit=limit, cursor=cursor)

    @operation
    def firings(self, since: float | str, until: float | str, *, limit: int = 1000) -> Call[v.FiringsToCome]:
        """When all schedules are due in a range of time, the earliest first."""
        return get("schedules", "firings", **{"from": since, "to": until, "limit": limit})

    @operation
    def pause(self, name: str, *, reason: str = "") -> Call[v.Trigger]:
        """Start nothing more. Moments that pass are skipped; what is pushed waits."""
        return post("triggers", name, "pause", body=given(reason=reason or None), repeatable=True)

    @operation
    def resume(self, name: str, *, catch_up: bool = False) -> Call[v.Trigger]:
        """Go on. With `catch_up`, a schedule makes up for moments that passed meanwhile, as its `catchup` says; without it, for
        none."""
        return post("triggers", name, "resume", body=given(catch_up=catch_up or None), repeatable=True)

    @operation
    def delete(self, name: str) -> Call[v.TriggerDeleted]:
        """End the trigger. What waits is skipped; runs that were started go on. Another one of the same name is another trigger."""
        return delete("triggers", name)

    @operation
    def fire(
        self,
        name: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        overlap: Overlap | None = None,
        key: str | None = None,
    ) -> Call[v.TriggerFired]:
        """Start a run now. `inputs` stand in the place of what the trigger would give it. Asked again with the same `key`, it is the
        same firing."""
        body = given(inputs=None if inputs is None else dict(inputs), overlap=overlap)
        return post("triggers", name, "fire", body=body, headers=with_key(key), repeatable=True)

    @operation
    def backfill(
        self, name: str, since: float | str, until: float | str, *, again: bool = False, open_: int = 1
    ) -> Call[v.Trigger]:
        """Start runs for the moments of a schedule from `since` on and before `until`, `open_` at a time, beside those that come.
        Moments that had a run get another one only with `again`."""
        body = {"since": since, "until": until, **given(again=again or None), "open": open_}
        return post("triggers", name, "backfill", body=body)

    @operation
    def rewind(self, name: str, cursor: str | None, reason: str, *, again: bool = False) -> Call[v.Trigger]:
        """Read a source from another cursor on, or from its beginning. What has had a run gets another one only with `again`."""
        body = {"cursor": cursor, "reason": reason, **given(again=again or None)}
        return post("triggers", name, "rewind", body=body)

    @operation
    def requeue(self, name: str, number: int, *, inputs: Any = None) -> Call[v.Trigger]:
        """Let a parked item start its run after all: mapped anew by the present revision where that had failed, or with other
        inputs."""
        return post("triggers", name, "items", str(number), "requeue", body=given(inputs=inputs))

    @operation
    def discard(self, name: str, number: int) -> Call[v.Trigger]:
        """Give a parked item up."""
        return post("triggers", name, "items", str(number), "discard")


class Triggers(TriggersCalls, Noun):
    __doc__ = TriggersCalls.__doc__


class AsyncTriggers(TriggersCalls, AsyncNoun):
    __doc__ = TriggersCalls.__doc__
