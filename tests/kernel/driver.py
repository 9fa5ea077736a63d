"""A run in memory: the kernel, its journal, and answers to its conditions. Every step is checked against replay.

run = Run.of({"id": "a"}, {"id": "b", "dependencies": ["a"]})
run.complete("a", {"n": 1})
assert run.state_of("b") == "queued"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.address import Address
from perdure.kernel.decide import advance, decide
from perdure.kernel.evolve import evolve
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Error, Wait
from perdure.model import compile_definition
from perdure.model.ir import IR

Answers = dict[Any, Any]


def compiled(*nodes: dict[str, Any], **workflow: Any) -> IR:
    """Compile nodes; `type` defaults to a task."""
    full = [node if "type" in node else {"type": "task", "config": {"function": "m:f"}, **node} for node in nodes]
    result = compile_definition({"name": "test", **workflow, "nodes": full})
    assert result.ir is not None, [problem.message for problem in result.problems]
    return result.ir


def fold(journal: list[Any], library: dict[str, IR]) -> State:
    """The journal, through its bytes, from scratch."""
    state = State(library=library)
    for event in journal:
        evolve(state, e.decode(e.encode(event)))
    return state


class Run:
    def __init__(
        self, ir: IR, *, answers: Answers | None = None, inputs: Any = None, start: bool = True, **fields: Any
    ):
        self.ir = ir
        self.state = State()
        self.journal: list[Any] = []
        self.effects: list[fx.Effect] = []
        self.now = 1000.0
        self.answers: Answers = dict(answers or {})
        """What conditions say: (kind, node[, rule]) or need -> bool, Error, or a function of the Question."""
        self.refused: c.Refused | None = None
        self.check: Callable[[Run], None] | None = None
        self.replay_each_step = True
        self.restored: State | None = None
        """The state after the last step, as a snapshot gives it to another process."""
        if start:
            self.do(c.Start(at=self.now, run_id="run", ir=ir, inputs=inputs, **fields))

    @classmethod
    def of(cls, *nodes: dict[str, Any], answers: Answers | None = None, inputs: Any = None, **workflow: Any) -> Run:
        return cls(compiled(*nodes, **workflow), answers=answers, inputs=inputs)

    # -- commands ------------------------------------------------------------------------------------------------------

    def do(self, command: c.Command) -> c.Ruling | c.Refused:
        verdicts: dict[c.Need, c.Verdict] = {}
        while True:
            before = snapshot.encode(self.state)
            foreseen = decide(self.state, command, verdicts)
            assert snapshot.encode(self.state) == before, "decide changed the state"
            result = advance(self.state, command, verdicts)
            assert result == foreseen, "decide and advance differ"
            if not isinstance(result, c.Needs):
                break
            assert snapshot.encode(self.state) == before, "a decision with needs left something behind"
            for question in result.questions:
                assert question.need not in verdicts, f"asked twice for {question.need}"
                verdicts[question.need] = self._answer(question)
        if self.restored is not None:
            assert decide(self.restored, command, verdicts) == result, "a restored state decides otherwise"
        if isinstance(result, c.Refused):
            assert snapshot.encode(self.state) == before, "a refused command changed the state"
            self.refused = result
            return result
        self.refused = None
        self.journal.extend(result.events)
        self.effects = list(result.effects)
        back = None
        if self.replay_each_step:
            again = fold(self.journal, self.state.library)
            assert snapshot.encode(again) == snapshot.encode(self.state), "replay differs from the live state (J5)"
            back = snapshot.decode(snapshot.encode(self.state), self.state.library)
            assert back is not None, "the snapshot cannot be read"
            assert snapshot.encode(back) == snapshot.encode(self.state), "snapshot differs"
        self.restored = back
        if self.check is not None:
            self.check(self)
        return result

    def _answer(self, question: c.Question) -> c.Verdict:
        need = question.need
        for key in (need, (need.kind, need.node, need.rule), (need.kind, need.node), need.kind):
            if key in self.answers:
                answer = self.answers[key]
                break
        else:
            if need.kind == "collect":
                answer = [item.output for item in question.evidence.items]
            elif need.kind == "outputs":
                answer = {}
            else:
                raise AssertionError(f"the test has no answer for {need}")
        if callable(answer):
            answer = answer(question)
        if isinstance(answer, Error):
            return c.Verdict(error=answer)
        return c.Verdict(value=answer)

    def _command(self, kind: Any, node: str, scope: tuple[int, ...], item: int | None, **fields: Any) -> Any:
        activation = self.state.find(node, scope, item)
        undo, generation = fields.pop("undo", False), fields.pop("generation", self.state.generation)
        current = Address("run", node) if activation is None else self.state.address(activation, undo=undo)
        attempt = fields.pop("attempt", current.attempt)
        return self.do(
            kind(at=self.now, address=Address("run", node, scope, item, attempt, generation, undo), **fields)
        )

    def begin(self, node: str, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any) -> Any:
        return self._command(c.Begin, node, scope, item, **fields)

    def checkpoint(self, node: str, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any) -> Any:
        return self._command(c.Checkpoint, node, scope, item, **fields)

    def complete(
        self, node: str, output: Any = None, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any
    ) -> Any:
        return self._command(c.Complete, node, scope, item, output=output, **fields)

    def fail(
        self, node: str, code: str = "error", scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any
    ) -> Any:
        """Fail for good, unless told `retryable=True`."""
        fields.setdefault("retryable", False)
        return self._command(c.Fail, node, scope, item, error=Error(code, "it failed"), **fields)

    def lapse(self, node: str, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any) -> Any:
        return self._command(c.Lapse, node, scope, item, **fields)

    def withdraw(self, node: str, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any) -> Any:
        return self._command(c.Withdraw, node, scope, item, **fields)

    def suspend(
        self, node: str, wait: Wait, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any
    ) -> Any:
        return self._command(c.Suspend, node, scope, item, wait=wait, **fields)

    def requeue(self, node: str, scope: tuple[int, ...] = (), *, item: int | None = None, **fields: Any) -> Any:
        return self._command(c.Requeue, node, scope, item, **fields)

    def discard(
        self, node: str, as_: str = "skip", scope: tuple[int, ...] = (), *, item: int | None = None, **f: Any
    ) -> Any:
        return self._command(c.Discard, node, scope, item, as_=as_, **f)

    def ask(self, node: str, scope: tuple[int, ...] = (), **fields: Any) -> str:
        """Turn a human node into a pending approval, as its node type will; gives the approval's id."""
        self.suspend(node, Wait(kind="approval"), scope, **fields)
        wait = self.get(node, scope).wait
        assert wait is not None
        return wait.name

    def vote(self, approval: str, decision: str, by: str = "ann", **fields: Any) -> Any:
        return self.do(c.Vote(at=self.now, approval=approval, decision=decision, by=by, **fields))  # type: ignore[arg-type]

    def tell(self, kind: Any, /, **fields: Any) -> Any:
        """Any command without an activation: Pause, Resume, Cancel, Retry, Rollback, Patch, Signal, …"""
        return self.do(kind(at=self.now, **fields))

    def pass_time(self, seconds: float) -> None:
        """Let time pass and fire every timer that becomes due, in order."""
        until = self.now + seconds
        while due := sorted((t.due_at, name) for name, t in self.state.timers.items() if t.due_at <= until):
            self.now = max(self.now, due[0][0])
            self.do(c.FireTimer(at=self.now, timer=due[0][1]))
        self.now = until

    # -- looking -------------------------------------------------------------------------------------------------------

    def get(self, node: str, scope: tuple[int, ...] = (), item: int | None = None) -> Activation:
        activation = self.state.find(node, scope, item)
        assert activation is not None, f"{node}{list(scope)} was never activated"
        return activation

    def state_of(self, node: str, scope: tuple[int, ...] = (), item: int | None = None) -> str:
        activation = self.state.find(node, scope, item)
        return "pending" if activation is None else activation.state.value

    def states(self) -> dict[str, str]:
        """Every node outside loops, by id."""
        return {node.id: self.state_of(node.id) for node in self.state.ir.nodes if node is not None and not node.loops}

    def types(self) -> list[str]:
        return [event.type for event in self.journal]

    def events(self, type_: str) -> list[Any]:
        return [event for event in self.journal if event.type == type_]

    def dispatched(self) -> set[str]:
        """What the last command dispatched, as `node`, `node[1]` or `node#0`."""
        return {effect.address.place for effect in self.effects if isinstance(effect, fx.Dispatch)}

    @property
    def status(self) -> str:
        return self.state.state.value

    @property
    def counter(self) -> int:
        return self.state.counter
