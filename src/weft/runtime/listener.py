"""The listener: hears what other processes ask of the runs this process holds, decides it and answers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from weft.blobs import BlobDamaged, BlobMissing, BlobStoreUnavailable
from weft.clock import Clock
from weft.errors import NotFound, StoreUnavailable
from weft.journal import Command, Journal, Notice
from weft.kernel import commands as c
from weft.kernel import reruns
from weft.kernel.state import State
from weft.model.ir import IR
from weft.routing.schemas import check
from weft.runtime.coordinator import Coordinator
from weft.runtime.loaded import load, read_continuation
from weft.runtime.messages import Asked, Noticed
from weft.runtime.requests import STARTS, Reply, Request, decode_request, encode_reply
from weft.runtime.waiting import first_of

logger = logging.getLogger("weft.listener")

_POLL_SECONDS = 0.1
"""Other processes cannot call into this one; an indexed look ten times a second is what hearing them costs."""


class Listener:
    def __init__(self, journal: Journal, coordinator: Coordinator, clock: Clock) -> None:
        self._journal = journal
        self._coordinator = coordinator
        self._clock = clock
        self._after = 0
        self._notices = 0
        self._noticed = asyncio.Event()
        coordinator.notice_written = self._noticed.set

    async def run(self) -> None:
        while True:
            try:
                await self.listen()
            except StoreUnavailable as error:
                logger.warning("commands: %s", error)
            await first_of(self._clock.sleep(_POLL_SECONDS), self._noticed.wait())
            self._noticed.clear()

    async def listen(self) -> None:
        for notice in await self._journal.read_notices(after=self._notices):
            await self._tell(notice)
            self._notices = notice.notice_id
        for command in await self._journal.read_commands(after=self._after):
            reply = await self._decide(command)
            # Crash here: what changed the run is answered with that change; the rest is decided again.
            await self._journal.answer_command(command.command_id, encode_reply(reply))
            self._after = command.position

    async def _tell(self, notice: Notice) -> None:
        """A child ended, or an endless run goes on as a new one."""
        coordinator = self._coordinator
        try:
            continuation = read_continuation(notice.body)
        except msgspec.ValidationError:
            coordinator.put(Noticed(notice.run_id, notice.notice_id, notice.body))
            return
        if await self._journal.find_run(notice.run_id) is not None:
            await self._journal.delete_notices([notice.notice_id])
            return
        ir = await coordinator.library.get(continuation.ir)
        run_id, number = notice.run_id, notice.notice_id
        coordinator.put(
            Asked(
                run_id,
                lambda state: continuation.start(run_id, coordinator.clock.now(), ir),
                starts=True,
                notice_id=number,
            )
        )

    async def _decide(self, command: Command) -> Reply:
        try:
            request = decode_request(command.body)
        except msgspec.MsgspecError as error:
            return Reply(run_id=command.run_id, code="bad_request", message=str(error))
        return await handle(self._coordinator, request, command.command_id)


def check_inputs(ir: IR, inputs: Any) -> list[str]:
    """What is wrong with the inputs of a run, by the workflow's schema. No inputs at all are an empty object."""
    if ir.inputs_schema is None:
        return []
    return check(ir.inputs_schema, {} if inputs is None else inputs)


class _Turned(Exception):
    """A request that cannot be decided, and why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


async def handle(coordinator: Coordinator, request: Request, command_id: str = "") -> Reply:
    """Decide a request in this process, and answer once that is durable."""
    try:
        ir, source = await _gather(coordinator, request)
    except _Turned as turned:
        return Reply(run_id=request.run_id, code=turned.code, message=turned.message)
    answer = await coordinator.ask(
        request.run_id,
        lambda state: request.command(state, coordinator.clock.now(), ir, source),
        starts=request.kind in STARTS,
        command_id=command_id,
    )
    if isinstance(answer, c.Refused):
        return Reply(run_id=request.run_id, code=answer.code, message=answer.message)
    return Reply(run_id=request.run_id, state=answer)


async def _gather(coordinator: Coordinator, request: Request) -> tuple[IR | None, State | None]:
    """What a request names and its decision needs: the IR, the run it is a rerun of."""
    source = await _find_source(coordinator, request) if request.kind == "rerun" else None
    name = request.ir if source is None else source.ir_hashes[-1]
    if not name and request.kind not in ("start", "patch"):
        return None, None
    try:
        ir = await coordinator.library.get(name)
    except NotFound as error:
        raise _Turned(error.code, f"the workflow to {request.kind}: {error.message}") from None
    if request.kind == "start" or (source is not None and not request.node and request.inputs is not None):
        inputs = request.inputs
        if ir.inputs_schema is not None:  # looked into, and only then loaded
            try:
                inputs = await coordinator.contents.resolve("default" if source is None else source.tenant, inputs)
            except (BlobStoreUnavailable, BlobMissing, BlobDamaged) as error:  # others wait for their answers
                raise _Turned(error.code, f"the inputs: {error.message}") from None
        problems = check_inputs(ir, inputs)
        if problems:
            raise _Turned("invalid_inputs", "the inputs do not fit the workflow: " + "; ".join(problems))
    return ir, source


async def _find_source(coordinator: Coordinator, request: Request) -> State:
    record = await coordinator.journal.find_run(request.source)
    if record is None:
        raise _Turned("not_found", f"there is no run {request.source}")
    if record.quarantined is not None:
        raise _Turned("quarantined", f"run {request.source} is quarantined: {record.quarantined}")
    try:
        source = await load(coordinator.journal, coordinator.library, record)
    except StoreUnavailable:
        raise
    except Exception as error:
        raise _Turned("integrity_error", f"run {request.source} cannot be read: {error}") from error
    if request.node:
        inputs = request.inputs if request.inputs is not None else {}
        if not isinstance(inputs, dict):
            raise _Turned("invalid_inputs", f"the inputs of {request.node!r} are given by node, as an object")
        problems = reruns.check(source, request.node, inputs)
        if problems:
            raise _Turned("rerun_refused", "; ".join(problems))
    return source
