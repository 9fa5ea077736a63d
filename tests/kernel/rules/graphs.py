"""Short ways to write the graph of a test. Conditions read the output: `{"again": True}` loops, `{"rule": 1}` picks rule 1."""

from __future__ import annotations

from typing import Any

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel.values import Wait
from perdure.model import compile_definition
from tests.kernel.driver import Answers, Run, compiled

ANSWERS: Answers = {
    "loop": lambda question: bool(question.evidence.output.get("again")),
    "branch": lambda question: question.evidence.output.get("rule") == question.need.rule,
}

AGAIN = {"again": True}
DONE = {"again": False}


def node(id: str, *after: Any, **keys: Any) -> dict[str, Any]:
    dependencies = {"dependencies": list(after)} if after else {}
    return {"id": id, "type": "task", "config": {"function": "m:f"}, **dependencies, **keys}


def human(id: str, *after: str, **keys: Any) -> dict[str, Any]:
    return {"id": id, "type": "human", "config": {}, "dependencies": list(after), **keys}


def again(back_to: str, **keys: Any) -> dict[str, Any]:
    return {"condition": "output.again", "max_iterations": 3, "loop_back_to": back_to, **keys}


def pick(*rules: list[str], default: list[str] | None = None) -> dict[str, Any]:
    """A branch with one rule for each list of targets."""
    written = [{"condition": f"output.rule == {number}", "next_nodes": rule} for number, rule in enumerate(rules)]
    return {"type": "conditional", "rules": written, "default": default or []}


UNDO = {"type": "task", "config": {"function": "m:undo"}, "retry": {"max_attempts": 1}}


def start(*nodes: dict[str, Any], answers: Answers | None = None, inputs: Any = None, **keys: Any) -> Any:
    """A `Run` of these nodes (as Any: tests look into what may be None). Keys of `Start` go there, others into the
    workflow."""
    fields = {name: keys.pop(name) for name in ("adopted", "deadline_seconds", "parent", "origin") if name in keys}
    return Run(compiled(*nodes, **keys), answers={**ANSWERS, **(answers or {})}, inputs=inputs, **fields)


def problems(*nodes: dict[str, Any], **workflow: Any) -> dict[str, str]:
    """What the compiler says: code to message."""
    result = compile_definition({"name": "test", **workflow, "nodes": list(nodes)})
    return {problem.code: problem.message for problem in result.problems}


def undone(run: Run, *nodes: str) -> None:
    """Compensators succeed, in this order."""
    for name in nodes:
        run.begin(name, undo=True)
        run.complete(name, undo=True)


def items(run: Run, name: str, count: int, **wait: Any) -> None:
    """A map turns into its items."""
    run.suspend(name, Wait(kind="items", count=count, **wait))


def child(run: Run, name: str, **fields: Any) -> str:
    """A workflow node starts its child; gives the child's id."""
    run.suspend(name, Wait(kind="child"), workflow="inner", **fields)
    return run.get(name).child


def end_child(run: Run, child_id: str, state: str, generation: int = 1, **fields: Any) -> None:
    run.tell(c.EndChild, child=child_id, state=state, generation=generation, **fields)


def effects(run: Run, kind: type[Any]) -> list[Any]:
    """What the last command asked for, of this kind."""
    return [effect for effect in run.effects if isinstance(effect, kind)]


def violations(run: Run) -> list[Any]:
    """What the checker finds in the journal of the run."""
    checker = Checker(run.state.library)
    return [found for event in run.journal for found in checker.feed(event)]


def noting(seen: list[Any], verdict: Any) -> Any:
    """An answer that keeps the questions it was asked."""

    def answer(question: c.Question) -> Any:
        seen.append(question)
        return verdict

    return answer
