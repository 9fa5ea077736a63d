"""Checkpoints that count only when they are durable: a step begins after the one before it is in the journal.

It owns the worker's wait for that and the coordinator's word. A checkpoint carries a name of its own; when the
coordinator acknowledges it, the answer to that name is left for the worker, as for a wish to begin. A checkpoint that
the server lost is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.clock import Clock
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.redis.link import Arguments, Link
from perdure.transports.redis.messages import Answer, Messages
from perdure.transports.redis.names import BEGIN_SECONDS, Keys
from perdure.transports.redis.wakes import POLL_SECONDS, Ticket, Wakes


class Sent(msgspec.Struct):
    """A checkpoint on its way."""

    partition: int
    task_id: str
    name: str
    """What a refusal of it names."""
    ask: str
    fields: Arguments
    entry: bytes = b""


class Checkpoints:
    def __init__(
        self, link: Link, wakes: Wakes, keys: Keys, messages: Messages, clock: Clock, *, process: str, durable: bool
    ) -> None:
        self._link = link
        self._wakes = wakes
        self._keys = keys
        self._messages = messages
        self._clock = clock
        self._process = process
        self.durable = durable

    # worker

    def prepare(self, partition: int, task_id: str, name: str, fields: Arguments) -> Sent:
        ask = self._clock.new_id()
        return Sent(partition, task_id, name, ask, [*fields, "ask", ask, "process", self._process])

    async def wait(self, checkpoints: Sequence[Sent]) -> set[str]:
        """Wait until every checkpoint is durable or refused; returns the names of the refused ones."""
        ticket = Ticket()
        done = self._wakes.on([self._keys.wake_process(self._process)], ticket.wake)
        left, refused = list(checkpoints), set[str]()
        try:
            while True:
                ticket.clear()
                answers = [(one, await self._answer(one)) for one in left]
                left = [one for one, kept in answers if kept is None]
                refused |= {one.name for one, kept in answers if kept is False}
                if not left:
                    return refused
                woken = await ticket.wait(POLL_SECONDS)
                self._link.check_open()
                if not woken:
                    await self._send_lost(left)
        finally:
            done()

    async def _answer(self, checkpoint: Sent) -> bool | None:
        """True: the checkpoint is durable. False: it was refused. None: there is no answer yet."""
        said = await self._link.call("GETDEL", self._keys.grant(checkpoint.partition, checkpoint.ask))
        if said is None:
            return None
        try:
            answer: Answer = self._messages.decode_lines("grant", said)
        except EnvelopeRefused:
            return None
        return answer.granted if (answer.ask, answer.task_id) == (checkpoint.ask, checkpoint.task_id) else None

    async def _send_lost(self, checkpoints: Sequence[Sent]) -> None:
        for one in checkpoints:
            stream = self._keys.results(one.partition)
            if not await self._link.call("XRANGE", stream, one.entry, one.entry):
                one.entry, _ = await self._link.call_all(
                    [["XADD", stream, "*", *one.fields], ["PUBLISH", self._keys.wake_results, one.partition]]
                )

    # coordinator

    def saying(
        self, partition: int, task_id: str, tenant: str, ask: str, process: str, *, kept: bool = True
    ) -> list[Arguments]:
        """The commands that tell the worker whether its checkpoint was kept."""
        answer = Answer(tenant=tenant, ask=ask, task_id=task_id, granted=kept)
        said = self._messages.encode_lines("grant", answer, tenant)
        return [
            ["SET", self._keys.grant(partition, ask), said, "EX", BEGIN_SECONDS],
            ["PUBLISH", self._keys.wake_process(process), task_id],
        ]
