"""What is fed with it: each target takes a source of chance, and lets nothing but its documented errors happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from perdure.expressions import cel, cross_node, json_schema, python_code
from perdure.expressions.errors import NeedsBlob, NeedsVerdict, TemplateError
from perdure.expressions.json_schema import NeedsSchema, SchemaInvalid, check, fits
from perdure.expressions.jsonpath import JsonPathError, compile_query
from perdure.expressions.patterns import PatternError, compile_pattern
from perdure.expressions.templates import render
from perdure.expressions.verdicts import evaluate, find_problems
from perdure.kernel.causal_past import Evidence, Seen
from perdure.kernel.commands import Need, Question, Verdict
from perdure.model import compile_definition, compile_text
from perdure.model.conditions import read_condition
from perdure.model.ir import Condition
from perdure.model.problems import Problems
from perdure.model.references import BadExpression, find_in_condition, find_in_expression, find_in_template
from perdure.pipeline import Means, PipelineError, check_steps, run_pipeline
from perdure.sandbox import Sandbox
from perdure.sandbox.jq import Jq, JqError
from tests.expressions.helpers import LOOP, NODES, RUN, namespace
from tests.fuzz import making
from tests.fuzz.answers import read_answer


def read_json(random: Random) -> None:
    _compile(making.json_text(random), "json")


def read_yaml(random: Random) -> None:
    _compile(making.yaml_text(random) if random.random() < 0.7 else making.json_text(random), "yaml")


def _compile(text: str, format: Any) -> None:
    data: str | bytes = text
    if len(text) % 2:
        data = text.encode(errors="surrogatepass")
    result = compile_text(data, format=format)
    assert (result.ir is None) is bool(result.errors)
    assert all(problem.message for problem in result.problems)
    msgspec.json.encode(result.problems)  # they can be shown


def compile_data(random: Random) -> None:
    result = compile_definition(making.definition(random))
    assert (result.ir is None) is bool(result.errors)


def render_template(random: Random) -> None:
    text = making.template(random)
    try:
        find_in_template(text, NODES)
    except BadExpression:
        pass
    try:
        render({"x": [text]}, namespace())
    except (TemplateError, NeedsBlob):
        pass


def _question(condition: Condition, random: Random) -> Question:
    nodes = {"a": Seen("completed", making.value(random)), "s": Seen("skipped")}
    output = making.value(random)
    return Question(Need("loop", "n"), Evidence(output, nodes=nodes, loop=LOOP), condition)


def _decide(condition: Condition, random: Random) -> None:
    question, at_hand = _question(condition, random), dict[str, Any]()
    while True:
        try:
            verdict = evaluate(question, RUN, at_hand, {"n": (("a",),), "a": (("x",),)})
        except (NeedsBlob, NeedsVerdict):
            return
        except NeedsSchema as need:  # it is not light, and compiled beside the loop
            if need.key in at_hand:
                raise
            at_hand[need.key] = json_schema.compile_text(need.text)
            continue
        _check_verdict(verdict)
        return


def _check_verdict(verdict: Verdict) -> None:
    assert (type(verdict.value) is bool) is (verdict.error is None)
    assert len(msgspec.json.encode(verdict.seen)) < 20_000  # it is stored
    if verdict.error is not None:
        assert len(verdict.error.message) < 2000
        msgspec.json.encode(verdict.error)


def evaluate_cel(random: Random) -> None:
    expression = making.cel(random)
    cel.check(expression)
    try:
        references, _ = find_in_expression(expression, ())
    except BadExpression:
        references = []
    _decide(Condition("cel", {"expression": expression}, tuple(references)), random)


def evaluate_cross_node(random: Random) -> None:
    expression = making.cel(random)
    cel.check(cross_node.with_doubles(expression))
    _decide(Condition("cross_node_comparison", {"expression": expression}), random)


def select_by_jsonpath(random: Random) -> None:
    try:
        query = compile_query(making.jsonpath(random))
    except JsonPathError:
        return
    try:
        query.select(making.value(random, 4))
    except JsonPathError:
        pass


def search_pattern(random: Random) -> None:
    text = making.pattern(random)
    try:
        compiled = compile_pattern(text, captures=random.random() < 0.5)
        for one in ("a" * random.choice((10, 3000, 50_000)), making.tear(random, "abc" * 20)):
            compiled.is_found_in(one)
            compiled.is_all_of(one)
            compiled.find(one, 100)
    except PatternError:
        pass


def check_schema(random: Random) -> None:
    schema, value = making.schema(random), making.value(random, 4)
    try:
        fits(schema, value)
        check(schema, value)
    except SchemaInvalid:
        pass


def evaluate_condition(random: Random) -> None:
    problems = Problems()
    canonical = read_condition(making.condition(random), (), "the condition", problems)
    if canonical is None:
        assert problems.found
        return
    try:
        references = [one for _, found, _ in find_in_condition(canonical, (), ("a",)) for one in found]
    except BadExpression:
        references = []
    kind = canonical.pop("type")
    list(find_problems(kind, canonical))
    _decide(Condition(kind, canonical, tuple(references)), random)


def check_code(random: Random) -> None:
    python_code.check(making.code(random))


def run_steps(random: Random) -> None:
    steps = [making.step(random) for _ in range(random.randrange(4))]
    try:
        msgspec.json.encode(steps)
    except UnicodeEncodeError:
        return  # no definition holds these
    list(check_steps(steps))
    list(check_steps(steps, lambda value: value == "x"))
    try:
        asyncio.run(run_pipeline(steps, making.table(random), MEANS))
    except PipelineError as error:
        msgspec.json.encode(error.message)


async def _nothing(*args: Any) -> Any:
    return {"status": 200, "headers": {}, "body": [{"a": 1}]}


async def _here(function: Any, *args: Any) -> Any:
    return function(*args)


MEANS = Means(jq=_nothing, http=_nothing, in_thread=_here)

TARGETS: dict[str, Callable[[Random], None]] = {
    "json": read_json,
    "yaml": read_yaml,
    "definitions": compile_data,
    "templates": render_template,
    "cel": evaluate_cel,
    "cross-node": evaluate_cross_node,
    "jsonpath": select_by_jsonpath,
    "patterns": search_pattern,
    "schemas": check_schema,
    "conditions": evaluate_condition,
    "code": check_code,
    "pipelines": run_steps,
    "answers": read_answer,
}


class Sandboxes:
    """The two targets that need processes. Their time is their own limit."""

    SECONDS = 0.05

    def __init__(self) -> None:
        self._sandbox = Sandbox()
        self._jq = Jq()

    def close(self) -> None:
        self._sandbox.shut()
        self._jq.close()

    @property
    def targets(self) -> dict[str, Callable[[Random], None]]:
        return {"sandbox": self.run_code, "jq": self.run_jq}

    def run_code(self, random: Random) -> None:
        code = making.code(random)
        if "\ud800" in code or "\udfff" in code:
            return  # no definition holds these
        job = python_code.Job(code, json.dumps([making.value(random, 2), {}]).encode(), int(self.SECONDS * 1000))
        answer = self._sandbox.decide(job)
        assert type(answer) is bool or answer.message

    def run_jq(self, random: Random) -> None:
        try:
            self._jq.call(making.jq(random), making.value(random, 2), self.SECONDS)
        except JqError as error:
            if error.retryable:  # then something else was wrong than the program
                raise
