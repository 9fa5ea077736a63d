"""Dead letters: failed work that is parked, to be tried again (perhaps with another config) or given up, one by one or
many by a filter. It must not know HTTP.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from perdure.errors import Conflict, PerdureError
from perdure.journal import DeadLetterRow, Page
from perdure.kernel import commands as c
from perdure.kernel.readings.previews import preview
from perdure.kernel.segments import has_refs, pack
from perdure.runtime.coordinator.parked import describe
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.triggers.firings import is_mailbox
from perdure.service.errors import Invalid, Trouble
from perdure.service.pages import listing
from perdure.service.runs.history import state_at
from perdure.service.runs.run_actions import preview_view
from perdure.service.scans import find_origins, scan
from perdure.service.tenancy import Tenancy
from perdure.service.views import View, dead_letter_view, page_view
from perdure.threads import aside
from perdure.triggers.mapping import UNREADABLE

As = Literal["skip", "fail", "continue"]
MOST = 10_000
"""How many dead letters one call may change."""
MOST_GROUPS = 1000
_PAGE = 1000
_MOST_SAID = 64 * 1024
"""The most bytes of results of steps that a requeue brings."""
_COUNTED = 100


class _Filter(msgspec.Struct, frozen=True):
    """A filter of dead letters. One that matches fits every field that is given."""

    run_id: str | None
    node: str | None
    code: str | None
    workflow: str | None = None

    @property
    def is_partial(self) -> bool:
        """Whether the database cannot look for all of it."""
        return self.node is not None or self.code is not None or self.workflow is not None

    def fits(self, row: DeadLetterRow) -> bool:
        if self.node is not None and row.node != self.node:
            return False
        return self.code is None or _code(row) == self.code


def _code(row: DeadLetterRow) -> str | None:
    error = msgspec.json.decode(row.body, type=_Body).error
    return None if error is None else error.code


class _Error(msgspec.Struct):
    code: str


class _Body(msgspec.Struct):
    """What is wanted of what a row says, and nothing else of it."""

    error: _Error | None = None


class DeadLetters:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    @listing
    async def list(
        self,
        *,
        state: str | None = None,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """The dead letters, oldest first. With a workflow, node or code of the error a page may be short, and even empty,
        and still have a cursor."""
        which = _Filter(run_id, node, code, workflow)

        async def read(most: int, after: str | None) -> Page[DeadLetterRow]:
            return await self._engine.journal.list_dead_letters(
                state=state, tenant=self._tenancy.listed, run_id=run_id, limit=most, cursor=after
            )

        async def choose(rows: Sequence[DeadLetterRow]) -> builtins.list[DeadLetterRow]:
            return await self._choose(which, rows)

        page = await (scan(read, choose, limit, cursor) if which.is_partial else read(limit, cursor))
        origins = await find_origins(self._engine, _runs_of(page.items))
        return page_view(page, lambda row: {**dead_letter_view(row), "workflow": origins[row.run_id]["workflow"]})

    async def _choose(self, which: _Filter, rows: Sequence[DeadLetterRow]) -> builtins.list[DeadLetterRow]:
        """The rows that also fit the part of the filter that the database cannot look for."""
        kept = [row for row in rows if which.fits(row)]
        if which.workflow is None:
            return kept
        origins = await find_origins(self._engine, _runs_of(kept))
        return [row for row in kept if origins[row.run_id]["workflow"] == which.workflow]

    async def counts(
        self,
        *,
        state: str | None = "pending",
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
    ) -> View:
        """How many dead letters there are by workflow, node and code of the error, those with the most first: of the oldest
        10,000, and it is `capped` if there are more."""
        which = _Filter(None, node, code, workflow)
        groups: dict[tuple[str | None, str, str | None], View] = {}
        cursor, looked = None, 0
        while looked < MOST:
            page = await self._engine.journal.list_dead_letters(
                state=state, tenant=self._tenancy.listed, limit=_COUNTED, cursor=cursor
            )
            origins = await find_origins(self._engine, _runs_of(page.items))
            for row in await self._choose(which, page.items):
                key = (origins[row.run_id]["workflow"], row.node, _code(row))
                group = groups.setdefault(
                    key,
                    {"workflow": key[0], "node": key[1], "code": key[2], "count": 0, "oldest_at": row.created_at},
                )
                group["count"] += 1
                group["newest_at"] = row.created_at
            looked, cursor = looked + len(page.items), page.next_cursor
            if cursor is None:
                break
        ordered = sorted(groups.values(), key=lambda one: -one["count"])
        total = sum(one["count"] for one in ordered)
        return {"total": total, "capped": cursor is not None, "groups": ordered[:MOST_GROUPS]}

    async def get(self, dead_letter_id: str) -> View:
        """A dead letter with what its node was given: the rendered `config` and the `inputs`, or a `problem` that says
        why they are missing."""
        row = await self._tenancy.get_dead_letter(dead_letter_id)
        about = msgspec.json.decode(row.body)
        record, state = await self._tenancy.load(row.run_id)
        if row.state != "pending":  # the node may have been given something else since
            state = await state_at(self._engine, record, about["seq"])
        given: View = {"config": None, "inputs": None, "problem": "it is not in the state of its run any more"}
        box = state.triggers.get(row.node) if "trigger" in about else None
        parked = None if box is None else box.parked.get(about["item"])
        activation = None if box else state.find(row.node, tuple(about["scope"]), about["item"])
        if parked is not None:
            inputs = await self._engine.contents.resolve(row.tenant, parked.item.inputs, budget=self._tenancy.budget)
            given = {"config": None, "inputs": inputs, "problem": None}
        elif activation is not None:
            engine = self._engine
            given = await describe(engine.registry, engine.blobs, state, activation, undo=about["undo"])
        origin = await find_origins(self._engine, [row.run_id])
        return {**dead_letter_view(row), "workflow": origin[row.run_id]["workflow"], **given}

    async def requeue(self, dead_letter_id: str, *, config: Any = None, steps: dict[str, Any] | None = None) -> View:
        """Try the parked work again, with another config if one is given; the journal records that config. `steps`: what begun
        steps gave of which nobody knew whether they happened."""
        fields = {"kind": "requeue"} | ({} if config is None else {"config": config})
        if steps:
            if (size := len(msgspec.json.encode(steps))) > _MOST_SAID:
                message = f"the results have {size:,} bytes, and {_MOST_SAID:,} are allowed"
                raise Invalid(message, [Trouble("steps", "too_large", message)])
            row = await self._tenancy.get_dead_letter(dead_letter_id)
            if "trigger" in (about := msgspec.json.decode(row.body)) or about.get("undo"):
                message = "only a node that was parked while it ran has steps; requeue it without them"
                raise Invalid(message, [Trouble("steps", "misplaced_key", message)])
            fields["steps"] = steps
        return await self._change(dead_letter_id, fields)

    async def discard(self, dead_letter_id: str, *, as_: As = "skip") -> View:
        """Give the parked work up: as skipped, as failed, or as failed while the run continues."""
        return await self._change(dead_letter_id, {"kind": "discard", "as_": as_})

    async def preview_discard(self, dead_letter_id: str, *, as_: As = "skip") -> View:
        """What giving the parked work up would do to its run, or why it is not possible. Nothing is changed."""
        row = await self._tenancy.get_dead_letter(dead_letter_id)
        _, state = await self._tenancy.load(row.run_id)
        now, about = self._engine.clock.now(), msgspec.json.decode(row.body)
        command: c.Command = self._request(row, {"kind": "discard", "as_": as_}).command(state, now, None)
        if "trigger" in about:
            command = c.Settle(at=now, by=self._tenancy.by, node=row.node, number=about["item"], as_="skip")
        return preview_view(await aside(state.tenant, preview, state, command))

    async def _change(self, dead_letter_id: str, fields: dict[str, Any]) -> View:
        row = await self._tenancy.get_dead_letter(dead_letter_id)
        await self._decide(row, fields)
        return dead_letter_view(await self._tenancy.get_dead_letter(dead_letter_id))

    async def _decide(self, row: DeadLetterRow, fields: dict[str, Any]) -> None:
        about = msgspec.json.decode(row.body)
        if "trigger" not in about:
            await self._tenancy.ask(self._request(row, fields))
            return
        if not is_mailbox(row.run_id):
            await self._settle(row, about, fields)
            return
        from perdure.service.triggers.triggers import Triggers  # what only letters of items need

        triggers = Triggers(self._tenancy)
        if fields["kind"] == "requeue":
            await triggers.requeue(about["trigger"], about["item"], inputs=fields.get("config"), tenant=row.tenant)
        else:
            await triggers.discard(about["trigger"], about["item"], tenant=row.tenant)

    async def _settle(self, row: DeadLetterRow, about: dict[str, Any], fields: dict[str, Any]) -> None:
        """Decide on an item of a trigger inside a run: it is handed over after all, as it came or as a person gives it, or is skipped
        (rule 54)."""
        _, state = await self._tenancy.load(row.run_id)
        box, number = state.triggers[row.node], about["item"]
        data: dict[str, Any] = {"node": row.node, "number": number, "as_": "skip", "revision": box.revision}
        if fields["kind"] == "requeue":
            parked, given = box.parked.get(number), fields.get("config")
            if given is None and parked is not None and parked.error.code == UNREADABLE:
                message = f"item {number} of {row.node} has no content here: {parked.error.message}; give it a config, which is taken instead, or discard it"
                raise Invalid(message, [Trouble("config", UNREADABLE, message)])
            data |= {"as_": "again", "inputs": given if given is not None or parked is None else parked.item.inputs}
        request = Request(kind="mailbox", run_id=row.run_id, by=self._tenancy.by, name="settle", data=data)
        if has_refs(data):
            request = msgspec.structs.replace(request, data=pack(data, secrets=False), refs=True)
        await self._tenancy.ask(request)

    def _request(self, row: DeadLetterRow, fields: dict[str, Any]) -> Request:
        body = msgspec.json.decode(row.body)
        return Request(
            run_id=row.run_id,
            by=self._tenancy.by,
            node=row.node,
            scope=tuple(body.get("scope") or ()),
            item=body.get("item"),
            undo=bool(body.get("undo")),
            **fields,
        )

    # -- many ----------------------------------------------------------------------------------------------------------

    async def requeue_many(
        self,
        *,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
        expected: int | None = None,
    ) -> View:
        """Requeue all dead letters that match, or only count them. `code` is that of the error."""
        return await self._change_many(_Filter(run_id, node, code, workflow), expected, {"kind": "requeue"})

    async def discard_many(
        self,
        *,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        code: str | None = None,
        expected: int | None = None,
        as_: As = "skip",
    ) -> View:
        """Give up all dead letters that match, or only count them. `code` is that of the error."""
        return await self._change_many(_Filter(run_id, node, code, workflow), expected, {"kind": "discard", "as_": as_})

    async def _change_many(self, which: _Filter, expected: int | None, fields: dict[str, Any]) -> View:
        """Change the dead letters that match. Without `expected`, only count; with it, refuse any other number."""
        rows = await self._matching(which)
        if expected is None:
            return {"matched": len(rows), "done": 0, "refused": []}
        if len(rows) != expected:
            raise Conflict(f"{len(rows)} dead letters match, not {expected}; count again, then decide again")
        done, refused = 0, []
        for row in rows:
            try:
                await self._decide(row, fields)
                done += 1
            except PerdureError as error:
                if error.status >= 500:
                    raise
                refused.append({"dead_letter_id": row.dead_letter_id, "code": error.code, "message": error.message})
        return {"matched": len(rows), "done": done, "refused": refused}

    async def _matching(self, which: _Filter) -> builtins.list[DeadLetterRow]:
        found: builtins.list[DeadLetterRow] = []
        cursor = None
        while True:
            page = await self._engine.journal.list_dead_letters(
                state="pending",
                tenant=self._tenancy.listed,
                run_id=which.run_id,
                limit=_COUNTED if which.workflow else _PAGE,
                cursor=cursor,
            )
            found += await self._choose(which, page.items)
            cursor = page.next_cursor
            if cursor is None or len(found) >= MOST:
                return found[:MOST]


def _runs_of(rows: Sequence[DeadLetterRow]) -> list[str]:
    return list({row.run_id: None for row in rows})
