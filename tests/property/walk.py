"""One run in an unkind world: a random walk over everything that can happen to it, then healing.

The world is a bag of dispatched attempts, timers, approvals, signals and children, all taken from the kernel's own effects;
what it answers, in which order, how often and how late is chance. After every step: the invariants, by the checker that
knows nothing of the kernel; the journal folds to the live state through its bytes; and effects, state and journal agree on
what is under way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.address import Address
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Error, Wait
from perdure.model.ir import IR, Node
from tests.kernel.driver import Run, fold
from tests.property import graphs

N, R = NodeState, RunState


class Stuck(AssertionError):
    """A healed world, and the run neither ended nor waits for anybody."""


class Walk:
    def __init__(self, random: Random, definition: graphs.Definition, ir: IR, *, faults: float = 0.3) -> None:
        self.random = random
        self.definition = definition
        self.faults = faults
        self.healing = False
        self.tasks: list[Address] = []
        """Everything ever dispatched; old entries are what duplicates are made of."""
        self.dispatched: set[Address] = set()
        self.recalled: list[Address] = []
        self.more: list[Address] = []
        self.timers: dict[str, float] = {}
        self.old_timers: list[str] = []
        self.approvals: list[str] = []
        self.children: dict[str, int] = {}
        self.steps: list[str] = []
        self.shadow = State()
        self.library: dict[str, IR] = {}
        self.checker = Checker(self.library)
        self.run = Run(ir, start=False)
        self.run.replay_each_step = False
        self.run.answers = dict.fromkeys(("when", "loop", "branch", "outputs", "collect"), self.answer)
        self.do(c.Start(at=self.run.now, run_id="run", ir=ir, inputs={}))

    @property
    def state(self) -> State:
        return self.run.state

    @contextmanager
    def noted(self, again: str) -> Iterator[None]:
        """Let an error inside say how to repeat the walk, by which definition it began, and every step."""
        definition = copy.deepcopy(self.definition)
        try:
            yield
        except BaseException as error:
            error.add_note("\n".join([f"repeat with: {again}", repr(definition), *self.steps]))
            raise

    # -- doing and checking --------------------------------------------------------------------------------------------

    def do(self, command: c.Command) -> c.Ruling | c.Refused:
        shown = type(command).__name__ + repr(
            {k: getattr(command, k) for k in command.__struct_fields__ if k not in ("ir", "id", "entropy")}
        )
        self.steps.append(shown)
        known = len(self.run.journal)
        self.run.effects = []
        result = self.run.do(command)
        if isinstance(result, c.Ruling):
            self.shadow.library.update(self.state.library)
            self.library.update(self.state.library)
            for event in self.run.journal[known:]:
                read = e.decode(e.encode(event))
                evolve(self.shadow, read)
                found = self.checker.feed(read)
                assert not found, found
            assert snapshot.encode(self.shadow) == snapshot.encode(self.state), (
                "replay differs from the live state (J5)"
            )
            self._heed(result.effects)
            self._agree()
        return result

    def _heed(self, effects: tuple[fx.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case fx.Dispatch():
                    self.tasks.append(effect.address)
                    self.dispatched.add(effect.address)
                case fx.Recall():
                    self.recalled.append(effect.address)
                case fx.SetTimer():
                    self.timers[effect.timer] = effect.due_at
                    self.old_timers.append(effect.timer)
                case fx.ClearTimer():
                    self.timers.pop(effect.timer, None)
                case fx.StartMore():
                    self.more.append(effect.address)
                case fx.StartChild():
                    self.children[effect.child] = effect.generation
                case fx.StopChild(rollback=True):
                    self.children[effect.child] = self.children.get(effect.child, 0) + 1

    def _agree(self) -> None:
        """Nothing is queued that was not dispatched; timers in the state are those that effects set."""
        state = self.state
        assert self.timers == {name: timer.due_at for name, timer in state.timers.items()}, "timers differ from effects"
        for activation in state.activations.values():
            if activation.state is N.QUEUED and not state.terminal:
                address = state.address(activation)
                assert address in self.dispatched, f"{address.task_id} is queued and was never dispatched"
        open_tally: dict[NodeState, int] = {}
        for activation in state.activations.values():
            open_tally[activation.state] = open_tally.get(activation.state, 0) + 1
        assert open_tally == {k: v for k, v in state.tally.items() if v}, "tally is off"

    def answer(self, question: c.Question) -> Any:
        kind, chance = question.need.kind, self.random.random()
        if self.healing:
            return {"when": True, "loop": False, "branch": True, "outputs": {}, "collect": []}[kind]
        if chance < 0.04:
            return Error("bad", "cannot be evaluated")
        if chance < 0.05:
            return "not a bool" if kind in ("when", "loop", "branch") else {}
        if kind == "collect":
            return [item.output for item in question.evidence.items]
        if kind == "outputs":
            return {}
        if kind == "loop":
            return chance < 0.65
        return chance < 0.75

    # -- the walk ------------------------------------------------------------------------------------------------------

    def walk(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            if self.state.terminal and self.random.random() < 0.15:
                break

    def step(self) -> None:
        rules: list[tuple[float, Callable[[], Any]]] = [(12, self.work), (1.5, self.time)]
        if self.state.approvals:
            rules.append((2, self.vote))
        rules.append((0.7, self.signal))
        if self.children:
            rules.append((2, self.end_child))
        rules += [
            (4 * self.faults, self.stale),
            (0.8 * self.faults, self.hold_back),
            (0.8, self.release),
            (0.9 * self.faults, self.pause),
            (0.35 * self.faults, self.cancel),
            (2.0 if self.state.state is R.FAILED or self.state.orphaned else 0.05, self.retry),
            (0.5 if self.state.terminal else 0.02, self.rollback),
            (1.0 * self.faults, self.patch),
        ]
        if self.state.state is R.PAUSED:
            rules.append((4, self.resume))
        if self.state.tally.get(N.PARKED) or self.state.state is R.COMPENSATING:
            rules.append((3, self.repair))
        if self.recalled:
            rules.append((3, self.answer_recall))
        if self.more:
            rules.append((3, self.start_more))
        weights = [weight for weight, _ in rules]
        self.random.choices([rule for _, rule in rules], weights)[0]()

    def later(self) -> None:
        self.run.now += self.random.choice((0.0, 0.0, 0.1, 1.0))

    def current(self) -> list[Address]:
        """Attempts somebody may be at work on."""
        found: list[Address] = []
        for activation in self.state.activations.values():
            if activation.state in (N.QUEUED, N.RUNNING):
                found.append(self.state.address(activation))
            undo = activation.undo
            if undo is not None and undo.state in ("queued", "running") and not self.state.terminal:
                found.append(self.state.address(activation, undo=True))
        return sorted(found, key=repr)

    def work(self) -> None:
        found = self.current()
        if found:
            self.later()
            self.act(self.random.choice(found))

    def stale(self) -> None:
        """Somebody who was thought dead, or a message that came twice."""
        if self.tasks:
            self.act(self.random.choice(self.tasks))

    def definition_of(self, task: Address) -> Node | None:
        activation = self.state.locate(task)
        return None if activation is None else self.state.pinned(activation)

    def act(self, task: Address) -> None:
        where: dict[str, Any] = {"at": self.run.now, "address": task, "entropy": 0.5}
        undo = task.undo
        definition = self.definition_of(task)
        if definition is None:
            return
        chance = self.random.random()
        if undo and definition.compensator is None:
            return  # a child; it ends by `end_child`
        begun = self._begun(task)
        if (definition.effect == "at_most_once" and not begun and not undo and chance < 0.8) or chance < 0.18:
            self.do(c.Begin(**where, worker="w"))
        elif chance < 0.22 and not undo:
            number, step = self.random.randrange(4), self.random.choice(("", "x", "y"))
            self.do(c.Checkpoint(**where, data={"n": task.attempt}, number=number, step=step))
        elif chance < 0.22 + 0.4 * self.faults:
            error = Error(self.random.choice(("error", "http:503")), "it failed")
            self.do(
                c.Fail(
                    **where,
                    error=error,
                    retryable=self.random.random() < 0.6,
                    not_done=self.random.random() < 0.3,
                    retry_after=self.random.choice((None, None, 2.0)),
                )
            )
        elif chance < 0.22 + 0.6 * self.faults:
            self.do(c.Lapse(**where, reason=self.random.choice(("crashed", "handed_back"))))
        else:
            self.succeed(where, definition)

    def _begun(self, task: Address) -> bool:
        activation = self.state.locate(task)
        return activation is not None and activation.begun

    def succeed(self, where: dict[str, Any], definition: Node) -> None:
        random, task = self.random, where["address"]
        if not task.undo and definition.type in ("human", "wait", "map", "workflow"):
            self.suspend(where, definition)
            return
        choice: tuple[str, ...] | None = None
        routing = self.state.find(task.node, task.scope)
        if definition.branch is not None and definition.branch.kind == "agent_driven" and routing is not None:
            known = sorted(node.id for node in self.state.ir.nodes if node is not None)
            available = sorted(self.state.name(i) for i in definition.branch.available)
            pool = known if random.random() < 0.1 and not self.healing else available
            choice = tuple(random.sample(pool, random.randint(0, len(pool))))
        output = {"n": random.randint(0, 3)}
        self.do(c.Complete(**where, output=output, size=random.randint(0, 3), choice=choice, worker="w"))

    def suspend(self, where: dict[str, Any], definition: Node) -> None:
        random = self.random
        config = definition.config if isinstance(definition.config, dict) else {}
        if definition.type == "human":
            timeout = None if self.healing else random.choice((None, 5.0))
            outcome: Any = random.choice(("reject", "approve", "fail", "escalate"))
            approvers = tuple(config.get("approvers", ())) if random.random() < 0.8 else ()
            self.do(
                c.Suspend(
                    **where,
                    wait=Wait(kind="approval"),
                    approvers=approvers,
                    quorum=config.get("quorum", 1),
                    on_timeout=outcome,
                    escalate_to=("eve",),
                    timeout_seconds=timeout,
                    shown={"x": 1},
                )
            )
        elif definition.type == "wait" and "signal" in config:
            until = None if random.random() < 0.5 else self.run.now + 4
            self.do(c.Suspend(**where, wait=Wait(kind="signal", name=config["signal"], until=until)))
        elif definition.type == "wait":
            self.do(c.Suspend(**where, wait=Wait(kind="timer", until=self.run.now + 3)))
        elif definition.type == "map":
            wait = Wait(
                kind="items",
                count=random.choice((0, 1, 2, 3, 5)),
                limit=random.choice((0, 0, 1, 2)),
                tolerated=config.get("tolerated_failures", 0),
            )
            self.do(c.Suspend(**where, wait=wait))
        else:
            self.do(c.Suspend(**where, wait=Wait(kind="child"), workflow="child", inputs={}))

    def time(self) -> None:
        """A timer that is due, one that is early, or one that was long ago."""
        chance = self.random.random()
        if chance < 0.1 and self.old_timers:
            self.do(c.FireTimer(at=self.run.now, timer=self.random.choice(self.old_timers)))
        elif self.timers:
            due, name = min((due, name) for name, due in self.timers.items())
            if chance < 0.3:
                name = self.random.choice(sorted(self.timers))
                due = self.timers[name]
            if chance > 0.2:
                self.run.now = max(self.run.now, due)
            self.do(c.FireTimer(at=self.run.now, timer=name))

    def vote(self) -> None:
        approval = self.random.choice(sorted(self.state.approvals))
        by = self.random.choice(("ann", "bob", "eve"))
        decision: Any = "approve" if self.healing or self.random.random() < 0.6 else "reject"
        self.do(c.Vote(at=self.run.now, approval=approval, decision=decision, by=by))

    def signal(self) -> None:
        self.do(
            c.Signal(
                at=self.run.now,
                name=self.random.choice(("go", "stop")),
                payload={"s": 1},
                signal=self.random.choice(("", "", "s1", "s2")),
            )
        )

    def end_child(self) -> None:
        child = self.random.choice(sorted(self.children))
        generation = self.children[child] + self.random.choice((-1, 0, 0, 0, 0, 1))
        ended: Any = self.random.choice(("completed", "completed", "failed", "cancelled", "rolled_back"))
        orphaned = ended == "cancelled" and self.random.random() < 0.5
        about = {"child": child, "generation": generation, "state": ended, "orphaned": orphaned}
        self.do(c.EndChild(at=self.run.now, **about, output={"c": 1}))

    def hold_back(self) -> None:
        queued = [task for task in self.current() if not task.undo]
        if queued:
            self.do(c.HoldBack(at=self.run.now, address=self.random.choice(queued)))

    def release(self) -> None:
        held = sorted({self.state.name(a.node) for a in self.state.activations.values() if a.state is N.HELD})
        if held:
            self.do(c.Release(at=self.run.now, nodes=tuple(held)))

    def pause(self) -> None:
        self.do(c.Pause(at=self.run.now, reason=self.random.choice(("", "", "audit", "budget"))))

    def resume(self) -> None:
        reason = None if self.healing else self.random.choice((None, "", "audit", "budget"))
        self.do(c.Resume(at=self.run.now, reason=reason))

    def cancel(self) -> None:
        chance = self.random.random
        self.do(c.Cancel(at=self.run.now, force=chance() < 0.4, orphaned=chance() < 0.3))

    def retry(self) -> None:
        self.do(c.Retry(at=self.run.now, orphaned=self.random.random() < 0.5))

    def rollback(self) -> None:
        self.do(c.Rollback(at=self.run.now))

    def answer_recall(self) -> None:
        """The transport had it still, or a worker was faster."""
        recalled = self.recalled.pop(self.random.randrange(len(self.recalled)))
        kind: Any = c.Withdraw if self.random.random() < 0.7 else c.Begin
        self.do(kind(at=self.run.now, address=recalled))

    def start_more(self) -> None:
        more = self.more.pop(self.random.randrange(len(self.more)))
        self.do(c.NextItems(at=self.run.now, address=more))

    def repair(self) -> None:
        found = self.parked()
        if not found:
            return
        activation, undo = self.random.choice(found)
        where: dict[str, Any] = {"at": self.run.now, "address": self.state.address(activation, undo=undo)}
        if self.healing or self.random.random() < 0.5:
            self.do(c.Requeue(**where, config={"k": 1} if self.random.random() < 0.2 else None))
        else:
            as_: Any = self.random.choice(("skip", "fail", "continue"))
            self.do(c.Discard(**where, as_=as_))

    def parked(self) -> list[tuple[Activation, bool]]:
        found = [(a, False) for a in self.state.activations.values() if a.state is N.PARKED and self._can_go_on(a)]
        found += [
            (a, True)
            for a in self.state.activations.values()
            if self.state.state is R.COMPENSATING and a.undo is not None and a.undo.state == "parked"
        ]
        return sorted(found, key=lambda pair: (pair[0].node, pair[0].scope, pair[0].item, pair[1]))

    def _can_go_on(self, activation: Activation) -> bool:
        """An item is repaired while its map waits for it."""
        if activation.item < 0:
            return True
        owner = self.state.find(self.state.name(activation.node), activation.scope)
        return owner is not None and owner.state is N.WAITING

    def patch(self) -> None:
        self._change(lambda ir: c.Patch(at=self.run.now, ir=ir))

    def _change(self, command: Callable[[Any], c.Command]) -> None:
        random = self.random
        make: Any = random.choice(
            (
                graphs.add_node,
                graphs.add_node,
                graphs.add_edge,
                graphs.remove_edge,
                graphs.remove_node,
                graphs.change_node,
            )
        )
        changed = make(random, self.definition)
        ir = None if changed is None else graphs.try_compile(changed)
        if changed is None or ir is None:
            return
        self.steps.append(f"# patch {make.__name__}: {changed}")
        if isinstance(self.do(command(ir)), c.Ruling):
            self.definition = changed

    # -- healing -------------------------------------------------------------------------------------------------------

    def heal(self, most: int = 3000) -> None:
        """No more faults: everything is answered well. The run must end (R2)."""
        self.healing = True
        self.steps.append("# healing")
        for _ in range(most):
            if self.state.terminal:
                break
            before = len(self.run.journal)
            if not self._heal_one() or len(self.run.journal) == before:
                raise Stuck(f"{self.state.state}, counter {self.state.counter}: {self.describe()}")
        assert self.state.terminal, f"no end in sight: {self.describe()}"
        assert self.state.counter == 0
        assert not self.state.timers

    def _heal_one(self) -> bool:
        state, now = self.state, self.run.now
        if state.state is R.PAUSED:
            self.resume()
            return True
        for task in self.current():
            where: dict[str, Any] = {"at": now, "address": task}
            definition = self.definition_of(task)
            assert definition is not None
            if task.undo and definition.compensator is None:
                activation = state.locate(task)
                assert activation is not None
                child = activation.child
                self.do(
                    c.EndChild(at=now, child=child, generation=activation.child_generation + 1, state="rolled_back")
                )
            elif definition.effect == "at_most_once" and not task.undo and not self._begun(task):
                self.do(c.Begin(**where, worker="w"))
            else:
                self.succeed(where, definition)
            return True
        if parked := self.parked():
            activation, undo = parked[0]
            address = state.address(activation, undo=undo)
            if state.state in (R.RUNNING, R.PAUSED, R.COMPENSATING) and activation.attempt > 60:
                self.do(c.Discard(at=now, address=address))
                return True
            if state.state in (R.RUNNING, R.PAUSED, R.COMPENSATING):
                if isinstance(
                    self.do(c.Requeue(at=now, address=address)), c.Refused
                ):  # its join failed: it was never to run
                    self.do(c.Discard(at=now, address=address))
                return True
        waiting = [a for a in state.activations.values() if a.state is N.WAITING and a.wait is not None]
        for activation in sorted(waiting, key=lambda a: (a.node, a.scope, a.item)):
            wait = activation.wait
            assert wait is not None
            if wait.kind == "approval" and state.state is R.RUNNING:
                approval = state.approvals[wait.name]
                voters = [v for v in (approval.approvers or ("ann", "bob", "eve")) if v not in approval.votes]
                self.do(c.Vote(at=now, approval=wait.name, decision="approve", by=voters[0]))
                return True
            if wait.kind == "signal" and state.state is R.RUNNING:
                self.do(c.Signal(at=now, name=wait.name, payload={}))
                return True
            if wait.kind == "child":
                ended: Any = "completed" if state.state is R.RUNNING else "cancelled"
                self.do(c.EndChild(at=now, child=wait.name, generation=wait.generation, state=ended, output={}))
                return True
        lacking = [a for a in state.activations.values() if a.state is N.HELD and a.reason == "no_worker"]
        held = sorted({state.name(a.node) for a in lacking})
        if held and state.state is R.RUNNING:
            self.do(c.Release(at=now, nodes=tuple(held)))
            return True
        if state.timers:
            due, name = min((timer.due_at, name) for name, timer in state.timers.items())
            self.run.now = max(now, due)
            self.do(c.FireTimer(at=self.run.now, timer=name))
            return True
        return False

    def finish(self) -> None:
        """The journal, whole and through its bytes, once more from scratch."""
        again = fold(self.run.journal, self.state.library)
        assert snapshot.encode(again) == snapshot.encode(self.state)
        back = snapshot.decode(snapshot.encode(self.state), self.state.library)
        assert back is not None
        assert snapshot.encode(back) == snapshot.encode(self.state)

    def describe(self) -> str:
        shown = [
            f"{self.state.address(a).place}: {a.state} edges={a.edges} tokens={a.tokens} fired={a.fired} {a.reason}"
            for a in self.state.activations.values()
        ]
        loops = [
            f"{self.state.name(run.loop)}{run.scope}: {run.iteration} {run.status}" for run in self.state.loops.values()
        ]
        return "\n".join(["", *shown, *loops, f"plan={self.state.plan} timers={self.state.timers}"])


class Mending(Walk):
    """Every retry brings another definition; the run must go on by it, or be refused and stay as it is."""

    def retry(self) -> None:
        self._change(lambda ir: c.Retry(at=self.run.now, ir=ir))
        if self.state.state is R.FAILED:
            super().retry()


def explore(random: Random, *, steps: int, size: int = 10, kind: type[Walk] = Walk) -> Walk:
    """Generate, walk, heal; when the run failed, retry it and heal again."""
    definition, ir = graphs.generate(random, size)
    walk: Walk | None = None
    try:
        walk = kind(random, definition, ir, faults=random.choice((0.0, 0.1, 0.3, 0.6)))
        walk.walk(steps)
        walk.heal()
        if walk.state.state is R.FAILED and random.random() < 0.7:
            walk.healing = False
            walk.retry()
            walk.heal()
        walk.finish()
    except BaseException as error:
        if walk is not None:
            error.add_note(repr(copy.deepcopy(definition)))
            error.add_note("\n".join(walk.steps))
            error.add_note("\n".join(repr(event) for event in walk.run.journal[-30:]))
            error.add_note(walk.describe())
        raise
    return walk
