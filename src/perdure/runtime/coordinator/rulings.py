"""Rulings: decides on a run in memory. The kernel is asked, its questions are answered, trivial nodes are executed at
once.

Owns the conversation with the kernel. Writes nothing and sends nothing: events and effects pile up in the `Loaded` run
until the coordinator has made them durable. Where something is not at hand, `decide` raises `NotAtHand` and nothing has
changed; follow-up decisions (trivial nodes, a run that is taken over) are set aside one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from perdure.budget import Budget
from perdure.clock import Clock
from perdure.expressions.errors import NotAtHand
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.decide import advance
from perdure.kernel.decider import sorted_by_schedule
from perdure.kernel.foresight import foresee, foresee_workflow
from perdure.kernel.lifecycle import N
from perdure.kernel.outstanding import outstanding
from perdure.kernel.state import Activation
from perdure.model.garbage import no_collection
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.messages import Asked, Inline, Message
from perdure.runtime.coordinator.tasks.renderer import Renderer
from perdure.runtime.worker.claim_file import claim_name

INLINE_STEPS = 500
"""Trivial nodes of one run decided in one batch; the rest wait for the next, so that no run starves the others."""
INLINE_SECONDS = 0.02
MANY_NODES = 1000
"""A decision about so many is the whole of its turn of the loop: garbage is collected, and trivial nodes are executed, in
others."""
QUESTION_STEPS = 100
"""Steps that each condition adds to the budget all conditions of a decision share."""


class Rulings:
    def __init__(
        self,
        renderer: Renderer,
        clock: Clock,
        defer: Callable[[Inline], None],
        set_aside: Callable[[Message, NotAtHand], None],
    ) -> None:
        self._renderer = renderer
        self._clock = clock
        self._defer = defer
        self._set_aside = set_aside

    def decide(self, loaded: Loaded, command: c.Command) -> c.Refused | None:
        irs = (command.ir,) if isinstance(command, c.Start) else loaded.state.irs
        if not irs or len(irs[-1].nodes) < MANY_NODES:
            return self._decide(loaded, command)
        with no_collection():
            return self._decide(loaded, command)

    def _decide(self, loaded: Loaded, command: c.Command) -> c.Refused | None:
        before = len(loaded.effects)
        refused = self._advance(loaded, command)
        if len(loaded.effects) > before:
            trivial = self._trivial(loaded, before)
            if not trivial:
                return refused
            if len(trivial) < MANY_NODES:
                self.answer_inline(loaded, deque(trivial))
            else:  # to decide that they are ready took long enough
                self._defer(Inline(loaded.state.run_id, tuple(trivial)))
        return refused

    def _advance(self, loaded: Loaded, command: c.Command) -> c.Refused | None:
        """Ask the kernel, answering its questions until it can decide."""
        if loaded.state.triggers and (workflow := foresee_workflow(loaded.state, command)):
            self._renderer.need_target(loaded.state.tenant, workflow)
        command = self._renderer.keeper.keep_brought(command, loaded.state.tenant, loaded.room)
        verdicts: dict[c.Need, c.Verdict] = {}
        budget: Budget | None = None
        questions: Sequence[c.Question] = foresee(loaded.state, command, verdicts) if loaded.state.triggers else ()
        foreseen = bool(questions)
        while True:
            for question in questions:
                if budget is None:
                    budget = Budget()  # of all questions together: a thousand costly ones would hold up every run
                budget.steps += QUESTION_STEPS
                try:
                    verdicts[question.need] = self._renderer.evaluate(loaded.state, question, command, budget)
                except NotAtHand as need:
                    need.tenant = command.tenant if isinstance(command, c.Start) else loaded.state.tenant
                    raise
            if foreseen and (questions := foresee(loaded.state, command, verdicts)):
                continue
            foreseen = False
            result = advance(loaded.state, command, verdicts)
            if not isinstance(result, c.Needs):
                break
            questions = result.questions
        if isinstance(result, c.Refused):
            return result
        loaded.adopt(result)
        return None

    def _trivial(self, loaded: Loaded, start: int) -> list[fx.Dispatch]:
        """Remove the dispatches that need no worker from the effects, and return them."""
        found, rest = [], []
        for effect in loaded.effects[start:]:
            if isinstance(effect, fx.Dispatch) and self._renderer.is_trivial(loaded.state, effect.address):
                found.append(effect)
            else:
                rest.append(effect)
        if found:
            loaded.effects[start:] = rest
        return found

    def answer_inline(self, loaded: Loaded, waiting: deque[fx.Dispatch], origin: Inline | None = None) -> None:
        """Execute trivial nodes at once, in the append that made them ready (PROTOCOL 28). `origin` is the message they
        came in."""
        steps = 0
        until = self._clock.monotonic() + INLINE_SECONDS
        while waiting:
            if steps == INLINE_STEPS or (steps and self._clock.monotonic() > until):
                self._defer(Inline(loaded.state.run_id, tuple(waiting)))
                return
            steps += 1
            dispatch = waiting.popleft()
            try:
                command = self._renderer.answer(loaded, dispatch.address, self._clock)
                if command is not None:
                    before = len(loaded.effects)
                    self._advance(loaded, command)
                    waiting.extend(self._trivial(loaded, before))
            except NotAtHand as need:
                need.tenant = loaded.state.tenant
                again = origin is not None and origin.dispatches == (dispatch,)  # keeps what was fetched for it before
                self._set_aside(origin if again and origin else Inline(loaded.state.run_id, (dispatch,)), need)

    # -- taking a run over ---------------------------------------------------------------------------------------------

    def _decide_or_defer(self, loaded: Loaded, command: c.Command) -> None:
        """Make one of several decisions of a message; if it must wait for something, the others go on."""
        try:
            self.decide(loaded, command)
        except NotAtHand as need:
            run_id = loaded.state.run_id
            self._set_aside(Asked(run_id, lambda state: msgspec.structs.replace(command, at=self._clock.now())), need)

    def resume(self, loaded: Loaded, crashed: frozenset[str] | None) -> None:
        state = loaded.state
        if crashed is not None:
            for activation in sorted_by_schedule(state, N.QUEUED, N.RUNNING):
                self._lapse_if(loaded, activation, crashed)
            held = {state.name(activation.node) for activation in sorted_by_schedule(state, N.HELD)}
            if held:  # perhaps this process has what the last one lacked
                self._decide_or_defer(loaded, c.Release(at=self._clock.now(), nodes=tuple(sorted(held))))
            if state.plan:
                self._lapse_if(loaded, state.activations[state.plan[-1]], crashed, undo=True)
        start = len(loaded.effects)
        loaded.effects.extend(outstanding(state))
        self.answer_inline(loaded, deque(self._trivial(loaded, start)))

    def lapse_if_begun(self, loaded: Loaded, lost: Address) -> None:
        """Let an attempt lapse whose task was lost after it had begun: it was lost with its worker, and needs another
        attempt. One that is only queued is sent again instead."""
        state = loaded.state
        activation = state.locate(lost)
        if activation is None or state.generation != lost.generation:
            return
        undo = activation.undo
        begun = undo is not None and undo.state == "running" if lost.undo else _has_begun(activation)
        if begun:
            self._decide_or_defer(loaded, c.Lapse(at=self._clock.now(), address=lost, reason="handed_back"))

    def _lapse_if(self, loaded: Loaded, activation: Activation, crashed: frozenset[str], *, undo: bool = False) -> None:
        address = loaded.state.address(activation, undo=undo)
        if (_has_begun(activation) and not undo) or claim_name(address.task_id) in crashed:
            self._decide_or_defer(loaded, c.Lapse(at=self._clock.now(), address=address, reason="crashed"))


def _has_begun(activation: Activation) -> bool:
    """Whether the journal knows that a worker has this attempt: it says so, or has set aside what a call may cost."""
    return activation.state is N.RUNNING or bool(activation.reserved)
