"""The journal calls that are the same over every SQL database: a query by its name, its parameters, its rows."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from perdure.errors import NotFound
from perdure.journal import (
    EVERYTHING,
    TRIGGER_WORKFLOW,
    ApprovalRow,
    Command,
    DeadLetterRow,
    Definition,
    DueTimer,
    LastCommit,
    Notice,
    Occurrence,
    Outline,
    Page,
    RunCount,
    RunFilter,
    RunRecord,
    Subscription,
    Topic,
    TriggerRow,
    WorkflowVersion,
)
from perdure.journals.calls import Calls, first
from perdure.journals.coalescer import Coalescer
from perdure.journals.rows import Row, decode_cursor, found, listing, named, page, positional
from perdure.purses import Purse

_approval = named(ApprovalRow)
_dead_letter = named(DeadLetterRow)
_workflow = named(WorkflowVersion)
_trigger = named(TriggerRow)
_LAST_CHARACTER = "\U0010ffff"


def error_beginning(code: str) -> bytes:
    """How the error of a run begins if it has this code. A database compares these bytes and reads no further."""
    return b'{"code":' + msgspec.json.encode(code)


def _count(row: Row) -> RunCount:
    group = row[0]
    return RunCount(
        group if group is None or isinstance(group, str) else bytes(group).decode("utf-8", "replace"), *row[1:]
    )


class JournalCalls(Calls):
    _place_kind: ClassVar[type[Any]]
    """The type of `_place`."""

    _hooks: Coalescer[str, TriggerRow]
    """Made by each journal, of `_find_hooks`."""

    @abstractmethod
    def _place(self, row: Row) -> tuple[object, ...]:
        """The place of a run in a list, newest first: its time of creation, and a tie-breaker."""

    @abstractmethod
    def _place_by_end(self, row: Row) -> tuple[object, ...]:
        """The same in a list by the time of the end."""

    # -- runs

    async def get_run(self, run_id: str) -> RunRecord:
        return found(await self.find_run(run_id), "run", run_id)

    @abstractmethod
    async def find_run(self, run_id: str) -> RunRecord | None: ...

    async def find_commit(self, run_id: str) -> LastCommit | None:
        return await self._find("find_commit", {"run_id": run_id}, positional(LastCommit))

    async def find_seqs(self, run_ids: Collection[str]) -> Mapping[str, int]:
        return dict(await self._read("find_seqs", {"run_ids": self._many(run_ids)}, tuple))

    async def find_outlines(self, run_ids: Collection[str], letter_state: str) -> Mapping[str, Outline]:
        asked = {"run_ids": self._many(run_ids), "letter_state": letter_state}
        return {row[0]: Outline(*row[1:]) for row in await self._read("find_outlines", asked, tuple)}

    async def list_runs(
        self, where: RunFilter = EVERYTHING, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        place = decode_cursor(cursor, self._place_kind)
        side = "after" if where.oldest else "cursor"
        parameters = self._conditions(where) | {
            f"{side}_at": place and place[0],
            f"{side}_key": place and place[1],
            "oldest": True if where.oldest else None,
            "limit": max(limit, 0) + 1,
        }
        name = "list_runs" if where.tag is None else "list_runs_by_tag"
        if where.by_end:
            name = "list_runs_by_end"
        make = self._place_by_end if where.by_end else self._place
        return page(await self._read(name, parameters, lambda row: (self._make_run(row), make(row))), limit)

    async def count_runs(
        self,
        where: RunFilter = EVERYTHING,
        *,
        group: Literal["state", "workflow", "error"] | None = None,
        bucket: float | None = None,
        limit: int = 10_000,
    ) -> list[RunCount]:
        parameters = self._conditions(where) | {
            "group": group,
            f"by_{group}": group,
            "bucket": bucket,
            "by_end": True if where.by_end else None,
            "limit": max(limit, 0),
        }
        return await self._read("count_runs", parameters, _count)

    def _conditions(self, where: RunFilter) -> dict[str, object]:
        few = where.tag is None and not where.by_end and (where.parent is not None or where.quarantined is True)
        prefix = where.id_prefix
        return {
            "tenant": None if few else where.tenant,
            "of_tenant": where.tenant if few else None,  # what is few among all is looked for first
            "state": where.states[0] if len(where.states) == 1 else None,
            "states": self._many(where.states) if len(where.states) > 1 else None,
            "workflow": where.workflow,
            "tag_name": where.tag and self._free(where.tag[0]),
            "tag_value": where.tag and self._free(where.tag[1]),
            "since": where.since,
            "until": where.until,
            "parent": where.parent,
            "top": True if where.top else None,
            "plain": TRIGGER_WORKFLOW if where.plain else None,
            "may_wait": True if where.may_wait else None,
            "quarantined": True if where.quarantined is True else None,
            "sound": True if where.quarantined is False else None,
            "version": where.version,
            "error": None if where.error is None else error_beginning(where.error),
            "id_from": prefix,
            "id_to": None if prefix is None else prefix + _LAST_CHARACTER,
            "id_tenant": None if prefix is None else where.tenant,
            "ended_since": where.ended_since,
            "ended_until": where.ended_until,
        }

    async def list_active_runs(
        self, partitions: Collection[int] | None = None, after: str = "", limit: int = 1000, *, busy: bool = False
    ) -> list[RunRecord]:
        parameters = {
            "partitions": self._many(partitions),
            "after": after,
            "limit": max(limit, 0),
            "busy": True if busy else None,
        }
        return await self._read("list_active_runs", parameters, self._make_run)

    async def mark_quarantined(self, run_id: str, reason: str) -> None:
        if not await self._change("mark_quarantined", {"run_id": run_id, "reason": self._free(reason)}):
            raise NotFound(f"run {run_id} does not exist")

    async def unquarantine(self, run_id: str) -> None:
        if not await self._change("unquarantine", {"run_id": run_id}):
            raise NotFound(f"run {run_id} does not exist")

    async def find_idempotency(self, tenant: str, key: str) -> tuple[str, str] | None:
        parameters = {"tenant": tenant, "key": self._free(key)}
        return await self._find("find_idempotency", parameters, lambda row: (row[0], row[1]))

    # -- timers

    async def list_due_timers(
        self,
        now: float,
        limit: int = 1000,
        partitions: Collection[int] | None = None,
        runs: Collection[str] | None = None,
    ) -> list[DueTimer]:
        parameters = {
            "now": now,
            "limit": max(limit, 0),
            "partitions": self._many(partitions),
            "run_ids": self._many(runs),
        }
        return await self._read("list_due_timers", parameters, positional(DueTimer))

    async def next_timer(self, partitions: Collection[int] | None = None) -> float | None:
        return await self._find("next_timer", {"partitions": self._many(partitions)}, first)

    # -- approvals and dead letters

    async def get_approval(self, approval_id: str) -> ApprovalRow:
        return found(await self._find("get_approval", {"id": approval_id}, _approval), "approval", approval_id)

    async def list_approvals(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ApprovalRow]:
        parameters = listing(state, tenant, run_id, limit, cursor)
        rows = await self._read("list_approvals", parameters, lambda row: (_approval(row), (row[5], row[0])))
        return page(rows, limit)

    async def get_dead_letter(self, dead_letter_id: str) -> DeadLetterRow:
        letter = await self._find("get_dead_letter", {"id": dead_letter_id}, _dead_letter)
        return found(letter, "dead letter", dead_letter_id)

    async def list_dead_letters(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[DeadLetterRow]:
        parameters = listing(state, tenant, run_id, limit, cursor)
        rows = await self._read("list_dead_letters", parameters, lambda row: (_dead_letter(row), (row[5], row[0])))
        return page(rows, limit)

    # -- triggers

    async def find_trigger(self, tenant: str, name: str) -> TriggerRow | None:
        return await self._find("find_trigger", {"tenant": tenant, "name": name}, _trigger)

    async def find_hook(self, hook: str) -> TriggerRow | None:
        return await self._hooks.ask(hook)

    async def _find_hooks(self, hooks: list[str]) -> dict[str, TriggerRow]:
        """Most deliveries at one time are for one hook: they share a question."""
        rows = await asyncio.gather(*(self._find("find_hook", {"hook": hook}, _trigger) for hook in hooks))
        return {hook: row for hook, row in zip(hooks, rows, strict=True) if row is not None}

    async def list_triggers(
        self,
        *,
        tenant: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TriggerRow]:
        place = decode_cursor(cursor, tuple[str, str])
        parameters = {
            "tenant": tenant,
            "kind": kind,
            "state": state,
            "live": True if state is None else None,
            "cursor_tenant": place and place[0],
            "cursor_name": place and place[1],
            "limit": max(limit, 0) + 1,
        }
        rows = await self._read("list_triggers", parameters, lambda row: (_trigger(row), (row[0], row[1])))
        return page(rows, limit)

    async def count_triggers(self, tenant: str) -> int:
        return await self._find("count_triggers", {"tenant": tenant}, first) or 0

    # -- occurrences

    async def read_occurrences(
        self,
        tenant: str,
        topic: str,
        *,
        key: str | None = None,
        after: int = 0,
        since: float | None = None,
        limit: int = 100,
    ) -> list[Occurrence]:
        parameters = {"tenant": tenant, "topic": topic, "key": key, "after": after, "since": since}
        return await self._read("read_occurrences", {**parameters, "limit": max(limit, 0)}, named(Occurrence))

    async def list_topics(self, after: int, limit: int = 10_000) -> list[Topic]:
        return await self._read("list_topics", {"after": after, "limit": max(limit, 0)}, positional(Topic))

    async def last_occurrence(self) -> int:
        return await self._find("last_occurrence", {}, first) or 0

    async def list_subscribers(
        self,
        topic: Topic,
        partitions: Collection[int] | None = None,
        *,
        after: str = "",
        limit: int = 1000,
    ) -> list[Subscription]:
        parameters = {
            "tenant": topic.tenant,
            "topic": topic.topic,
            "key": topic.key,
            "position": topic.position,
            "at": topic.at,
            "partitions": self._many(partitions),
            "after": after,
            "limit": max(limit, 0),
        }
        return await self._read("list_subscribers", parameters, named(Subscription))

    async def read_subscriptions(self, run_id: str) -> list[Subscription]:
        return await self._read("read_subscriptions", {"run_id": run_id}, named(Subscription))

    async def prune_occurrences(self, before: float) -> int:
        return await self._change("prune_occurrences", {"before": before})

    async def count_occurrences(self, tenant: str, most: int) -> int:
        return await self._find("count_occurrences", {"tenant": tenant, "most": max(most, 0)}, first) or 0

    async def drop_occurrences(self, tenant: str, most: int) -> int:
        return await self._change("drop_occurrences", {"tenant": tenant, "most": max(most, 0)})

    async def count_subscribers(self, tenant: str, topic: str, key: str | None = None, most: int = 1000) -> int:
        parameters = {"tenant": tenant, "topic": topic, "key": key, "most": max(most, 0)}
        return await self._find("count_subscribers", parameters, first) or 0

    # -- notices and commands

    async def read_notices(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Notice]:
        parameters = {"partitions": self._many(partitions), "after": after, "limit": max(limit, 0)}
        return await self._read("read_notices", parameters, positional(Notice))

    async def read_commands(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Command]:
        parameters = {"partitions": self._many(partitions), "after": after, "limit": max(limit, 0)}
        return await self._read("read_commands", parameters, positional(Command))

    # -- definitions and workflows

    async def put_definition(self, definition_hash: str, kind: str, body: bytes) -> None:
        await self._change("put_definition", {"definition_hash": definition_hash, "kind": kind, "body": body})

    async def get_definition(self, definition_hash: str) -> Definition:
        definition = await self._find("get_definition", {"definition_hash": definition_hash}, positional(Definition))
        return found(definition, "definition", definition_hash)

    async def find_workflow(
        self, name: str, version: int | None = None, *, tenant: str = "default"
    ) -> WorkflowVersion | None:
        return await self._find("find_workflow", {"tenant": tenant, "name": name, "version": version}, _workflow)

    async def list_workflows(
        self, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        place = decode_cursor(cursor, tuple[str])
        parameters = {"tenant": tenant, "after": place and place[0], "limit": max(limit, 0) + 1}
        return page(await self._read("list_workflows", parameters, lambda row: (_workflow(row), (row[0],))), limit)

    async def list_workflow_versions(
        self, name: str, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        place = decode_cursor(cursor, tuple[int])
        parameters = {"tenant": tenant, "name": name, "before": place and place[0], "limit": max(limit, 0) + 1}
        rows = await self._read("list_workflow_versions", parameters, lambda row: (_workflow(row), (row[1],)))
        return page(rows, limit)

    # -- budgets over several runs

    async def read_purses(
        self, tenant: str, day: str, month: str, *, workflow: str = "", limit: int = 1000
    ) -> list[Purse]:
        parameters = {"tenant": tenant, "day": day, "month": month, "workflow": workflow, "limit": max(limit, 0)}
        return await self._read("read_purses", parameters, named(Purse))

    # -- housekeeping

    async def prune_commands(self, answered_before: float) -> int:
        return await self._change("prune_commands", {"before": answered_before})
