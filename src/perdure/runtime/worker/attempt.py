"""One attempt while a worker has it: its state, and the results it can come to.

This file owns what is known of an attempt inside the worker. It must not know slots, queues or transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from perdure.blobs import INLINE_BYTES
from perdure.model.money import Usage
from perdure.outcomes import NotDone
from perdure.runtime.failures import describe
from perdure.runtime.worker.attempt_files import AttemptFiles
from perdure.runtime.worker.handler_results import Left
from perdure.runtime.worker.inflow import Inflows
from perdure.runtime.worker.outflow import Outflow
from perdure.spending import Short, Terms
from perdure.streams import Flowed
from perdure.transport import Result, Task

End = Literal["", "timeout", "heartbeat_timeout", "cancelled", "handed_back"]


STEP_BYTES = 256 * 1024
"""The sum of the results of steps that one attempt keeps in the journal itself, and the next one's task may carry;
beyond that all but very small ones are blobs."""
SMALL_BYTES = 1024


class Attempt:
    __slots__ = (
        "ask",
        "checkpoints",
        "ending",
        "files",
        "flowed",
        "handle",
        "inflows",
        "kept",
        "last_heartbeat",
        "leave",
        "left",
        "opened",
        "outflow",
        "progress",
        "released",
        "reported",
        "returned",
        "saving",
        "slot",
        "started",
        "started_at",
        "task",
        "task_id",
        "threads",
        "unwind_by",
        "writer",
    )

    def __init__(self, task: Task, slot: int) -> None:
        self.task = task
        self.task_id = task.task_id
        self.slot = slot
        self.handle: asyncio.Task[None]
        self.leave: Callable[[asyncio.Task[None]], None]
        """Called if its asyncio task is done before it has begun."""
        self.left = False
        """Whether its asyncio task is done, or about to be."""
        self.started: float | None = None
        """When the handler was called, by the monotonic clock; None until then."""
        self.started_at: float | None = None
        self.ask = ""
        """The last wish to begin, of an effect that may happen at most once."""
        self.last_heartbeat = 0.0
        self.progress = ""
        """How far the handler says it is, as JSON."""
        self.opened = False
        """Whether something in its config had been sealed."""
        self.ending: End = ""
        """Why the attempt was told to end, if it was; the first reason stays."""
        self.unwind_by: float | None = None
        """When the worker stops waiting for the cancelled handler."""
        self.threads = 0
        """The number of calls in threads that have not returned; the slot stays taken as long (rule 32)."""
        self.returned = False
        """Whether the handler has done its work; its value is being stored and reported."""
        self.saving: asyncio.Task[None] | None = None
        """The task that stores the last checkpoint; the next checkpoint waits for it."""
        self.checkpoints = 0
        self.kept = 0
        """Bytes of the results of steps that are kept in the journal itself."""
        self.files: AttemptFiles | None = None
        """The folder that it has while it is executed, and where it reads assets from."""
        self.inflows: Inflows | None = None
        """The streams that it reads."""
        self.flowed: Flowed | None = None
        """How its own stream has ended."""
        self.writer = ""
        """The name under which this execution streams."""
        self.outflow: Outflow | None = None
        self.reported = False
        self.released = False

    @property
    def superseded(self) -> bool:
        """Whether another edition has taken the place of one that it reads or writes: no outcome of it counts."""
        read = self.inflows is not None and self.inflows.superseded
        return read or (self.outflow is not None and self.outflow.superseded)

    @property
    def inline_bytes(self) -> int:
        """How large the result of a step may be to be kept in the journal itself."""
        return INLINE_BYTES if self.kept < STEP_BYTES else SMALL_BYTES

    def deadline(self) -> float | None:
        """When the attempt next has to be looked at: at a timeout, or when its handler must have cleaned up."""
        if self.started is None or self.reported:
            return None
        if self.ending and self.unwind_by is not None:
            return self.unwind_by
        if self.returned:
            return None
        task = self.task
        due = None if task.timeout_seconds is None else self.started + task.timeout_seconds
        if task.heartbeat_timeout_seconds is not None:
            silent = self.last_heartbeat + task.heartbeat_timeout_seconds
            due = silent if due is None else min(due, silent)
        return due

    def overdue(self, now: float) -> End:
        """The timeout that has passed; "" if none has."""
        task = self.task
        if self.started is None:
            return ""
        if task.timeout_seconds is not None and now >= self.started + task.timeout_seconds:
            return "timeout"
        if task.heartbeat_timeout_seconds is not None and now >= self.last_heartbeat + task.heartbeat_timeout_seconds:
            return "heartbeat_timeout"
        return ""

    @property
    def is_late(self) -> bool:
        """Whether a timeout has ended the attempt: its result is too late even if the handler was not interrupted."""
        return self.ending in {"timeout", "heartbeat_timeout"}

    def completed(
        self, left: Left, worker: str, choice: tuple[str, ...] | None, reasoning: str, *, renews: bool = False
    ) -> Result:
        task, address = self.task, self.task.address
        return Result(
            run_id=address.run_id,
            node=address.node,
            scope=address.scope,
            item=address.item,
            attempt=address.attempt,
            generation=address.generation,
            undo=address.undo,
            tenant=task.tenant,
            incarnation=task.incarnation,
            started_at=self.started_at,
            worker=worker,
            ask=self.ask,
            kind="completed",
            output=left.value,
            output_ref=left.ref,
            size=left.size,
            choice=choice,
            reasoning=reasoning,
            renews=renews,
            flow=self.flowed,
            begins=self.writer,
        ).keep(address)

    def said(self, flowed: Flowed, worker: str) -> Result:
        """Tell that the stream has opened, or that a piece of it is stored."""
        return self._result(worker, kind="checkpointed", flow=flowed, begins=self.writer if flowed.opened else "")

    def failed(self, error: BaseException, worker: str) -> Result:
        if self.ending:
            return self.ended(worker, not_done=isinstance(error, NotDone))
        return self._result(worker, kind="failed", **describe(error))

    def ended(self, worker: str, *, not_done: bool = False) -> Result:
        """The result of an attempt that was told to end and did."""
        task = self.task
        not_done = not_done or self.started is None
        match self.ending:
            case "timeout":
                message = f"not finished after {task.timeout_seconds:g} s"
                return self._result(worker, kind="failed", code="timeout", message=message, not_done=not_done)
            case "heartbeat_timeout":
                message = f"no heartbeat for {task.heartbeat_timeout_seconds:g} s"
                return self._result(worker, kind="failed", code="heartbeat_timeout", message=message, not_done=not_done)
            case "cancelled":
                message = "stopped on request"
                return self._result(
                    worker,
                    kind="failed",
                    code="cancelled",
                    message=message,
                    retryable=False,
                    not_done=not_done,
                    stopped=True,
                )
            case "handed_back":
                return self.handed_back(worker)
            case "":
                message = "the handler cancelled itself"
                return self._result(worker, kind="failed", code="error", message=message)

    def suspended(self, asks: tuple[dict[str, Any], ...], worker: str) -> Result:
        """The result of an attempt whose handler has asked for something; one that was told to end has asked nobody."""
        return self.ended(worker) if self.ending else self._result(worker, kind="suspended", asks=asks)

    def handed_back(self, worker: str) -> Result:
        return self._result(worker, kind="handed_back", not_done=self.started is None)

    def short(self, short: Short, worker: str) -> Result:
        """The result of an attempt that was refused a call; what it has kept stays."""
        if self.ending:
            return self.ended(worker)
        terms = short.terms
        return self._result(worker, kind="handed_back", step=short.step, reserve=terms.reserve, limit=terms.limit)

    def cursors(self) -> Flowed | None:
        """How far it has read what it reads: what a checkpoint says that is made now."""
        return None if self.inflows is None else Flowed(cursors=self.inflows.cursors())

    def checkpointed(
        self, left: Left, step: str, worker: str, usage: Usage | None = None, flow: Flowed | None = None
    ) -> Result:
        self.checkpoints += 1
        if step and left.ref is None:
            self.kept += left.size
        fields: dict[str, Any] = {"output": left.value, "output_ref": left.ref, "size": left.size}
        if flow is not None:
            fields["flow"] = flow
        return self._result(worker, kind="checkpointed", step=step, number=self.checkpoints, usage=usage, **fields)

    def begins(self, step: str, wish: str, terms: Terms, worker: str, *, not_done: bool = False) -> Result:
        """The wish to begin a step by leave of the journal, or the word that it did not happen."""
        fields: dict[str, Any] = {"reserve": terms.reserve, "limit": terms.limit, "model": terms.model}
        effect = "at_most_once" if terms.once else "idempotent"
        return self._result(
            worker, kind="checkpointed", step=step, begins=wish, not_done=not_done, effect=effect, **fields
        )

    def _result(self, worker: str, **fields: Any) -> Result:
        task = self.task
        return Result.at(
            task.address,
            tenant=task.tenant,
            incarnation=task.incarnation,
            started_at=self.started_at,
            worker=worker,
            ask=self.ask,
            **fields,
        )
