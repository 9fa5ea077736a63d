"""Answers to the questions the kernel asks about conditions, whatever their kind.

A condition that cannot be evaluated is a verdict with an error, never false (rule 20). What a condition read goes with
its verdict, cut short and without sensitive values, so that the journal can say why a route was taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from perdure.budget import Budget, OverBudget
from perdure.expressions import cel, cross_node, json_schema, jsonpath, python_code
from perdure.expressions.at_hand import NOTHING, AtHand, Lost
from perdure.expressions.compiled_texts import kept
from perdure.expressions.errors import NeedsVerdict
from perdure.expressions.namespace import Missing, Run, follow
from perdure.expressions.operators import Incomparable, compare
from perdure.expressions.patterns import PatternError, compile_pattern
from perdure.expressions.sight import (
    NOT_SENSITIVE,
    Plan,
    Sensitive,
    Sight,
    Undecided,
    cut,
    plan_expression,
)
from perdure.kernel.commands import Question, Verdict
from perdure.kernel.values import Error
from perdure.model.ir import Condition
from perdure.model.references import BadExpression, operand_reference

_COLUMN = re.compile(r" \(line \d+, column \d+\)")
_SHOWN_PROBLEMS = 5

Spec = dict[str, Any]
Seen = dict[str, Any]


def evaluate(
    question: Question,
    run: Run,
    at_hand: AtHand = NOTHING,
    sensitive: Sensitive = NOT_SENSITIVE,
    open_sealed: Callable[[Any], Any] | None = None,
    budget: Budget | None = None,
) -> Verdict:
    """The verdict on a condition: true or false, or the error that kept it from being known. Raises only NotAtHand.

    `budget` is that of the decision, for all its questions together.
    """
    condition = question.condition
    assert condition is not None, "only questions about conditions are asked here"
    sight = Sight(question, run, at_hand, sensitive, open_sealed, budget)
    seen: Seen = {}
    try:
        return Verdict(_KINDS[condition.kind](condition.spec, sight, seen), seen=seen)
    except (Undecided, OverBudget) as error:
        code = error.code if isinstance(error, Undecided) else "condition_error"
        message = f"condition {_name(condition.kind, condition.spec)}: {error}"
        return Verdict(error=Error(code, message), seen=seen)


def check(condition: Condition | str) -> str | None:
    """What is wrong with a condition, as far as it can be known without a run."""
    if isinstance(condition, str):
        return cel.check(condition)
    return next((message for _, message in find_problems(condition.kind, condition.spec)), None)


def find_problems(kind: str, spec: Spec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Everything that is wrong with a condition, each with its place inside it."""
    if kind == "composite":
        for index, inner in enumerate(spec["conditions"]):
            for path, message in find_problems(inner["type"], inner):
                yield ("conditions", index, *path), message
        return
    problem = _CHECKS[kind](spec)
    if problem is not None:
        yield (), problem


def _name(kind: str, spec: Spec) -> str:
    """The name of a condition in messages."""
    text = spec.get("expression") or spec.get("query")
    return repr(cut(text)) if text else f"of type {kind}"


# -- CEL ---------------------------------------------------------------------------------------------------------------


def _cel(spec: Spec, sight: Sight, seen: Seen) -> bool:
    expression = spec["expression"]
    plan = plan_expression(expression)
    variables = sight.variables(plan)
    seen.update(sight.look(plan, variables))
    return _evaluate_cel(expression, variables, sight)


def _evaluate_cel(expression: str, variables: dict[str, Any], sight: Sight) -> bool:
    try:
        return cel.evaluate(expression, variables, sight.budget)
    except cel.CelError as error:
        raise Undecided(f"{error}{sight.explain_skips()}") from None


# -- JSONPath ----------------------------------------------------------------------------------------------------------


def _jsonpath(spec: Spec, sight: Sight, seen: Seen) -> bool:
    output = sight.output()
    try:
        outcome = jsonpath.evaluate(spec, output, sight.budget)
        prefix = jsonpath.compile_query(spec["query"]).prefix
    except jsonpath.JsonPathError as error:
        raise Undecided(str(error)) from None
    sight.record(seen, cut(spec["query"]), outcome.seen, "", prefix)
    return outcome.is_true


# -- JSON Schema -------------------------------------------------------------------------------------------------------


def _schema(spec: Spec, sight: Sight, seen: Seen) -> bool:
    output = sight.output()
    schema = sight.fetch(spec["schema_ref"], "schema_ref") if "schema_ref" in spec else spec["schema"]
    try:
        fits = json_schema.fits(schema, output, sight.budget, sight.at_hand)
        if sight.room > 0:
            sight.room -= 1
            seen["output"] = "fits the schema" if fits else _explain_misfit(schema, output, sight)
    except json_schema.SchemaInvalid as error:
        raise Undecided(str(error), error.code) from None
    return fits is not spec.get("invert", False)


def _explain_misfit(schema: Any, output: Any, sight: Sight) -> str:
    """Where the output does not fit and by which keyword; never the value found there."""
    places = json_schema.find_misfits(schema, output, _SHOWN_PROBLEMS, at_hand=sight.at_hand)
    return cut(f"does not fit the schema: {', '.join(places)}")


# -- cross-node --------------------------------------------------------------------------------------------------------


def _cross_node(spec: Spec, sight: Sight, seen: Seen) -> bool:
    try:
        if "expression" in spec:
            return _cross_node_expression(spec["expression"], sight, seen)
        left = cross_node.doubled(_operand(spec["left"], sight, seen))
        right = cross_node.doubled(_operand(spec["right"], sight, seen))
        return compare(spec["operator"], left, right, sight.budget)
    except (cross_node.TooBig, Incomparable) as error:
        raise Undecided(f"{error}{sight.explain_skips()}") from None
    except RecursionError:
        raise Undecided("the data is nested too deep") from None


def _cross_node_expression(expression: str, sight: Sight, seen: Seen) -> bool:
    plan = plan_expression(expression)
    variables = sight.variables(plan)
    seen.update(sight.look(plan, variables))
    try:
        return cel.evaluate(cross_node.with_doubles(expression), _as_doubles(plan, variables), sight.budget)
    except cel.CelError as error:
        message = _COLUMN.sub("", str(error))
        if "cannot be used with" in message:
            message += "; numbers are doubles here, so write double(size(x)), and int(x) % 2"
        raise Undecided(f"{message}{sight.explain_skips()}") from None


def _as_doubles(plan: Plan, variables: dict[str, Any]) -> dict[str, Any]:
    """What the expression reads, as doubles. A node's fields can also be read without `output` before them."""
    names = [name for name in ("inputs", "run", "loop") if name in variables]
    doubles: dict[str, Any] = {name: cross_node.doubled(variables[name]) for name in names}
    if "output" in variables:
        output = cross_node.doubled(cross_node.narrowed(variables["output"], plan.paths[None]))
        doubles["output"] = output
        doubles["current"] = {**(output if type(output) is dict else {}), "output": output}
    context: dict[str, Any] = {}
    for name, view in variables["ctx"].items():
        fields = {}
        if "output" in view:
            output = cross_node.doubled(cross_node.narrowed(view["output"], plan.paths[name]))
            fields = {**(output if type(output) is dict else {}), "output": output}
        context[name] = {**fields, "state": view["state"], "metadata": view["metadata"]}
    doubles["ctx"] = context
    return doubles


def _operand(operand: Spec, sight: Sight, seen: Seen) -> Any:
    if "value" in operand:
        return operand["value"]
    plan = _plan_operand(operand["source"], operand.get("node"), operand.get("path", ""))
    place = plan.places[0]
    if place.root == "ctx":
        value = follow(sight.variables(plan)["ctx"], "ctx", place.parts)
    else:
        value = follow(sight.output(), "output", place.parts)
    if type(value) is Missing:
        raise Undecided(f"{cut(place.text)} is missing: {cut(value.why)}{sight.explain_skips()}")
    sight.record(seen, place.text, value, place.owner, place.path)
    return value


@kept(characters=1_000_000)
def _plan_operand(source: str, node: str | None, path: str) -> Plan:
    try:
        return Plan((operand_reference(source, node, path),))
    except BadExpression as error:
        raise Undecided(str(error)) from None


def _check_cross_node(spec: Spec) -> str | None:
    if "expression" in spec:
        message = cel.check(cross_node.with_doubles(spec["expression"]))
        return None if message is None else _COLUMN.sub("", message)
    right = spec["right"]
    if spec["operator"] == "matches" and "value" in right:
        if type(right["value"]) is not str:
            return "operator matches takes a pattern as the value on the right"
        return _check_pattern(right["value"])
    return None


def _check_pattern(text: str) -> str | None:
    try:
        compile_pattern(text)
    except PatternError as error:
        return str(error)
    return None


# -- composite ---------------------------------------------------------------------------------------------------------


def _composite(spec: Spec, sight: Sight, seen: Seen) -> bool:
    """Combine conditions as CEL does: one that decides wins over one that cannot be evaluated, in any order."""
    operator = spec["operator"]
    decisive = operator == "OR"
    shown: list[Seen] = []
    seen["operator"], seen["conditions"] = operator, shown
    trouble: Undecided | None = None
    value = not decisive
    for index, inner in enumerate(spec["conditions"]):
        inside: Seen = {}
        part: Seen = {"type": inner["type"], "seen": inside}
        shown.append(part)
        try:
            part["value"] = value = _KINDS[inner["type"]](inner, sight, inside)
        except Undecided as error:
            part["error"] = error.code
            trouble = trouble or Undecided(f"conditions[{index}], {_name(inner['type'], inner)}: {error}", error.code)
            continue
        if operator != "NOT" and value is decisive:
            seen["decided_by"] = index
            return decisive
    if trouble is not None:
        raise trouble
    return not value if operator == "NOT" else not decisive


# -- Python ------------------------------------------------------------------------------------------------------------


def _python(spec: Spec, sight: Sight, seen: Seen) -> bool:
    code = spec.get("code")
    if code is None:
        code = sight.fetch(spec["code_ref"], "code_ref")
        problem = python_code.check(code)
        if problem is not None:
            raise Undecided(f"code_ref: {problem}")
    output = sight.output() if sight.has_output else None
    try:
        job = python_code.make_job(spec, code, output, sight.past())
    except python_code.TooLarge as error:
        raise Undecided(str(error)) from None
    key = job.key
    answer = sight.ask(key)
    if answer is None:
        raise NeedsVerdict(key, job)
    if type(answer) is Lost:
        raise Undecided(answer.message, answer.code)
    if type(answer) is not bool:
        raise Undecided(f"the sandbox answered {type(answer).__name__}, not true or false")
    if sight.room > 0:
        sight.room -= 1
        seen["evaluate(output, context)"] = answer
    return answer


_KINDS: dict[str, Callable[[Spec, Sight, Seen], bool]] = {
    "cel": _cel,
    "jsonpath": _jsonpath,
    "schema_validation": _schema,
    "cross_node_comparison": _cross_node,
    "composite": _composite,
    "python_sandbox": _python,
}
_CHECKS: dict[str, Callable[[Spec], str | None]] = {
    "cel": lambda spec: cel.check(spec["expression"]),
    "jsonpath": jsonpath.check,
    "schema_validation": lambda spec: json_schema.find_mistake(spec["schema"]) if "schema" in spec else None,
    "cross_node_comparison": _check_cross_node,
    "python_sandbox": lambda spec: python_code.check(spec["code"]) if "code" in spec else None,
}
