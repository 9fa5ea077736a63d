"""Small scopes, everything that can happen in them: breadth-first over the kernel and a world of two workers.

A state is the kernel's (without sequence numbers, which cannot matter here), the messages under way, what each worker holds, the results that were delivered once, and the faults that are left: 2 crashes, 2 leases that lapse while
the work goes on, 2 results delivered again. Two workers are alike, so a state holds what they do, not who does it. In every
state every invariant holds, and from every state the end can be reached.

Most states differ in their world alone, and the kernel and the checker know nothing of it: what a command does to them is worked
out once (`_step`), and holds in every world.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import snapshot
from perdure.kernel.address import Address
from perdure.kernel.decide import advance, decide
from perdure.kernel.lifecycle import ENDED
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Error
from perdure.model.ir import IR
from tests.kernel.driver import compiled

AT = 1000.0
WORKERS = 2
FAULTS = (2, 2, 2)
Place = tuple[str, tuple[int, ...], bool]
"""node, scope, undo"""


class World(NamedTuple):
    """What is not in the journal. Sorted tuples, so that equal worlds are equal values; of tasks it has the numbers (`_task`)."""

    messages: tuple[int, ...] = ()
    working: tuple[int, ...] = ()
    delivered: tuple[int, ...] = ()
    crashes: int = 0
    lapses: int = 0
    duplicates: int = 0


class Step(NamedTuple):
    """What came of a command, whatever the world is."""

    number: int
    """The same for those that agree in what the kernel knows, and in what only the checker knows."""
    kernel: bytes
    checker: Checker
    dispatched: tuple[int, ...]
    recalled: tuple[int, ...]
    live: frozenset[Place]
    """Whose results can still be heard."""
    over: bool
    told: str
    """The command."""


class Spot(NamedTuple):
    step: Step
    world: World


class Search:
    def __init__(
        self, ir: IR, faults: tuple[int, int, int], answer: Callable[[c.Question], Any], failing: str = ""
    ) -> None:
        self.library = {ir.hash: ir}
        self.answer = answer
        self.failing = failing
        self.tasks: dict[tuple[Place, int], int] = {}
        self.places: list[Place] = []
        """Of every task, by its number."""
        self.attempts: list[int] = []
        self.known: dict[Any, int] = {}
        self.ids: dict[Any, int] = {}
        self.parents: list[tuple[int, str]] = []
        self.successors: list[list[int]] = []
        self.ends: list[int] = []
        self.transitions = 0
        self.late = 0
        self.looked: set[bytes] = set()
        self.steps: dict[tuple[int, Any, int], Step | None] = {}
        self.current = -1
        world = World(crashes=faults[0], lapses=faults[1], duplicates=faults[2])
        start = c.Start(at=AT, run_id="run", ir=ir)
        first = self._work_out(State(library=self.library), Checker(self.library), start)
        assert first is not None
        self._run(self._into(first, world))

    # -- the search ----------------------------------------------------------------------------------------------------

    def _run(self, first: Spot) -> None:
        todo = deque([(self._number(first)[0], first)])
        while todo:
            self.current, spot = todo.popleft()
            if len(self.successors) > 1_000_000:
                pytest.fail("the scope is too large")
            if spot.step.kernel not in self.looked:
                self.looked.add(spot.step.kernel)
                self._late_results_change_nothing(spot)
            if spot.step.over:
                continue
            for following in self._following(spot):
                self.transitions += 1
                found, new = self._number(following)
                self.successors[self.current].append(found)
                if new:
                    todo.append((found, following))
        self._ends_are_reachable()

    def _number(self, spot: Spot) -> tuple[int, bool]:
        key = (spot.step.number, spot.world)
        known = self.ids.get(key)
        if known is not None:
            return known, False
        number = self.ids[key] = len(self.ids)
        self.successors.append([])
        self.parents.append((self.current, spot.step.told))
        if spot.step.over:
            self.ends.append(number)
        return number, True

    def _story(self, number: int | None = None) -> str:
        told = []
        number = self.current if number is None else number
        while number >= 0:
            number, command = self.parents[number]
            told.append(command)
        return "\n".join(reversed(told))

    def _ends_are_reachable(self) -> None:
        before: list[list[int]] = [[] for _ in self.successors]
        for number, following in enumerate(self.successors):
            for found in following:
                before[found].append(number)
        reached = set(self.ends)
        todo = list(self.ends)
        while todo:
            for number in before[todo.pop()]:
                if number not in reached:
                    reached.add(number)
                    todo.append(number)
        stuck = sorted(set(range(len(self.successors))) - reached)
        assert not stuck, f"{len(stuck)} of {len(self.successors)} states lead to no end\n{self._story(stuck[0])}"

    def _late_results_change_nothing(self, spot: Spot) -> None:
        """Any attempt of an activation that has ended may report at any time, any number of times (T2, V3).

        Nothing can come of it, so the search need not follow it: such work is left out of the world (`inert`).
        """
        state = snapshot.decode(spot.step.kernel, self.library)
        assert state is not None
        for activation in state.activations.values():
            if not inert(state, activation):
                continue
            name = state.name(activation.node)
            for attempt in range(1, activation.attempt + 1):
                for kind in (c.Begin, c.Lapse, None):
                    task = self._task((name, activation.scope, False), attempt)
                    result = decide(state, self._command(kind, task))
                    self.late += 1
                    if isinstance(result, c.Ruling):
                        heard = [event for event in result.events if event.type != "result.ignored"]
                        assert not heard, (
                            f"attempt {attempt} of {name} is heard after its end: {heard}\n{self._story()}"
                        )

    # -- one step ------------------------------------------------------------------------------------------------------

    def _following(self, spot: Spot) -> Iterator[Spot]:
        messages, working, delivered, crashes, lapses, duplicates = world = spot.world
        for task in dict.fromkeys(messages):
            rest = World(_without(messages, task), working, delivered, crashes, lapses, duplicates)
            if len(working) < WORKERS:
                taken = World(rest.messages, _with(working, task), delivered, crashes, lapses, duplicates)
                yield self._try(spot, taken, c.Begin, task, refused=rest)
                if not self.places[task][
                    2
                ]:  # `Begin` is optional: for the kernel this one is in the queue until it reports
                    yield from self._work(spot, rest, task)
        for task in dict.fromkeys(working):
            rest = World(messages, _without(working, task), delivered, crashes, lapses, duplicates)
            yield from self._work(spot, rest, task)
        if duplicates:
            for task in delivered:
                yield self._try(spot, world._replace(duplicates=duplicates - 1), None, task)

    def _work(self, spot: Spot, rest: World, task: int) -> Iterator[Spot]:
        """What may become of a task a worker has: a result, a crash, or a lease that lapses while the work goes on."""
        messages, working, delivered, crashes, lapses, duplicates = rest
        heard = delivered if task in delivered else _with(delivered, task)
        yield self._try(spot, World(messages, working, heard, crashes, lapses, duplicates), None, task)
        if crashes:
            crashed = World(messages, working, delivered, crashes - 1, lapses, duplicates)
            yield self._try(spot, crashed, c.Lapse, task)
        if lapses:
            stalled = World(messages, _with(working, task), delivered, crashes, lapses - 1, duplicates)
            yield self._try(spot, stalled, c.Lapse, task)

    def _task(self, place: Place, attempt: int) -> int:
        """Its number."""
        if (place, attempt) not in self.tasks:
            self.tasks[place, attempt] = len(self.places)
            self.places.append(place)
            self.attempts.append(attempt)
        return self.tasks[place, attempt]

    def _command(self, kind: Any, task: int) -> c.Command:
        """No kind: its result."""
        (node, scope, undo), attempt = self.places[task], self.attempts[task]
        fields: dict[str, Any] = {"at": AT, "address": Address("run", node, scope, None, attempt, undo=undo)}
        if kind is not None:
            command: c.Command = kind(**fields)
            return command
        if node == self.failing and not undo:
            return c.Fail(**fields, error=Error("error", "no"), retryable=False)
        return c.Complete(**fields, output=None)

    def _try(self, spot: Spot, world: World, kind: Any, task: int, refused: World | None = None) -> Spot:
        found = self._step(spot.step, kind, task)
        if found is None:
            return Spot(spot.step, world if refused is None else refused)
        return self._into(found, world)

    def _into(self, step: Step, world: World) -> Spot:
        """What a step does to the world."""
        if step.dispatched:
            world = world._replace(messages=tuple(sorted((*world.messages, *step.dispatched))))
        told = step.told
        for task in step.recalled:  # what nobody has taken comes back at once: the transport is not looked at here
            if task in world.messages:
                withdrawn = self._step(step, c.Withdraw, task)
                assert withdrawn is not None
                step, world = self._into(withdrawn, world._replace(messages=_without(world.messages, task)))
        if step.told != told:
            step = step._replace(told=told)
        return Spot(step, self._leave_out_inert(step, world))

    def _step(self, before: Step, kind: Any, task: int) -> Step | None:
        key = (before.number, kind, task)
        if key not in self.steps:
            state = snapshot.decode(before.kernel, self.library)
            assert state is not None
            self.steps[key] = self._work_out(state, before.checker.copy(), self._command(kind, task))
        return self.steps[key]

    def _work_out(self, state: State, checker: Checker, command: c.Command) -> Step | None:
        verdicts: dict[c.Need, c.Verdict] = {}
        while isinstance(result := advance(state, command, verdicts), c.Needs):
            for question in result.questions:
                verdicts[question.need] = c.Verdict(value=self.answer(question))
        if isinstance(result, c.Refused):
            return None
        for event in result.events:
            found = checker.feed(event)
            assert not found, f"{found}\n{self._story()}\n{command}\n{result.events}"
        forget(state, checker)
        claimed = sorted((act.node, act.scope, act.claimed) for act in checker.model.acts.values() if act.claimed)
        live = {(state.name(a.node), a.scope, False) for a in state.activations.values() if not inert(state, a)}
        for a in state.activations.values():
            if a.undo is not None and a.undo.state != "done":
                live.add((state.name(a.node), a.scope, True))
        kernel = snapshot.encode(state)
        number = self.known.setdefault((kernel, tuple(claimed)), len(self.known))
        dispatched, recalled = (
            tuple(self._task((a.node, a.scope, a.undo), a.attempt) for a in addresses)
            for addresses in (
                [effect.address for effect in result.effects if isinstance(effect, fx.Dispatch)],
                [effect.address for effect in result.effects if isinstance(effect, fx.Recall)],
            )
        )
        return Step(number, kernel, checker, dispatched, recalled, frozenset(live), state.terminal, repr(command))

    def _leave_out_inert(self, step: Step, world: World) -> World:
        messages, working, delivered, crashes, lapses, duplicates = world
        places, live = self.places, step.live
        if not duplicates:
            delivered = ()
        return World(
            tuple([task for task in messages if places[task] in live]),
            tuple([task for task in working if places[task] in live]),
            tuple([task for task in delivered if places[task] in live]),
            crashes,
            lapses,
            duplicates,
        )


def inert(state: State, activation: Activation) -> bool:
    """No result for it can be heard any more: there is no new generation here."""
    return state.terminal or activation.state in ENDED


def _with(tasks: tuple[int, ...], task: int) -> tuple[int, ...]:
    return tuple(sorted((*tasks, task)))


def _without(tasks: tuple[int, ...], task: int) -> tuple[int, ...]:
    at = tasks.index(task)
    return tasks[:at] + tasks[at + 1 :]


def forget(state: State, checker: Checker) -> None:
    """What cannot matter any more: where in the journal something happened (no condition reads a node here), and how an
    activation that has ended got there."""
    state.seq = checker.model.seq = 1
    for activation in state.activations.values():
        activation.scheduled_seq, activation.ended_seq = min(activation.scheduled_seq, 1), min(activation.ended_seq, 1)
        activation.ignored = 0
        if activation.state in ENDED:
            activation.begun, activation.started_at, activation.crashes = False, None, 0
            activation.edges, activation.taken, activation.skipped = {}, 0, 0
            activation.attempt = 2  # an old attempt and the last one are all there is to tell apart
    for act in checker.model.acts.values():
        if act.state in ENDED:
            act.claimed, act.attempt = 0, 2


@pytest.fixture(autouse=True)
def _keep_all() -> Iterator[None]:
    """A search keeps all that it makes: looking for garbage in it took a quarter of the time."""
    gc.disable()
    yield
    gc.enable()


# -- the three scopes --------------------------------------------------------------------------------------------------


def _report(name: str, search: Search) -> None:
    sys.stderr.write(
        f"\n{name}: {len(search.successors)} states, {search.transitions} transitions, {search.late} late results\n"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_diamond_survives_every_combination_of_two_faults_each() -> None:
    ir = compiled(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"]},
    )
    _report("diamond", Search(ir, FAULTS, lambda question: True))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_loop_with_an_any_join_survives_every_combination_of_faults() -> None:
    ir = compiled(
        {"id": "h"},
        {"id": "b", "dependencies": ["h"]},
        {"id": "c", "dependencies": ["h"]},
        {
            "id": "j",
            "dependencies": ["b", "c"],
            "join": "any",
            "loop": {"condition": "true", "max_iterations": 2, "loop_back_to": "h", "timeout_path": []},
        },
    )
    _report("loop with an any join", Search(ir, FAULTS, lambda question: question.need.scope == (1,)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_compensated_chain_survives_every_combination_of_faults() -> None:
    undo = {"compensator": {"type": "task", "config": {"function": "m:undo"}}}
    ir = compiled(
        {"id": "a", **undo},
        {"id": "b", "dependencies": ["a"], **undo},
        {"id": "c", "dependencies": ["b"]},
        on_failure={"compensate": True},
    )
    _report("compensated chain", Search(ir, FAULTS, lambda question: True, failing="c"))
