"""The listener: hears what other processes ask of the runs this process holds, decides it and answers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from weft.clock import Clock
from weft.errors import NotFound, StoreUnavailable
from weft.journal import Command, Journal, Notice
from weft.kernel import commands as c
from weft.model.ir import IR
from weft.routing.schemas import check
from weft.runtime.coordinator import Coordinator
from weft.runtime.loaded import Continuation
from weft.runtime.messages import Asked, Noticed
from weft.runtime.requests import Reply, Request, decode_request, encode_reply
from weft.runtime.waiting import first_of

logger = logging.getLogger("weft.listener")

_POLL_SECONDS = 0.1
"""Other processes cannot call into this one; an indexed look ten times a second is what hearing them costs."""


_decode_continuation = msgspec.json.Decoder(Continuation).decode


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
            continuation = _decode_continuation(notice.body)
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


async def handle(coordinator: Coordinator, request: Request, command_id: str = "") -> Reply:
    """Decide a request in this process, and answer once that is durable."""
    ir = None
    if request.kind == "start":
        try:
            ir = await coordinator.library.get(request.ir)
        except NotFound as error:
            return Reply(run_id=request.run_id, code=error.code, message=f"the workflow to start: {error.message}")
        problems = check_inputs(ir, request.inputs)
        if problems:
            message = "the inputs do not fit the workflow: " + "; ".join(problems)
            return Reply(run_id=request.run_id, code="invalid_inputs", message=message)
    answer = await coordinator.ask(
        request.run_id,
        lambda state: request.command(state, coordinator.clock.now(), ir),
        starts=request.kind == "start",
        command_id=command_id,
    )
    if isinstance(answer, c.Refused):
        return Reply(run_id=request.run_id, code=answer.code, message=answer.message)
    return Reply(run_id=request.run_id, state=answer)
