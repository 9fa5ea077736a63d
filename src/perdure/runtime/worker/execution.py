"""The execution of one attempt: on the loop, in a thread, or in a process of its own.

It owns the way from a task to the value or error of its handler, and the context the handler sees. It must not know
slots, claiming or shutdown.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure import functions
from perdure.archive.stored_lines import LogLine
from perdure.asks import LARGEST_ASKS
from perdure.assets import Asset, reading
from perdure.chunks import On
from perdure.clock import Clock
from perdure.kernel.values import Part
from perdure.model import money
from perdure.nodes.shared_values import Opener, SharedValues
from perdure.outcomes import Chosen, Failure, Renewed
from perdure.plain_text import cut
from perdure.runtime.worker.attempt import Attempt
from perdure.runtime.worker.attempt_files import AttemptFiles
from perdure.runtime.worker.capture import heard
from perdure.runtime.worker.claim_file import Claims
from perdure.runtime.worker.context import Context, running_loop
from perdure.runtime.worker.deadline_watch import Watch
from perdure.runtime.worker.encoder import is_light
from perdure.runtime.worker.handler_inputs import Filling, Shelf
from perdure.runtime.worker.handler_results import Leaving, Left, is_quick
from perdure.runtime.worker.handlers import Found, Handlers
from perdure.runtime.worker.inflow import Inflows, decode_bodies, decode_piece
from perdure.runtime.worker.isolation import Duties, ProcessPool
from perdure.runtime.worker.lasting_outflow import Covered, Repeating, make_outflow
from perdure.runtime.worker.logs import LONGEST
from perdure.runtime.worker.outflow import MOST_PENDING, Crossing, Outflow
from perdure.runtime.worker.outputs import check_step
from perdure.runtime.worker.reporter import Reporter
from perdure.runtime.worker.sayings import choice_of, inputs_of, plain
from perdure.runtime.worker.stalls import Timed
from perdure.runtime.worker.streamed import Streamed
from perdure.runtime.worker.threads import ThreadPool
from perdure.spending import Refused, Terms
from perdure.streams import Flowed, Streams
from perdure.threads import aside
from perdure.transport import LONGEST_PROGRESS, Result, Task, Transport, TransportUnavailable

_log = logging.getLogger(__name__)


class Execution:
    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        handlers: Handlers,
        *,
        worker_id: str,
        threads: ThreadPool,
        processes: ProcessPool,
        reporter: Reporter,
        watch: Watch,
        claims: Claims | None,
        filling: Filling,
        leaving: Leaving,
        release: Callable[[Attempt], None],
        shared: SharedValues,
        streamed: Streamed,
        keep_line: Callable[[LogLine], None] | None = None,
        device: str = "",
        streams: Streams | None = None,
    ) -> None:
        self._transport = transport
        self._clock, self._handlers = clock, handlers
        self.worker_id = worker_id
        self.threads = threads
        self._processes = processes
        self._reporter, self._watch = reporter, watch
        self._claims = claims
        self._filling, self._leaving = filling, leaving
        self._release = release
        self._keep_line = keep_line
        self.shared, self.device = shared, device
        self._streams, self._streamed = streams, streamed
        self.loop = asyncio.get_running_loop()
        self._contexts: dict[str, WorkerContext] = {}
        self.monotonic = clock.monotonic
        self._blocked: set[str] = set()
        """Functions that were seen to block the loop, each of which is reported once."""

    async def execute(self, attempt: Attempt) -> Result:
        """Execute an attempt and give its result. Raises only when cancelled."""
        task = attempt.task
        files = attempt.files = AttemptFiles(partial(self._filling.part, task), self.loop)
        try:
            functions.follow_changes(self._clock.monotonic())
            found = self._handlers.get(task.type)
            if found is None:
                raise Failure("unknown_type", self._handlers.explain(task.type))
            if task.isolation == "process" and not task.sealed:
                config = self._filling.reveal(task, task.config)  # the isolated process loads its blobs itself
            else:
                opened: list[str] = []
                config = await self._filling.fill(task, task.config, opened)
                attempt.opened = bool(opened)
            if problem := self._handlers.check_config(task, found, config, opened=attempt.opened):
                raise Failure("bad_config", f"{task.type} {task.node}: {problem}", retryable=False, not_done=True)
            if task.effect == "at_most_once" and not await self._is_granted(attempt):
                return attempt.handed_back(self.worker_id)
            calling = self._call(attempt, found, config)
            del config  # a large config should be held by the handler alone
            with heard(functools.partial(self.keep_line, task)), reading(files):
                value = await calling
            if self._has_stopped(attempt):
                return self._suspend(attempt)
            if attempt.superseded:
                return attempt.handed_back(self.worker_id)
            if attempt.inflows is not None and task.flow is not None and not task.flow.early:
                await attempt.inflows.drain()
            leaving = self._leave(attempt, value)
            del value
            return await leaving
        except (asyncio.CancelledError, GeneratorExit):
            if attempt.superseded and not attempt.ending:
                return attempt.handed_back(self.worker_id)
            if attempt.ending or not self._has_stopped(attempt):
                raise
            return self._suspend(attempt)
        except BaseException as error:  # noqa: BLE001  a handler may raise anything, even SystemExit; it failed
            if self._has_stopped(attempt):  # whatever it makes of that (rule 77)
                return self._suspend(attempt)
            if attempt.superseded and not attempt.ending:
                return attempt.handed_back(self.worker_id)
            # A KeyboardInterrupt here is the handler's too: Ctrl-C ends the loop's main task and comes here only the
            # second time, from a handler that keeps the loop. Out of here it would end the process, and all it runs.
            return self._leaving.clean(attempt.failed(error, self.worker_id))
        finally:
            self._contexts.pop(attempt.task_id, None)
            if attempt.saving is not None:
                attempt.saving.cancel()  # a checkpoint the handler did not wait for
            if attempt.inflows is not None:
                await attempt.inflows.leave()
            if files.has_folder:
                await files.clear()

    def _has_stopped(self, attempt: Attempt) -> bool:
        context = self._contexts.get(attempt.task_id)
        return context is not None and context.has_stopped

    def _suspend(self, attempt: Attempt) -> Result:
        """Make a result of what the handler has asked for, or of the call that it was refused."""
        asks, task = self._contexts[attempt.task_id].asks, attempt.task
        short = self._contexts[attempt.task_id].short
        if short is not None and asks is None:
            return attempt.short(short, self.worker_id)
        try:
            if task.sensitive and any(ask["kind"] in ("approval", "child") for ask in asks or ()):
                message = (
                    f"{task.node} has sensitive fields, and what it shows or passes on would be stored in the open"
                )
                raise Failure("cannot_suspend", message, retryable=False)
            left = self._leaving.send_small(task, asks, "asks", LARGEST_ASKS)
        except Failure as error:
            return self._leaving.clean(attempt.failed(error, self.worker_id))
        assert isinstance(left, Left)  # the context has measured it
        return attempt.suspended(tuple(left.value), self.worker_id)

    async def _leave(self, attempt: Attempt, value: Any) -> Result:
        """Make a result of what the handler returned. From here on no timeout applies: the work is done."""
        if attempt.is_late:
            return attempt.ended(self.worker_id)
        attempt.returned = True
        choice, reasoning = None, ""
        if isinstance(value, Chosen):
            choice, reasoning = choice_of(value)
            value = value.output
        if renews := isinstance(value, Renewed):
            value = inputs_of(value, attempt.task)
        sending, about = self._leaving.send(attempt.task, value), (self.worker_id, choice, reasoning)
        del value  # a large output should not be held while it is stored
        return self._leaving.clean(attempt.completed(await sending, *about, renews=renews))

    def tell(self, attempt: Attempt) -> None:
        """Tell the handler that it should stop."""
        context = self._contexts.get(attempt.task_id)
        if context is not None:
            context.cancelled = True

    def checkpoint(
        self, attempt: Attempt, data: Any, step: str, usage: money.Usage | None = None
    ) -> asyncio.Future[None]:
        if attempt.reported:
            raise asyncio.CancelledError(f"{attempt.task_id} is over")
        check_step(step)  # again: an isolated process does not know what is secret
        small = data
        if is_quick(data):
            small = self._leaving.send_small(attempt.task, data, "checkpoint", attempt.inline_bytes)
        flow, out = None if step else attempt.cursors(), None if step else attempt.outflow
        if isinstance(out, Repeating):
            out.refuse_checkpoint()
        if isinstance(out, Covered):
            covering = self._save(attempt, small, "", usage, flow, attempt.saving, out.cut())
            attempt.saving = self.loop.create_task(covering)
        elif attempt.saving is None and isinstance(small, Left):
            return self._reporter.add_and_wait(attempt.checkpointed(small, step, self.worker_id, usage, flow))
        else:
            attempt.saving = self.loop.create_task(self._save(attempt, small, step, usage, flow, attempt.saving))
        attempt.saving.add_done_callback(_look_at)
        return attempt.saving

    def begin_step(
        self, attempt: Attempt, step: str, wish: str, terms: Terms, *, not_done: bool
    ) -> asyncio.Future[None]:
        """Wish to begin a step, or say that it did not happen. The future is cancelled if that is refused."""
        if attempt.reported:
            raise asyncio.CancelledError(f"{attempt.task_id} is over")
        return self._reporter.add_and_wait(attempt.begins(step, wish, terms, self.worker_id, not_done=not_done))

    def new_wish(self) -> str:
        return self._clock.new_id()

    async def _save(
        self,
        attempt: Attempt,
        data: Any,
        step: str,
        usage: money.Usage | None,
        flow: Flowed | None,
        before: asyncio.Task[None] | None,
        upto: dict[str, int] | None = None,
    ) -> None:
        """Store a large checkpoint, then report it. Later checkpoints wait for it, so that they arrive in order."""
        if before is not None:
            await asyncio.wait([before])
        left = data
        if not isinstance(data, Left):
            left = await self._leaving.send(attempt.task, data, "checkpoint", attempt.inline_bytes)

        def report(covered: tuple[tuple[int, Part], ...] = ()) -> asyncio.Future[None]:
            said = msgspec.structs.replace(flow or Flowed(), covered=covered) if covered else flow
            return self._reporter.add_and_wait(attempt.checkpointed(left, step, self.worker_id, usage, said))

        if upto is not None and isinstance(attempt.outflow, Covered):
            await attempt.outflow.cover(upto, report)
        else:
            await report()

    async def load_inputs(self, task: Task) -> dict[str, Any]:
        inputs: dict[str, Any] = await self._filling.fill(task, task.inputs)
        return inputs

    def reveal_secret(self, task: Task, name: str) -> str:
        return self._filling.reveal_secret(task, name)

    async def get_blob(self, task: Task, ref: str) -> bytes | bytearray:
        return await self._filling.get(task, ref)

    def shelf_of(self, tenant: str) -> Shelf | None:
        return self._filling.shelf_of(tenant)

    async def keep_assets(self, task: Task, found: list[Asset]) -> None:
        await self._leaving.keep_assets(task, found)

    def thread_ended(self, attempt: Attempt) -> None:
        attempt.threads -= 1
        self._release(attempt)

    async def _is_granted(self, attempt: Attempt) -> bool:
        attempt.ask = self._clock.new_id()
        try:
            return await self._transport.begin(attempt.task, self.worker_id, attempt.ask)
        except TransportUnavailable as error:
            # The start may be in the journal, but nothing was started here, and the result says so.
            _log.warning("worker %s cannot ask to begin %s: %s", self.worker_id, attempt.task_id, error)
            return False

    async def _call(self, attempt: Attempt, found: Found, config: Any) -> Any:
        task = attempt.task
        if task.isolation == "process":
            async with self._processes.process() as process:
                self._begin(attempt)
                return await process.call(
                    found.handler,
                    msgspec.structs.replace(task, config=config),
                    Duties(
                        heartbeat=functools.partial(self.heartbeat, attempt),
                        progress=functools.partial(self.tell_progress, attempt),
                        checkpoint=functools.partial(self.checkpoint, attempt),
                        keep_line=functools.partial(self.keep_line, task),
                        blob=functools.partial(self._filling.get, task),
                        part=functools.partial(self._filling.part, task),
                        asset=functools.partial(self._leaving.keep_asset, task),
                        most=self._leaving.asset_max_bytes,
                    ),
                    found.opener,
                    self.device,
                )
        if task.checkpoint is not None:
            task = msgspec.structs.replace(task, checkpoint=await self._filling.fill(task, task.checkpoint))
        context = self._contexts[attempt.task_id] = WorkerContext(self, attempt, task)
        if task.flow is not None and task.flow.reads:
            ask = partial(self._say, attempt, Flowed(waits=True))
            load = partial(self._load_with_bodies, task)
            attempt.inflows = Inflows(self._store_of(task), task, task.flow.reads, self.loop, load, ask, self._streamed)
        if found.is_async and task.inputs and not found.inputs_on_demand:
            await context.prepare_inputs()
        self._begin(attempt)
        if found.opener is not None:
            async with self.shared.use(found.opener) as context.shared:
                if found.is_async:
                    return await found.handler(config, context)
                return await context.run_in_thread(found.handler, config, context)
        if found.is_async:
            return await found.handler(config, context)
        return await context.run_in_thread(found.handler, config, context)

    def _store_of(self, task: Task) -> Streams:
        if self._streams is None:
            raise Failure(
                "stream_not_built", f"{task.node} has streams, and this worker has no store of them", retryable=False
            )
        return self._streams

    async def _load_with_bodies(self, task: Task, ref: str, wants_bodies: bool) -> tuple[list[Any], list[bytes]]:
        """The chunks of a piece, and, if they are wanted, as they came."""
        data = await self._filling.get(task, ref)
        bodies = await aside(task.tenant, decode_bodies, data) if wants_bodies else []
        return await aside(task.tenant, decode_piece, data), bodies

    async def _load_part(self, task: Task, ref: str) -> Any:
        return await aside(task.tenant, decode_piece, await self._filling.get(task, ref))

    def open_outflow(self, attempt: Attempt) -> Outflow | None:
        """Where what the handler yields goes; None for a node without a stream."""
        task = attempt.task
        if task.flow is None or task.flow.out is None:
            return None
        attempt.writer = self._clock.new_id()
        report, store = partial(self._say, attempt), partial(self._leaving.store, task)
        streams, spec = self._store_of(task), task.flow.out
        load, scrubber = partial(self._load_part, task), self._leaving.scrubber
        make = partial(make_outflow, streams, task, spec, report=report, store=store, load=load)
        attempt.outflow = make(streamed=self._streamed, scrubber=scrubber)
        return attempt.outflow

    async def _say(self, attempt: Attempt, flowed: Flowed) -> None:
        await self._reporter.add_and_wait(attempt.said(flowed, self.worker_id))

    def encode_chunk(self, task: Task, value: Any) -> bytes:
        return self._leaving.protect_chunk(task, value)

    def _begin(self, attempt: Attempt) -> None:
        attempt.started_at = self._clock.now()
        if self._claims is not None:
            self._claims.enter(attempt.slot, attempt.task_id, attempt.started_at)
        attempt.started = attempt.last_heartbeat = self._clock.monotonic()
        task = attempt.task
        if task.timeout_seconds is not None or task.heartbeat_timeout_seconds is not None:
            self._watch.add(attempt)

    def keep_line(self, task: Task, level: int, text: str) -> None:
        """Keep a line with the run, cleaned of secrets that were revealed in this process. From any thread."""
        if self._keep_line is None:
            return
        self._keep_line(
            LogLine(
                tenant=task.tenant,
                run_id=task.run_id,
                node=task.node,
                attempt=task.attempt,
                at=self._clock.now(),
                level=logging.getLevelName(level).lower(),
                message=cut(self._leaving.clean_text(plain(text)), LONGEST),
            )
        )

    def tell_blocked(self, task: Task, function: str, seconds: float) -> None:
        if function not in self._blocked:  # reported once: a map may call the function a thousand times
            self._blocked.add(function)
            _log.warning(
                "run %s, node %s: the async function %s kept the event loop for %.1f s, and everything else in this process "
                "stood still; await what waits, or make it a plain `def`, which runs in a thread",
                task.run_id,
                task.node,
                function,
                seconds,
            )

    def heartbeat(self, attempt: Attempt) -> None:
        attempt.last_heartbeat = self._clock.monotonic()

    def tell_progress(self, attempt: Attempt, said: str) -> None:
        """Take how far a handler says it is, without secrets. What a node seals is not shown. From any thread."""
        if not attempt.task.sensitive and (cleaned := self._leaving.clean_json(said)) is not None:
            attempt.progress = cleaned[:LONGEST_PROGRESS]


class WorkerContext(Context):
    """The context of a handler in this process, on the loop or in a thread."""

    __slots__ = ("_attempt", "_execution")

    def __init__(self, execution: Execution, attempt: Attempt, task: Task) -> None:
        super().__init__(task)
        self._execution = execution
        self._attempt = attempt
        self.answers = execution.shelf_of(task.tenant)

    def _keep_line(self, level: int, text: str) -> None:
        self._execution.keep_line(self._task, level, text)

    def _tell_progress(self, said: str) -> None:
        self.heartbeat()
        self._execution.tell_progress(self._attempt, said)

    def watched(self, awaited: Awaitable[Any], function: str) -> Awaitable[Any]:
        tell = functools.partial(self._execution.tell_blocked, self._task, function)
        return Timed(awaited, self._execution.monotonic, tell)

    @property
    def was_sealed(self) -> bool:
        return self._attempt.opened

    def reveal_secret(self, name: str) -> str:
        return self._execution.reveal_secret(self._task, name)

    async def get_blob(self, ref: str) -> bytes | bytearray:
        return await self._execution.get_blob(self._task, ref)

    def _get_folder(self) -> Path:
        assert self._attempt.files is not None
        return self._attempt.files.folder()

    async def _keep_assets(self, found: list[Asset]) -> None:
        await self._execution.keep_assets(self._task, found)

    def _keep_assets_in_thread(self, found: list[Asset]) -> None:
        asyncio.run_coroutine_threadsafe(self._keep_assets(found), self._execution.loop).result()

    def heartbeat(self) -> None:
        """Restart the heartbeat timeout. Raises in a thread whose attempt is over, so that the slot becomes free."""
        if self._attempt.reported:
            raise asyncio.CancelledError(f"{self._attempt.task_id} is over")
        self._execution.heartbeat(self._attempt)

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        execution, attempt = self._execution, self._attempt
        attempt.threads += 1
        call = functools.partial(function, *args, **kwargs)
        answer = execution.threads.submit(call, functools.partial(execution.thread_ended, attempt))
        try:
            returned, value = await answer
        except asyncio.CancelledError:
            if not attempt.ending or answer.cancelled() or not answer.done():
                raise
            # The function had returned before it was told to stop: its work is done and must be reported as done.
            returned, value = answer.result()
            attempt.handle.uncancel()
        if returned:
            return value
        if isinstance(value, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
            raise RuntimeError(f"the function raised {type(value).__name__}") from value
        raise value

    @property
    def device(self) -> str:
        return self._execution.device

    @property
    def streams(self) -> Mapping[str, Any]:
        return {} if self._attempt.inflows is None else self._attempt.inflows.by_name

    async def give(self, made: Any) -> Any:
        out = self._execution.open_outflow(self._attempt)
        if out is None:
            return await super().give(made)
        try:
            if inspect.isasyncgen(made):
                async with contextlib.aclosing(made):
                    async for value in made:
                        await self._yield(out, value)
            else:
                await self.run_in_thread(self._give_in_thread, made, out)
            output, self._attempt.flowed = await out.end()
        except Exception:
            await out.end_texts()  # what was yielded before is read before the failure
            raise
        finally:
            out.close()
        return output

    async def _yield(self, out: Outflow, value: Any) -> None:
        port, value = (value.port, value.value) if isinstance(value, On) else ("out", value)
        encode = partial(self._execution.encode_chunk, self._task, value)
        body = encode() if is_light(value) else await aside(self._task.tenant, encode)
        if out.add(port, body):
            await out.settle()

    def _give_in_thread(self, made: Iterable[Any], out: Outflow) -> None:
        """Yield from a thread. Each chunk is on its way at once; only now and then is it waited for."""
        crossing = Crossing(out, self._execution.loop)
        for given, value in enumerate(made):
            port, chunk = (value.port, value.value) if isinstance(value, On) else ("out", value)
            body = self._execution.encode_chunk(self._task, chunk)
            out.check(port, body)
            crossing.put(port, body)
            if given % MOST_PENDING == 0:
                try:
                    asyncio.run_coroutine_threadsafe(out.settle(), self._execution.loop).result()
                except concurrent.futures.CancelledError:
                    raise RuntimeError(f"{self._attempt.task_id} is over") from None
            if self._attempt.reported or self.cancelled:
                raise RuntimeError(f"{self._attempt.task_id} is to stop")

    def using(self, opener: Opener) -> AbstractAsyncContextManager[Any]:
        return self._execution.shared.use(opener)

    async def load_inputs(self) -> dict[str, Any]:
        if self._inputs is None:
            self._inputs = await self._execution.load_inputs(self._task)
        return self._inputs

    def _fetch_inputs(self) -> dict[str, Any]:
        loading = self._execution.load_inputs(self._task)
        return asyncio.run_coroutine_threadsafe(loading, self._execution.loop).result()

    async def _say(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        answer = self._execution.begin_step(self._attempt, step, wish, terms, not_done=not_done)
        if terms.reserve is None or not_done:
            await answer
            return
        await asyncio.wait([answer])  # so that a refusal is told from an end of the attempt
        if answer.cancelled():
            raise Refused
        answer.result()

    def _new_wish(self) -> str:
        if self._task.undo:
            message = (
                "a step of a compensator cannot begin with effect='at_most_once' or reserve: what undoes is not held up"
            )
            raise Failure("cannot_begin", message, retryable=False)
        return self._execution.new_wish()

    def _say_in_thread(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        said = self._say(step, wish, terms, not_done=not_done)
        try:
            asyncio.run_coroutine_threadsafe(said, self._execution.loop).result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError(f"step {step!r} may not begin: its attempt is over") from None

    def _save(self, checkpoint: Any, step: str = "", usage: money.Usage | None = None) -> Any:
        if self._on_loop():
            return self._execution.checkpoint(self._attempt, checkpoint, step, usage)
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._execution.loop.call_soon_threadsafe(self._save_from_thread, checkpoint, step, usage, done)
        return done.result()

    def _save_from_thread(
        self, checkpoint: Any, step: str, usage: money.Usage | None, done: concurrent.futures.Future[None]
    ) -> None:
        try:
            saved = self._execution.checkpoint(self._attempt, checkpoint, step, usage)
        except (asyncio.CancelledError, Failure) as error:
            done.set_exception(error)
            return
        saved.add_done_callback(functools.partial(_pass_on, done))

    def _on_loop(self) -> bool:
        return running_loop() is self._execution.loop


def _pass_on(done: concurrent.futures.Future[None], saved: asyncio.Future[None]) -> None:
    if saved.cancelled():
        done.set_exception(asyncio.CancelledError("the worker has ended"))
    elif (error := saved.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(None)


def _look_at(saving: asyncio.Task[None]) -> None:
    """Mark the error of a checkpoint as seen. A handler that awaits it sees the error too; one that does not has not
    asked whether it was kept."""
    if not saving.cancelled():
        saving.exception()
