"""Handover: requests for runs that another process decides for are stored, and answered by the coordinator that holds
the run (PROTOCOL 10).

Owns the wait for the answer. A hint from the transport saves time; nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal import Journal, partition_of
from perdure.runtime.coordinator.requests import Reply, decode_reply
from perdure.runtime.patience import first_of
from perdure.transport import SharedTransport, TransportUnavailable

logger = logging.getLogger("perdure.handover")

LONGEST_LOOK_SECONDS = 1.0
"""The longest pause between two looks for an answer: each is twice as long as the one before, so that an answer that takes
long is not looked for often, and one that comes soon is seen at once."""
PATIENCE_SECONDS = 30.0
"""How long a request waits for a coordinator before its caller is told that none answered."""


class NobodyDecides(StoreUnavailable):
    """No coordinator answered a request in time."""

    code = "undecided"


class Handover:
    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._waiting: dict[str, asyncio.Event] = {}
        """An event per command, set when it is worth looking for the answer."""
        self._transport: SharedTransport | None = None

    def connect(self, transport: SharedTransport) -> None:
        """Use the transport to wake the coordinator that decides, and to be woken when it has answered."""
        self._transport = transport
        transport.on_wake("answers", self._answered)

    async def tell_answered(self, commands: list[str]) -> None:
        """Wake the callers of these commands, which have an answer now; called by the coordinator that decided them."""
        await self._hint("answers", " ".join(commands))

    async def ask(
        self,
        run_id: str,
        body: bytes,
        look: Callable[[], Awaitable[bool]],
        look_seconds: float,
        on_stored: Callable[[], None],
    ) -> Reply:
        """Store the request, say so with `on_stored`, and wait for its answer. After each look for it, `look` is asked
        whether an answer can still come; if not, the wait ends after `PATIENCE_SECONDS`."""
        command = self._clock.new_id()
        waiting = self._waiting[command] = asyncio.Event()
        begun = self._clock.monotonic()
        try:
            await self._journal.put_command(run_id, body, command_id=command)
            on_stored()
            await self._hint("commands", str(partition_of(run_id, self._journal.partition_count)))
            while True:
                await first_of(self._clock.sleep(look_seconds), waiting.wait())
                waiting.clear()  # before it looks: an answer that comes meanwhile wakes it again
                if (answer := await self._journal.find_answer(command)) is not None:
                    return decode_reply(answer)
                look_seconds = min(2 * look_seconds, LONGEST_LOOK_SECONDS)
                if not await look() and self._clock.monotonic() - begun > PATIENCE_SECONDS:
                    raise NobodyDecides(
                        f"no coordinator answered for run {run_id} within {PATIENCE_SECONDS:.0f} s; is `perdure serve` running? "
                        "What was asked is written down, and is decided when one is"
                    )
        finally:
            del self._waiting[command]

    def _answered(self, said: str) -> None:
        for command in said.split() if said else list(self._waiting):
            if (waiting := self._waiting.get(command)) is not None:
                waiting.set()

    async def _hint(self, topic: str, said: str) -> None:
        if self._transport is None:
            return
        try:
            await self._transport.wake(topic, said)
        except TransportUnavailable as error:  # coordinators and callers also look without being woken
            logger.warning("no wake-up could be sent: %s; requests are found by looking, a moment later", error)
