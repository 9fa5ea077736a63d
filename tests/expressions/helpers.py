"""A small run to read from, and short ways to ask."""

from collections.abc import Collection
from typing import Any

from perdure.expressions.namespace import Namespace, Run
from perdure.expressions.templates import render
from perdure.kernel.causal_past import Evidence, LoopView, Seen
from perdure.kernel.commands import Need, Question
from perdure.kernel.values import Error
from perdure.model.conditions import read_condition
from perdure.model.ir import Condition
from perdure.model.problems import Problems
from perdure.model.references import find_in_condition, find_in_expression

RUN = Run("run-1", "enrich", {"city": "Rome", "list": [3, 1, 2], "none": None, "yes": True, "big": 2**53}, 4)
FAILED = Error("http:503", "gone", 3)
NODES = {
    "a": Seen("completed", {"x": 1, "output": "inner", "text": "hi", "rows": [{"n": 1}, {"n": 2}], "odd key": 5}),
    "empty": Seen("completed", None),
    "skipped": Seen("skipped"),
    "failed": Seen("failed", FAILED.as_output(), error=FAILED),
    "stored": Seen("completed", output_ref="cas://sha256:ab"),
    "my-node": Seen("completed", {"v": 5}),
    "my": Seen("completed", 10),
    "node": Seen("completed", 4),
    "words": Seen("completed", ["b", "a", "b"]),
}
LOOP = LoopView(2, Seen("completed", {"k": 7}), LoopView(5))


def namespace(nodes: dict[str, Seen] | None = None, **extra: Any) -> Namespace:
    return Namespace(RUN, NODES if nodes is None else nodes, loop=LOOP, extra=extra, known=[*NODES, "later"])


def show(template: Any, nodes: dict[str, Seen] | None = None, **extra: Any) -> Any:
    return render(template, namespace(nodes, **extra))


def completed(output: Any) -> dict[str, Seen]:
    return {"a": Seen("completed", output)}


def ask(
    expression: str, output: Any = None, *, nodes: dict[str, Seen] | None = None, kind: Any = "branch", **context: Any
) -> Question:
    nodes = {} if nodes is None else nodes
    references, _ = find_in_expression(expression, nodes)
    condition = Condition("cel", {"expression": expression}, tuple(references))
    return Question(Need(kind, "n"), Evidence(output, nodes=nodes, **context), condition)


def make_condition(spec: Any, nodes: Collection[str] = ()) -> Condition:
    """A condition as the compiler makes it from what a definition says."""
    problems = Problems()
    canonical = read_condition(spec, (), "the condition", problems)
    assert canonical is not None, problems.found
    references = [reference for _, found, _ in find_in_condition(canonical, (), nodes) for reference in found]
    kind = canonical.pop("type")
    return Condition(kind, canonical, tuple(references))


def ask_about(
    spec: Any, output: Any = None, *, nodes: dict[str, Seen] | None = None, kind: Any = "branch", **context: Any
) -> Question:
    nodes = {} if nodes is None else nodes
    return Question(Need(kind, "n"), Evidence(output, nodes=nodes, **context), make_condition(spec, nodes))
