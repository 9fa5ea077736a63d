"""What each kind of message does to its run: the way from a message to decisions.

Owns the meaning of messages. Loading, batches, writing and acting are the coordinator's.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from perdure.kernel import commands as c
from perdure.kernel.decider import sorted_by_schedule
from perdure.kernel.events import NodeStarted
from perdure.kernel.keys import root_of
from perdure.kernel.state import NodeState, State
from perdure.runtime.dispatcher import Entry
from perdure.runtime.loaded import Loaded
from perdure.runtime.messages import Asked, BeginAsked, Fetched, Inline, Message, Noticed, Reported, Resumed, TimerDue
from perdure.transport import Result, Task

if TYPE_CHECKING:
    from perdure.runtime.coordinator import Coordinator

logger = logging.getLogger("perdure.coordinator")


def _is_current(state: State, result: Result) -> bool:
    """This attempt goes on: what it keeps counts."""
    activation = state.find(result.node, result.scope, result.item)
    if activation is None or state.terminal or state.generation != result.generation:
        return False
    if result.undo:
        undo = activation.undo
        return undo is not None and undo.attempt == result.attempt and undo.state in ("queued", "running")
    return activation.attempt == result.attempt and activation.state in (NodeState.QUEUED, NodeState.RUNNING)


class Handling:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def handle(self, loaded: Loaded, message: Message, answers: list[tuple[Asked, Any]]) -> None:
        """Decide it. Raises NotAtHand; then nothing of the run has changed, and the message can be handled again."""
        coordinator, decide = self._coordinator, self._coordinator.decisions.decide
        clock = coordinator.clock
        match message:
            case Reported():
                self._report(loaded, message)
            case TimerDue():
                if message.timer in loaded.state.timers:
                    at = max(clock.now(), message.due_at)
                    decide(loaded, c.FireTimer(at=at, timer=message.timer, entropy=clock.random()))
                else:
                    loaded.timers.setdefault(message.timer, None)  # a leftover row: clear it
            case Asked():
                refused = decide(loaded, message.make(loaded.state))
                if message.notice_id:
                    loaded.notices_consumed.append(message.notice_id)
                if not loaded.state.seq:
                    coordinator.runs.pop(message.run_id, None)
                answers.append((message, refused if refused is not None else loaded.state.state.value))
            case Noticed():
                decide(loaded, message.command(clock.now()))
                if message.notice_id:
                    loaded.notices_consumed.append(message.notice_id)
            case BeginAsked():
                before = len(loaded.events)
                task = message.request.task
                if task.incarnation == coordinator.incarnation and self._is_of(loaded, task):
                    decide(loaded, message.command(clock.now()))
                # Only a recorded start is a start: a run that is ending holds the attempt instead (V6).
                message.granted = any(isinstance(event, NodeStarted) for event in loaded.events[before:])
            case Inline():
                coordinator.decisions.answer_inline(loaded, deque(message.dispatches), message)
            case Fetched():
                if coordinator.renderer.wants(loaded.state, message.entry):
                    coordinator.queue(loaded, message.entry)
                    coordinator.fetched[message.entry.task_id] = message
                else:
                    coordinator.fetcher.handled(message)
            case Resumed():
                if message.lost is not None:
                    coordinator.decisions.lapse_if_begun(loaded, message.lost)
                if message.taken:
                    self._take(loaded)
                loaded.inherited = loaded.inherited or message.taken or message.crashed is not None
                coordinator.decisions.resume(loaded, message.crashed)

    def _take(self, loaded: Loaded) -> None:
        """What is queued is sent again and found to be there; what has begun is only watched from here on."""
        state = loaded.state
        for activation in sorted_by_schedule(state, NodeState.RUNNING):
            item = None if activation.item < 0 else activation.item
            node, attempt, generation = state.name(activation.node), activation.attempt, state.generation
            self._coordinator.adopt(
                loaded, Entry(state.run_id, node, activation.scope, item, attempt, generation, False)
            )
        if state.plan:
            activation = state.activations[state.plan[-1]]
            undo = activation.undo
            if undo is not None and undo.state == "running":
                item = None if activation.item < 0 else activation.item
                node = state.name(activation.node)
                entry = Entry(state.run_id, node, activation.scope, item, undo.attempt, state.generation, True)
                self._coordinator.adopt(loaded, entry)
        self._coordinator.taken(state)

    def _report(self, loaded: Loaded, message: Reported) -> None:
        coordinator, result = self._coordinator, message.delivery.result
        if not self._is_of(loaded, result):
            message.refused = True
            return
        if result.incarnation != coordinator.incarnation:
            self._ask_again(result)
            return
        if self._is_foreign(result):
            coordinator.dispatcher_done(result.task_id)
            coordinator.decisions.decide(loaded, message.hold(coordinator.clock))
            return
        if result.kind != "checkpointed":
            coordinator.dispatcher_done(result.task_id)
        command = message.command(coordinator.clock, loaded.state)
        coordinator.decisions.decide(loaded, coordinator.renderer.accepted(loaded.state, command))
        message.refused = result.kind == "checkpointed" and not _is_current(loaded.state, result)

    def _is_of(self, loaded: Loaded, said: Result | Task) -> bool:
        """Who signs for one tenant speaks for its runs only (S1, X29): what names another tenant is not heard."""
        if said.tenant == loaded.state.tenant:
            return True
        logger.warning("a message of tenant %s about run %s is not heard", said.tenant, said.run_id)
        return False

    def _ask_again(self, old: Result) -> None:
        """A result of a time that never was: its attempt may be another one by now (PROTOCOL 2)."""
        if old.kind == "checkpointed":
            return  # its worker goes on, and its end will say the same
        self._coordinator.dispatcher_done(old.task_id)
        lost = Entry(old.run_id, old.node, old.scope, old.item, old.attempt, old.generation, old.undo)
        self._coordinator.put(Resumed(old.run_id, None, lost))

    def _is_foreign(self, result: Result) -> bool:
        """This process lacks the function, and did not start the run: somebody who has it will come."""
        # Where workers say what they have, one that was given a task and lacks its module has failed at it, as at any other.
        if result.code != "function_not_found" or result.undo or self._coordinator.share.divided:
            return False
        # A child belongs to whoever runs its parent.
        return root_of(result.run_id) not in self._coordinator.own
