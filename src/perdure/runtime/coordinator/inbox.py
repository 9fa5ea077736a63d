"""The inbox: what each kind of message does to its run, from the message to the decisions.

Owns the meaning of messages. Loading, batching, writing and acting belong to the coordinator.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from perdure.clock import Clock
from perdure.kernel import commands as c
from perdure.kernel.decider import sorted_by_schedule
from perdure.kernel.events import NodeStarted, StepStarted
from perdure.kernel.lifecycle import N
from perdure.kernel.run_ids import root_of
from perdure.kernel.state import State
from perdure.runtime.coordinator.arrivals import Arrival
from perdure.runtime.coordinator.batch import Batch
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.loaded_runs import Memory
from perdure.runtime.coordinator.messages import (
    Asked,
    BeginAsked,
    Fetched,
    Inline,
    Message,
    Noticed,
    Reported,
    Resumed,
    TimerDue,
)
from perdure.runtime.coordinator.ownership.handled import Blame
from perdure.runtime.coordinator.ownership.incarnation import Incarnation
from perdure.runtime.coordinator.purses import Purses
from perdure.runtime.coordinator.rulings import Rulings
from perdure.runtime.coordinator.tasks.fetcher import Fetcher
from perdure.runtime.coordinator.tasks.publisher import Publisher
from perdure.runtime.coordinator.tasks.renderer import Renderer, named_function
from perdure.transport import Result, Task

logger = logging.getLogger("perdure.coordinator")


def _is_current(state: State, result: Result) -> bool:
    """Whether the attempt of this result is still under way, so that a checkpoint of it counts."""
    activation = state.locate(result.address)
    if activation is None or state.terminal or state.generation != result.generation:
        return False
    if result.undo:
        undo = activation.undo
        return undo is not None and undo.attempt == result.attempt and undo.state in ("queued", "running")
    return activation.attempt == result.attempt and activation.state in (N.QUEUED, N.RUNNING)


def _is_granted(state: State, result: Result) -> bool:
    """Whether a checkpoint counts; or, if it is the wish to begin a step or a stream, whether that began by this wish (rules 61, 81, 82)."""
    if not _is_current(state, result):
        return False
    activation = state.locate(result.address)
    if not result.begins or result.not_done or activation is None:
        return True
    if result.flow is not None and result.flow.opened:
        flow = activation.flow
        return flow is not None and (flow.by, flow.writer) == (result.attempt, result.begins)
    if result.reserve is not None:
        reserved = (activation.reserved or {}).get(result.step)
        return reserved is not None and reserved.wish == result.begins
    return (activation.begun_steps or {}).get(result.step) == result.begins


class Need(NamedTuple):
    """What a worker must have to be given a task."""

    queue: str
    type: str
    function: str


class Handling:
    def __init__(
        self,
        memory: Memory,
        rulings: Rulings,
        renderer: Renderer,
        publisher: Publisher,
        fetcher: Fetcher,
        incarnation: Incarnation,
        blame: Blame,
        clock: Clock,
        put: Callable[[Message], None],
        purses: Purses,
    ) -> None:
        self._memory = memory
        self._rulings = rulings
        self._renderer = renderer
        self._publisher = publisher
        self._fetcher = fetcher
        self._incarnation = incarnation
        self._blame = blame
        self._clock = clock
        self._put = put
        self._purses = purses
        self.where = "this process"
        """A description of this process, shown to people."""
        self.own: set[str] = set()
        """Runs this process was asked to run. In any other run, a node whose function is missing here is held, not
        failed: the process that started the run may have it."""
        self.has_others: Callable[[Need, str], bool] | None = None
        """Whether other workers may have the function that the named worker lacks. None: this process has the only
        worker."""
        self.lacking: dict[str, set[str]] | None = None
        """Runs with nodes that are held because their functions could not be imported here, and which; None: nobody looks
        for changed code, and they are not remembered."""
        self.taken: Callable[[State], None] = lambda state: None
        """Called with every run taken over from another process; the roster listens."""

    def look_again(self) -> None:
        """Send what was held for lack of a function: the code here has changed."""
        found, self.lacking = self.lacking or {}, {}
        for run_id in found:
            self._put(Asked(run_id, self._release))

    def _release(self, state: State) -> c.Release:
        held = {state.name(activation.node) for activation in sorted_by_schedule(state, N.HELD)}
        return c.Release(at=self._clock.now(), nodes=tuple(sorted(held)))

    def handle(self, loaded: Loaded, message: Message, batch: Batch) -> None:
        """Decide a message. Raises NotAtHand; the run has then not changed, and the message can be handled again."""
        blame = self._blame
        blame.check(message.run_id)
        blame.begin(message.run_id, loaded.durable_seq)
        try:
            self._handle(loaded, message, batch)
        finally:
            blame.end()

    def _handle(self, loaded: Loaded, message: Message, batch: Batch) -> None:
        decide, clock = self._rulings.decide, self._clock
        match message:
            case Reported():
                self._purses.turn(batch)
                self._report(loaded, message)
            case TimerDue():
                if message.timer in loaded.state.timers:
                    at = max(clock.now(), message.due_at)
                    decide(loaded, c.FireTimer(at=at, timer=message.timer, entropy=clock.random()))
                else:
                    loaded.timers.setdefault(message.timer, None)  # a leftover row: clear it
            case Asked():
                command = message.make(loaded.state)
                arrival = Arrival(loaded.state, command, loaded.events)
                refused = decide(loaded, command)
                if message.notice_id:
                    loaded.notices_consumed.append(message.notice_id)
                if not loaded.state.seq:
                    self._memory.runs.pop(message.run_id, None)
                batch.answer(message, refused if refused is not None else arrival.answer(loaded.state, loaded.events))
            case Noticed():
                refused = decide(loaded, message.command(clock.now()))
                if refused is not None and refused.code == "continued":  # in one commit: it goes on to the successor
                    loaded.notices.append((refused.continued_as, message.body))
                if message.notice_id:
                    loaded.notices_consumed.append(message.notice_id)
            case BeginAsked():
                before = len(loaded.events)
                task = message.request.task
                if task.incarnation == self._incarnation.number and self._is_of(loaded, task):
                    decide(loaded, message.command(clock.now()))
                # Only a recorded start is a start: a run that is ending holds the attempt instead (V6).
                message.granted = any(isinstance(event, NodeStarted) for event in loaded.events[before:])
            case Inline():
                self._rulings.answer_inline(loaded, deque(message.dispatches), message)
            case Fetched():
                if self._renderer.wants(loaded.state, message.address):
                    self._publisher.queue_fetched(loaded, message)
                else:
                    self._fetcher.handled(message)
            case Resumed():
                if message.lost is not None:
                    self._rulings.lapse_if_begun(loaded, message.lost)
                if message.taken:
                    self._watch_begun(loaded)
                loaded.inherited = loaded.inherited or message.taken or message.crashed is not None
                self._rulings.resume(loaded, message.crashed)

    def _watch_begun(self, loaded: Loaded) -> None:
        """Adopt the attempts of a run taken over that have begun, to watch them. Queued ones are sent again, and the
        transport finds that it has them."""
        state = loaded.state
        for activation in sorted_by_schedule(state, N.RUNNING):
            self._publisher.adopt(loaded, state.address(activation))
        if state.plan:
            activation = state.activations[state.plan[-1]]
            undo = activation.undo
            if undo is not None and undo.state == "running":
                self._publisher.adopt(loaded, state.address(activation, undo=True))
        self.taken(state)

    def _report(self, loaded: Loaded, message: Reported) -> None:
        result = message.delivery.result
        if not self._is_of(loaded, result):
            message.refused = True
            return
        if result.incarnation != self._incarnation.number:
            # Who waits for a stream would wait for ever, in a slot: nobody streams for an attempt of a time that is over.
            message.refused = bool(result.begins) or (result.flow is not None and result.flow.waits)
            self._ask_again(result)
            return
        if result.code == "function_not_found" and self._pass_on(loaded, message):
            return
        if result.kind != "checkpointed":
            self._publisher.done(result.task_id)
        command = self._purses.equip(loaded.state, message.command(self._clock, loaded.state))
        before = len(loaded.events)
        self._rulings.decide(loaded, self._renderer.accepted(loaded, command))
        if isinstance(command, c.BeginStep) and command.reserve is not None:
            if any(isinstance(event, StepStarted) for event in loaded.events[before:]):
                self._purses.note(loaded.state, command.reserve)
        message.refused = result.kind == "checkpointed" and not _is_granted(loaded.state, result)

    def _is_of(self, loaded: Loaded, said: Result | Task) -> bool:
        """Whether a message comes from the tenant of the run. A worker that signs for one tenant speaks only for that
        tenant's runs (S1, X29): a message of another tenant is ignored."""
        if said.tenant == loaded.state.tenant:
            return True
        logger.warning(
            "a message signed by tenant %s is ignored: run %s is not of that tenant", said.tenant, said.run_id
        )
        return False

    def _ask_again(self, old: Result) -> None:
        """Resend the attempt of a result that is of another incarnation: the attempt may be another one by now
        (PROTOCOL 2)."""
        if old.kind == "checkpointed":
            return  # its worker goes on, and its final result will come here too
        self._publisher.done(old.task_id)
        self._put(Resumed(old.run_id, None, old.address))

    def _pass_on(self, loaded: Loaded, message: Reported) -> bool:
        """Leave an attempt whose worker lacks the function to another worker, if there is or may be one. False: there
        is none."""
        result = message.delivery.result
        activation = loaded.state.locate(result.address)
        if result.undo or activation is None:
            return False
        node = loaded.state.pinned(activation)
        name = named_function(node.type, node.config)
        if self.has_others is not None:
            # An attempt whose start is durable has begun, and only an operator may say that it has not.
            if activation.begun or not name or not self.has_others(Need(node.queue, node.type, name), result.worker):
                return False
            command: c.Command = message.hand_back(self._clock)
        elif root_of(result.run_id) not in self.own:  # a child belongs to the process that runs its parent
            # This process did not start the run: a process that has the function will come.
            if self.lacking is not None:
                self.lacking.setdefault(result.run_id, set()).add(name)
            command = message.hold_back(self._clock, f"{self.where} could not import {name or 'its function'}")
        else:
            return False
        self._publisher.done(result.task_id)
        self._rulings.decide(loaded, command)
        return True
