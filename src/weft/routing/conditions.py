"""Answers to the questions the kernel asks about conditions.

A condition that cannot be evaluated is a verdict with an error, never false (rule 20). What a condition read goes with its
verdict, cut short, so that the journal can say why a route was taken.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from weft.kernel.commands import Question, Verdict
from weft.kernel.inputs import Context, Seen
from weft.kernel.values import Error
from weft.model.ir import Condition, Reference
from weft.routing import cel
from weft.routing.at_hand import NOTHING, AtHand, Lost
from weft.routing.errors import NeedsBlob
from weft.routing.scope import Missing, Run, describe_path, follow, outcome, view_loop
from weft.routing.segments import BlobRef

MAX_SEEN = 20
MAX_SEEN_VALUE = 200

_LATER = {
    "jsonpath": "JSONPath",
    "schema_validation": "JSON Schema",
    "cross_node_comparison": "cross-node",
    "composite": "composite",
    "python_sandbox": "Python",
}


class Unreadable(Exception):
    """What the condition reads cannot be had."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def evaluate(question: Question, run: Run, at_hand: AtHand = NOTHING) -> Verdict:
    """True or false, or the error that kept it from being known. Raises NotAtHand, and nothing else."""
    condition, context = question.condition, question.context
    assert condition is not None, "only questions about conditions are asked here"
    if condition.kind != "cel":
        message = f"{_LATER[condition.kind]} conditions are not built yet (issue 'routing'); write this one as CEL"
        return Verdict(error=Error("condition_not_available", message))
    expression = condition.spec["expression"]
    seen: dict[str, Any] = {}
    try:
        plan = _plan(condition.references)
        variables = _gather(question, plan, context, run, at_hand)
        seen = _look(plan, variables)
        return Verdict(cel.evaluate(expression, variables), seen=seen)
    except cel.CelError as error:
        message = f"condition {_cut(expression)!r}: {error}{_explain_skips(context)}"
        return Verdict(error=Error("condition_error", message), seen=seen)
    except Unreadable as error:
        return Verdict(error=Error(error.code, f"condition {_cut(expression)!r}: {error}"), seen=seen)


def check(condition: Condition | str) -> str | None:
    """What is wrong with a condition, as far as it can be known without a run."""
    if isinstance(condition, str):
        return cel.check(condition)
    return cel.check(condition.spec["expression"]) if condition.kind == "cel" else None


class _Plan:
    """What a condition reads, worked out once from its references."""

    __slots__ = ("outputs", "roots", "shown")

    def __init__(self, references: tuple[Reference, ...]) -> None:
        self.roots = frozenset(reference.root for reference in references)
        self.outputs = frozenset(reference.node for reference in references if reference.root == "node")
        located = [_locate(reference) for reference in references[:MAX_SEEN]]
        self.shown = [(describe_path(root, parts), root, parts) for root, parts in located]


@functools.lru_cache(maxsize=2048)
def _plan(references: tuple[Reference, ...]) -> _Plan:
    return _Plan(references)


def _gather(question: Question, plan: _Plan, context: Context, run: Run, at_hand: AtHand) -> dict[str, Any]:
    """Just the variables this condition reads: to convert a value for CEL costs more than to evaluate."""
    variables: dict[str, Any] = {}
    if "inputs" in plan.roots:
        variables["inputs"] = _load(run.inputs, "inputs", at_hand)
    if "run" in plan.roots:
        variables["run"] = run.facts()
    if "loop" in plan.roots and context.loop is not None:
        variables["loop"] = _load_loop(view_loop(context.loop), "loop", at_hand)
    if "output" in plan.roots and question.need.kind != "when":  # rule 21
        output = context.output if context.output_ref is None else BlobRef(context.output_ref)
        variables["output"] = _load(output, "output", at_hand)
        variables["current"] = {"output": variables["output"]}
    variables["ctx"] = {name: _view(name, seen, plan.outputs, at_hand) for name, seen in context.nodes.items()}
    return variables


def _view(name: str, seen: Seen, outputs: frozenset[str | None], at_hand: AtHand) -> dict[str, Any]:
    view: dict[str, Any] = {"state": seen.state}
    if name in outputs:
        view["output"] = _load(outcome(seen), f"ctx.{name}.output", at_hand)
    metadata: dict[str, Any] = {"started_at": seen.started_at, "ended_at": seen.ended_at}
    if seen.started_at is not None and seen.ended_at is not None:
        metadata["duration_ms"] = (seen.ended_at - seen.started_at) * 1000.0
    view["metadata"] = metadata
    return view


def _load(value: Any, path: str, at_hand: AtHand) -> Any:
    if type(value) is not BlobRef:
        return value
    if value.ref not in at_hand:
        raise NeedsBlob(value.ref, path)
    found = at_hand[value.ref]
    if type(found) is Lost:
        raise Unreadable(f"{path}: {found.message}", found.code)
    return found


def _load_loop(loop: dict[str, Any] | None, path: str, at_hand: AtHand) -> dict[str, Any] | None:
    if loop is not None:
        loop["previous"] = _load(loop["previous"], f"{path}.previous", at_hand)
        _load_loop(loop["parent"], f"{path}.parent", at_hand)
    return loop


def _look(plan: _Plan, variables: dict[str, Any]) -> dict[str, Any]:
    """The paths the condition names, with what was there."""
    seen: dict[str, Any] = {}
    for path, root, parts in plan.shown:
        value = follow(variables.get(root), root, parts)
        if type(value) is not Missing:
            seen[path] = _shorten(value)
    return seen


def _locate(reference: Reference) -> tuple[str, tuple[str | int, ...]]:
    if reference.node is None:
        return reference.root, reference.path
    return "ctx", (reference.node, "output" if reference.root == "node" else "metadata", *reference.path)


def _shorten(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is float:
        return value
    if kind is str:
        return _cut(value)
    if kind is list and len(value) > MAX_SEEN_VALUE:
        return f"a list of {len(value)}"
    try:
        return _cut(msgspec.json.encode(value).decode())
    except (RecursionError, TypeError, ValueError, OverflowError):
        return "…"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SEEN_VALUE else f"{text[:MAX_SEEN_VALUE]}…"


def _explain_skips(context: Context) -> str:
    skipped = [name for name, seen in context.nodes.items() if seen.state == "skipped"]
    return f" (skipped, so the output is null: {', '.join(skipped[:5])})" if skipped else ""
