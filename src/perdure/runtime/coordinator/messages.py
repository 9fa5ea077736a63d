"""The messages to a coordinator: each names a run, and most become a kernel command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.journal import IdempotencyKey
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.lifecycle import R
from perdure.kernel.segments import BlobRef, unpack
from perdure.kernel.state import State
from perdure.kernel.values import Error
from perdure.model.money import Usage
from perdure.runtime.coordinator.asked_for import asked_for
from perdure.runtime.coordinator.triggers.firings import Ends, read_firing
from perdure.transport import BeginRequest, Delivery, Result

_GOING_ON = (R.RUNNING, R.PAUSED, R.COMPENSATING)


class Reported:
    """A worker's result."""

    __slots__ = ("delivery", "refused", "run_id")

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.run_id = delivery.result.run_id
        self.refused = False
        """Set for a checkpoint of an attempt that is over: its worker must not go on to the next step."""

    def hold_back(self, clock: Clock, detail: str) -> c.HoldBack:
        """The command that holds the node, because no worker here can execute it."""
        return c.HoldBack(at=clock.now(), address=self.delivery.result.address, detail=detail)

    def hand_back(self, clock: Clock) -> c.Lapse:
        """The command that hands the attempt back, because another worker may have what this one lacks."""
        return c.Lapse(at=clock.now(), address=self.delivery.result.address, reason="handed_back")

    def command(self, clock: Clock, state: State) -> c.Command:
        result = self.delivery.result
        if result.kind == "completed":
            return self._complete(result, clock)
        about: dict[str, Any] = {"at": clock.now(), "entropy": clock.random(), "address": result.address}
        unbegun = result.ask if result.not_done else ""
        match result.kind:
            case "failed" if result.stopped and state.state in _GOING_ON:
                # The run did not ask for the stop: the transport forgot the claim, or delivered the task twice (T1).
                return c.Lapse(**about, reason="handed_back", ask=unbegun)
            case "failed":
                return c.Fail(
                    **about,
                    error=Error(result.code or "error", result.message, details=result.details),
                    retryable=result.retryable,
                    retry_after=result.retry_after,
                    not_done=result.not_done,
                    ask=result.ask,
                    started_at=result.started_at,
                    worker=result.worker,
                )
            case "handed_back":
                short: dict[str, Any] = {"step": result.step, "wants": result.reserve, "limit": result.limit}
                return c.Lapse(**about, reason="handed_back", ask=unbegun, **short)
            case "checkpointed" if result.flow is not None and result.flow.opened:
                return c.OpenStream(**about, ports=result.flow.opened, worker=result.worker, writer=result.begins)
            case "checkpointed" if result.flow is not None and result.flow.kept is not None:
                return c.KeepStream(**about, part=result.flow.kept, chain=result.flow.chain)
            case "checkpointed" if result.flow is not None and result.flow.waits:
                return c.TellStreams(**about)
            case "checkpointed" if result.begins:
                about |= {
                    "step": result.step,
                    "wish": result.begins,
                    "not_done": result.not_done,
                    "effect": result.effect,
                }
                about |= {"reserve": result.reserve, "limit": result.limit, "model": result.model}
                return c.BeginStep(**about, worker=result.worker)
            case "suspended":
                return asked_for(result, about)
            case "checkpointed":
                data = result.output if result.output_ref is None else BlobRef(result.output_ref)
                size = result.size + len(result.step)
                about |= {"step": result.step, "number": result.number, "usage": result.usage}
                if result.flow is not None:
                    about |= {"cursors": result.flow.cursors, "kept": result.flow.covered}
                return c.Checkpoint(**about, data=data, size=size)

    def _complete(self, result: Result, clock: Clock) -> c.Complete:
        undone = result.undo and result.output_ref is not None
        return c.Complete(
            at=clock.now(),
            entropy=clock.random(),
            address=result.address,
            # The output of a compensator is recorded and never read again.
            output=BlobRef(result.output_ref) if undone else result.output,  # type: ignore[arg-type]
            output_ref=None if undone else result.output_ref,
            size=result.size,
            started_at=result.started_at,
            worker=result.worker,
            choice=result.choice,
            reasoning=result.reasoning,
            renews=result.renews,
            ended=() if result.flow is None else result.flow.ended,
            parts=() if result.flow is None else result.flow.parts,
            writer=result.begins,
        )


class TimerDue:
    __slots__ = ("due_at", "run_id", "timer")

    def __init__(self, run_id: str, timer: str, due_at: float) -> None:
        self.run_id = run_id
        self.timer = timer
        self.due_at = due_at


class Asked:
    """A command from a person or a program. `make` is given the state that the command is decided on."""

    __slots__ = ("command_id", "future", "key", "make", "notice_id", "proven", "run_id", "starts")

    def __init__(
        self,
        run_id: str,
        make: Callable[[State], c.Command],
        future: asyncio.Future[Any] | None = None,
        *,
        starts: bool = False,
        key: IdempotencyKey | None = None,
        notice_id: int = 0,
        command_id: str = "",
    ) -> None:
        self.run_id = run_id
        self.make = make
        self.future = future
        self.starts = starts
        """Whether the command creates the run."""
        self.key = key
        self.notice_id = notice_id
        """The notice this comes from, consumed in the commit it leads to."""
        self.command_id = command_id
        """The command of another process this comes from, answered in the commit it leads to."""
        self.proven = False
        """Whether an append went with the answer: without one, it may rest on what a restore took back."""

    @classmethod
    def for_items(cls, address: Address, at: float) -> Asked:
        """The message that starts the next items of a map."""
        more = c.NextItems(at=at, address=address)
        return cls(address.run_id, lambda state: more)


class Noticed:
    """A child run ended, or a run that a trigger started."""

    __slots__ = ("body", "notice_id", "run_id")

    def __init__(self, run_id: str, notice_id: int, body: bytes) -> None:
        self.run_id = run_id
        self.notice_id = notice_id
        self.body = body

    def command(self, at: float) -> c.EndChild | c.EndFiring:
        firing = read_firing(self.body)
        if isinstance(firing, Ends):
            return firing.command(at)
        fields = msgspec.json.decode(self.body)
        if fields.get("refs"):
            fields["output"] = unpack(fields["output"], secrets=False)
        error = None if fields["error"] is None else msgspec.convert(fields["error"], Error)
        spent = msgspec.convert(fields["spent"], Usage) if fields.get("spent") else None
        return c.EndChild(
            at=at,
            child=fields["child"],
            generation=fields["generation"],
            state=fields["state"],
            output=fields["output"],
            output_ref=fields["output_ref"],
            error=error,
            orphaned=fields.get("orphaned", False),
            spent=spent,
        )


class BeginAsked:
    """A worker's request to begin an attempt that may happen at most once."""

    __slots__ = ("granted", "request", "run_id")

    def __init__(self, request: BeginRequest) -> None:
        self.request = request
        self.run_id = request.task.run_id
        self.granted = False

    def command(self, at: float) -> c.Begin:
        return c.Begin(at=at, address=self.request.task.address, worker=self.request.worker, ask=self.request.ask)


class Inline:
    """Trivial nodes that did not fit into the last batch."""

    __slots__ = ("dispatches", "run_id")

    def __init__(self, run_id: str, dispatches: tuple[fx.Dispatch, ...]) -> None:
        self.run_id = run_id
        self.dispatches = dispatches


class Resumed:
    """A run for which it must be derived again what to send."""

    __slots__ = ("crashed", "lost", "run_id", "taken")

    def __init__(
        self, run_id: str, crashed: frozenset[str] | None, lost: Address | None = None, *, taken: bool = False
    ) -> None:
        self.run_id = run_id
        self.taken = taken
        """Whether the run was taken over from another process whose workers may still be alive."""
        self.lost = lost
        """An attempt whose task the transport no longer holds."""
        self.crashed = crashed
        """The attempts that ran in the process that died, as its claims say. None: the run was not left by a dead
        process."""


class Fetched:
    """A task whose contents are at hand now: it may be rendered and sent, if its attempt is still wanted."""

    __slots__ = ("address", "run_id")

    def __init__(self, address: Address) -> None:
        self.run_id = address.run_id
        self.address = address


Message = Fetched | Resumed | Reported | TimerDue | Asked | Noticed | BeginAsked | Inline
