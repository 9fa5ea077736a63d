"""Every condition, branch and loop that the reference documents show, decided as they say."""

from typing import Any

import pytest

from perdure.expressions.verdicts import evaluate
from perdure.kernel.causal_past import Seen
from tests.expressions.helpers import RUN, ask_about
from tests.expressions.test_python_conditions import GROWTH, decide, sandbox  # noqa: F401  the fixture
from tests.model import test_reference as reference


def load(name: str) -> Any:
    return reference.load(name)


def condition(name: str) -> Any:
    return load(f"condition_{name}")["condition"]


def completed(**outputs: Any) -> dict[str, Seen]:
    return {name: Seen("completed", output) for name, output in outputs.items()}


def holds(spec: Any, output: Any, *, at_hand: dict[str, Any] | None = None, **nodes: Any) -> bool | None:
    verdict = evaluate(ask_about(spec, output, nodes=completed(**nodes)), RUN, at_hand or {})
    assert (verdict.value is None) is (verdict.error is not None)
    return verdict.value


RETRY_SCHEMA = {f"cas://{reference.address('retry_schema')}": {"required": ["retryable"]}}
TEAM = {"data": {"customers": [{"tier": "enterprise"}, {"tier": "free"}]}}
ALONE = {"data": {"customers": [{"tier": "free"}]}}

CASES: list[tuple[str, Any, dict[str, Any], bool]] = [
    ("cel", {"status": 500, "retry_count": 4}, {}, True),
    ("cel", {"status": 200, "retry_count": 4}, {}, False),
    ("cel", {"status": 500, "retry_count": 5}, {}, False),
    ("cel_context", {"score": 85}, {"enrich_data": {"revenue": 100_001}}, True),
    ("cel_context", {"score": 85}, {"enrich_data": {"revenue": 100_000}}, False),
    ("cel_context", {"score": 80.0}, {"enrich_data": {"revenue": 100_000.5}}, True),
    ("jsonpath_length", TEAM, {}, True),
    ("jsonpath_length", ALONE, {}, False),
    ("jsonpath_sum", {"transactions": [{"amount": 6000}, {"amount": 4000.5}]}, {}, True),
    ("jsonpath_sum", {"transactions": [{"amount": 6000}, {"amount": 4000}]}, {}, False),
    ("jsonpath_sum", {"transactions": []}, {}, False),
    ("cross_node", {"final_score": 81}, {"initial_score": {"score": 80}}, True),
    ("cross_node", {"final_score": 80}, {"initial_score": {"score": 80.0}}, False),
    ("cross_node_expression", {"revenue": 120}, {"forecast": {"predicted_revenue": 100}}, True),
    ("cross_node_expression", {"revenue": 110}, {"forecast": {"predicted_revenue": 100}}, False),
    ("cross_node_expression", {"revenue": 111}, {"forecast": {"predicted_revenue": 100.0}}, True),
    ("composite_or", {"score": 80}, {"referral_check": {"is_referral": False}}, True),
    ("composite_or", {"score": 79}, {"referral_check": {"is_referral": True}}, True),
    ("composite_or", {"score": 79}, {"referral_check": {"is_referral": False}}, False),
    ("composite_or", {"score": 79}, {"referral_check": {"is_referral": 1}}, False),
]


@pytest.mark.parametrize(("name", "output", "nodes", "expected"), CASES)
def test_a_condition_of_the_documents_decides_as_they_say(name, output, nodes, expected):
    assert holds(condition(name), output, **nodes) is expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"status": "failed", "errors": ["a", "b"], "retryable": 1}, True),
        ({"status": "failed", "errors": ["a", "b", "c"], "retryable": 1}, False),
        ({"status": "failed", "errors": []}, False),
        ({"status": "success"}, False),  # decided by the first, though there are no errors to count
        ({"status": "failed", "retryable": 1}, None),
    ],
)
def test_the_conjunction_of_the_documents_with_its_schema_in_the_store(output, expected):
    assert holds(condition("composite_and"), output, at_hand=RETRY_SCHEMA) is expected


def test_the_schema_of_the_documents_comes_from_the_store():
    kept = {f"cas://{reference.address('schema123')}": {"type": "object", "required": ["id"]}}
    assert holds(condition("schema_ref"), {"id": 1}, at_hand=kept) is True
    assert holds(condition("schema_ref"), {}, at_hand=kept) is False


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"revenue": 130, "churn_rate": 0.01}, True),
        ({"revenue": 130, "churn_rate": 0.05}, False),
        ({"revenue": 120, "churn_rate": 0.01}, False),
        ({}, False),
    ],
)
async def test_the_python_of_the_documents_decides_as_they_say(sandbox, output, expected):  # noqa: F811
    question = ask_about(condition("python"), output, nodes=completed(last_month={"revenue": 100}))
    verdict, runs = await decide(question, sandbox, {f"cas://{reference.address('python_evaluator')}": GROWTH})
    assert (verdict.value, runs) == (expected, 1)


@pytest.mark.parametrize(
    ("text", "output", "nodes", "expected"),
    [
        ("current.revenue > ctx.forecast.revenue", {"revenue": 2}, {"forecast": {"revenue": 1.5}}, True),
        ("current.revenue > ctx.forecast.revenue", {"revenue": 1}, {"forecast": {"revenue": 1.5}}, False),
    ],
)
def test_the_short_form_of_the_table_of_the_documents(text, output, nodes, expected):
    assert holds({"type": "cross_node_comparison", "expression": text}, output, **nodes) is expected


def test_the_query_of_the_table_of_the_documents():
    spec = {"type": "jsonpath", "query": "$.data.customers[?(@.tier == 'enterprise')]", "operator": "exists"}
    assert holds(spec, TEAM) is True
    assert holds(spec, ALONE) is False


CAPABILITIES = [
    "output.n == 3 && output.n != 4 && output.n > 2 && output.n < 4 && output.n >= 3 && output.n <= 3",
    "true && (false || !false)",
    "output.n + 1 == 4 && output.n - 1 == 2 && output.n * 2 == 6 && output.n / 2 == 1 && output.n % 2 == 1",
    "output.s.contains('b') && output.s.startsWith('a') && output.s.endsWith('c')",
    "3 in output.list && output.list.all(x, x > 0) && output.list.exists(x, x == 2)",
    "(output.n > 10 ? 'high' : 'low') == 'low'",
]


@pytest.mark.parametrize("expression", CAPABILITIES)
def test_cel_can_what_the_documents_list(expression):
    assert holds(expression, {"n": 3, "s": "abc", "list": [1, 2, 3]}) is True


# -- loops and branches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"status": "success", "data": [1]}, False),
        ({"status": "success", "data": []}, True),
        ({"status": "pending", "data": [1]}, True),
        ({}, True),
    ],
)
def test_the_loop_until_the_schema_holds_goes_on_as_long_as_it_does_not(output, expected):
    assert holds(load("loop_until_schema")["loop"]["condition"], output) is expected


@pytest.mark.parametrize(("status", "expected"), [(200, False), (503, True)])
def test_the_loop_around_an_api_goes_on_until_it_answers_200(status, expected):
    assert holds(load("node_call_external_api")["loop"]["condition"], {"status": status}) is expected


@pytest.mark.parametrize(
    ("score", "revenue", "chosen"),
    [
        (80, 100_001, ["enterprise_sales", "send_gift"]),
        (80, 100_000, ["standard_sales"]),
        (50, 0, ["standard_sales"]),
        (49, 10**6, ["nurture_campaign"]),
    ],
)
def test_the_branches_of_the_score_pick_the_first_that_holds(score, revenue, chosen):
    rules = load("node_score_customer")["branch"]["rules"]
    picked = next(r for r in rules if holds(r["condition"], {"score": score}, enrich_data={"revenue": revenue}))
    assert picked["next_nodes"] == chosen


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"status": "failed", "error_code": "TIMEOUT", "amount": 50}, True),
        ({"status": "failed", "error_code": "RATE_LIMIT", "amount": 50.0}, True),
        ({"status": "failed", "error_code": "DECLINED", "amount": 50}, False),
        ({"status": "failed", "error_code": "TIMEOUT", "amount": 49}, False),
        ({"status": "success", "amount": 50}, False),
        ({"status": "failed", "amount": 50}, None),
    ],
)
def test_the_payment_is_tried_again_for_passing_errors_of_the_same_amount(output, expected):
    spec = load("node_call_payment_api")["loop"]["condition"]
    assert holds(spec, output, calculate_total={"final_amount": 50}) is expected
