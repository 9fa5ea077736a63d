"""The reference of pipelines and conditions is true: every example is one, every step and operator is there."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from perdure import budget
from perdure.expressions import cel, json_schema, jsonpath, patterns, python_code
from perdure.expressions.verdicts import find_problems
from perdure.model.conditions import _JSONPATH_OPERATORS
from perdure.model.problems import Problems
from perdure.model.reader import read
from perdure.nodes import transform
from perdure.nodes.config_checks import find_mistakes
from perdure.pipeline import Means, check_steps, run_pipeline
from perdure.pipeline.steps import AGGREGATES, NAMES
from perdure.sandbox.jq import Jq
from tests.expressions.helpers import make_condition

REFERENCE = Path(__file__).parent.parent.parent / "docs" / "reference"
PIPELINE = (REFERENCE / "pipeline.md").read_text(encoding="utf-8")
CONDITIONS = (REFERENCE / "conditions.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```yaml\n(.*?)```(?:\n```json\n(.*?)```)?", re.DOTALL)


def load(text):
    """As definitions are read, where `on` is a word."""
    problems = Problems()
    data, _, _ = read(text, "yaml", problems)
    assert problems.found == []
    return data


STEPS = [
    (load(steps), json.loads(run) if run else None) for steps, run in BLOCK.findall(PIPELINE) if steps.startswith("-")
]


@pytest.fixture
def jq():
    jq = Jq()
    yield jq
    jq.close()


def test_every_step_has_its_chapter_and_an_example():
    assert sorted(re.findall(r"^### (\w+)$", PIPELINE, re.MULTILINE)) == sorted(NAMES)
    assert {step["step"] for steps, _ in STEPS for step in steps} == set(NAMES)
    assert all(f"`{name}`" in PIPELINE for name in AGGREGATES)


@pytest.mark.parametrize(("steps", "run"), STEPS)
async def test_every_example_of_a_step_does_what_it_shows(jq, steps, run):
    assert list(check_steps(steps)) == []
    if run is None:
        assert steps[0]["step"] == "http_request"
        return

    async def call(function, *args):
        return function(*args)

    means = Means(jq=partial(call, jq.call), http=call, in_thread=call)
    assert await run_pipeline(steps, run["input"], means) == run["output"]


@pytest.mark.parametrize("block", [block for block, _ in BLOCK.findall(PIPELINE) if block.startswith("type:")])
def test_every_node_of_the_page_is_one(block):
    assert find_mistakes(transform.TYPE, load(block)["config"]) == []


@pytest.mark.parametrize("block", [block for block, _ in BLOCK.findall(CONDITIONS)])
def test_every_condition_of_the_page_compiles(block):
    condition = make_condition(load(block), ("enrich_data", "forecast", "initial_score"))
    assert list(find_problems(condition.kind, condition.spec)) == []


def test_every_kind_and_operator_of_conditions_is_there():
    kinds = "cel jsonpath schema_validation cross_node_comparison composite python_sandbox".split()
    assert re.findall(r"^## (\w+)$", CONDITIONS, re.MULTILINE)[:6] == kinds
    assert all(f"`{operator}`" in CONDITIONS for operator in _JSONPATH_OPERATORS)


def test_the_limits_are_what_the_page_says():
    numbers = [
        cel.MAX_LENGTH,
        cel.MAX_DEPTH,
        jsonpath.MAX_QUERY,
        budget.MAX_STEPS,
        jsonpath.MAX_SELECTED,
        patterns.MAX_PATTERN,
        patterns.MAX_STEPS,
        json_schema.MAX_SCHEMA,
        budget.MAX_STEPS * json_schema._STEPS_A_STEP,
        python_code.MAX_CODE,
        python_code.MAX_ARGUMENTS,
    ]
    limits = CONDITIONS[CONDITIONS.index("## Limits") :]
    assert [number for number in numbers if f"{number:,}" not in limits] == []
