"""Conditions through the real engine: the payment that is tried again, as the reference documents have it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import events, finish, running, start, state_of, task, transform, workflow

REFERENCE = Path(__file__).parent.parent / "model" / "reference" / "node_call_payment_api.json"
AFTER = (
    "confirm_payment",
    "refund_customer",
    "send_premium_confirmation",
    "update_crm",
    "send_standard_confirmation",
    "manual_review",
)


def payment():
    """The node of the documents as it is written, calling a function instead of a stored config."""
    node = json.loads(REFERENCE.read_text())
    del node["config_ref"]
    call = task("call_payment_api", "pay", ["calculate_total"], args={"answers": "{{ inputs.answers }}"})
    return workflow(
        transform("calculate_total", {"final_amount": "{{ inputs.amount }}"}),
        {**node, "config": call["config"], "dependencies": ["calculate_total"]},
        *(transform(name, {"done": True}) for name in AFTER),
        name="payment",
    )


def failed(code, amount):
    return {"status": "failed", "error_code": code, "amount": amount}


def paid(amount):
    return {"status": "success", "amount": amount}


@pytest.mark.parametrize(
    ("amount", "answers", "calls", "ran", "rule"),
    [
        pytest.param(
            1200,
            [failed("TIMEOUT", 1200), failed("RATE_LIMIT", 1200.0), paid(1200)],
            3,
            {"confirm_payment", "send_premium_confirmation", "update_crm"},
            "loop.break+branch[0]",
            id="a large payment that succeeds at last",
        ),
        pytest.param(
            50,
            [paid(50)],
            1,
            {"confirm_payment", "send_standard_confirmation"},
            "loop.break+branch[1]",
            id="a small payment that succeeds at once",
        ),
        pytest.param(
            50,
            [failed("TEMP_ERROR", 50)] * 9,
            5,
            {"refund_customer"},
            "loop.timeout",
            id="a payment that never succeeds",
        ),
        pytest.param(
            50,
            [failed("TIMEOUT", 50), failed("CARD_DECLINED", 50)],
            2,
            {"confirm_payment", "manual_review"},
            "loop.break+branch.default",
            id="an error that does not pass",
        ),
        pytest.param(
            50,
            [failed("TIMEOUT", 49)],
            1,
            {"confirm_payment", "manual_review"},
            "loop.break+branch.default",
            id="another amount than was calculated",
        ),
    ],
)
async def test_the_payment_of_the_documents_ends_as_they_say(tmp_path, amount, answers, calls, ran, rule):
    async with running(tmp_path) as engine:
        state = await finish(engine, payment(), inputs={"amount": amount, "answers": answers})
        assert state.state is RunState.COMPLETED
        assert len(tasks.seen) == calls
        assert {name for name in AFTER if state_of(state, name) == "completed"} == ran
        routes = [
            e.route for e in await events(engine.journal) if e.type == "node.completed" and e.node == "call_payment_api"
        ]
        assert [route.rule for route in routes] == ["loop.back"] * (calls - 1) + [rule]
        if calls > 1:  # every evaluation is in the event that used it
            seen = routes[0].seen
            assert [part["value"] for part in seen["conditions"]] == [True, True, True]
            assert seen["conditions"][1]["seen"] == {"$.error_code": answers[0]["error_code"]}
            assert seen["conditions"][2]["seen"]["output.amount"] == answers[0]["amount"]


async def test_a_payment_without_an_error_code_fails_the_routing_and_not_the_work(tmp_path):
    async with running(tmp_path) as engine:
        answers = [{"status": "failed", "amount": 50}]
        state = await finish(engine, payment(), inputs={"amount": 50, "answers": answers})
        assert state.state is RunState.FAILED
        assert len(tasks.seen) == 1
        assert "$.error_code" in state.error.message


@pytest.mark.parametrize(
    "condition",
    [
        "size(output.rows) == 2000",
        {"type": "jsonpath", "query": "$.rows[?@.n == 1999].length()", "operator": "==", "value": 1},
        {"type": "schema_validation", "schema": {"properties": {"rows": {"minItems": 2000}}}},
        {
            "type": "cross_node_comparison",
            "left": {"source": "current", "path": "output.rows[1999].n"},
            "operator": "==",
            "right": {"source": "context", "node": "first", "path": "output.rows[1999].n"},
        },
        {"type": "cross_node_comparison", "expression": "current.rows[1999].n == ctx.first.rows[1999].n"},
        {
            "type": "python_sandbox",
            "code": "def evaluate(output, context):\n    return len(output['rows']) == len(context['first']['output']['rows'])",
        },
    ],
    ids=["cel", "jsonpath", "schema", "cross-node", "cross-node expression", "python"],
)
async def test_every_kind_reads_outputs_that_are_stored_as_blobs(tmp_path, condition):
    rows = [{"n": number, "text": "x" * 50} for number in range(2000)]
    definition = workflow(
        transform("first", {"rows": "{{ inputs.rows }}"}),
        transform(
            "a",
            {"rows": "{{ first.rows }}"},
            ["first"],
            branch={"rules": [{"condition": condition, "next_nodes": ["yes"]}], "default": ["no"]},
        ),
        transform("yes", 1),
        transform("no", 0),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"rows": rows})
        assert state.error is None
        assert state_of(state, "yes") == "completed"


# -- Python ------------------------------------------------------------------------------------------------------------


def python(body, **limits):
    return {"type": "python_sandbox", "code": f"def evaluate(output, context):\n    return {body}", **limits}


def routed(condition, **more):
    """`a`, and then `yes` or `no`."""
    rules = [{"condition": condition, "next_nodes": ["yes"]}]
    return workflow(
        transform("first", {"n": "{{ inputs.n }}"}),
        transform("a", {"n": "{{ first.n }}"}, ["first"], branch={"rules": rules, "default": ["no"]}, **more),
        transform("yes", 1),
        transform("no", 0),
    )


async def test_python_conditions_route_skip_and_loop_in_the_real_engine(tmp_path):
    growth = python("output['n'] > context['first']['output']['n'] - 1 and output['n'] > 5")
    loop = {"condition": python("not output['done']"), "max_iterations": 9}
    definition = routed(growth)
    definition["nodes"] += [
        task("again", "count", ["yes"], args={"upto": 3}, loop=loop),
        transform("big", 1, ["yes"], when=python("context['a']['output']['n'] > 100")),
    ]
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, "r1", {"n": 7})
        assert (state_of(state, "yes"), state_of(state, "no")) == ("completed", "skipped")
        assert state_of(state, "big") == "skipped"
        assert len(tasks.seen) == 3
        state = await finish(engine, definition, "r2", {"n": 3})
        assert (state_of(state, "yes"), state_of(state, "no")) == ("skipped", "completed")
        routes = [e.route for e in await events(engine.journal) if e.type == "node.completed" and e.node == "a"]
        assert routes[0].seen == {"evaluate(output, context)": True}


async def test_several_python_conditions_in_one_are_run_one_after_the_other(tmp_path):
    parts = [python("output['n'] > 5"), "output.n < 100", python("output['n'] % 2 == 1"), python("'first' in context")]
    async with running(tmp_path) as engine:
        composite = {"type": "composite", "operator": "AND", "conditions": parts}
        state = await finish(engine, routed(composite), inputs={"n": 7})
        assert state_of(state, "yes") == "completed"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sum(range(10**12)) == 1", "longer than its 100 ms"),
        ("'x' * 10**10 == 1", "more than its 50 MB"),
        ("output['nope']", "the code raised KeyError (line 2)"),
        ("open('/etc/passwd').read() != ''", "the code raised PermissionError"),
    ],
)
async def test_a_python_condition_that_goes_wrong_fails_its_routing_and_no_other_run(tmp_path, body, why):
    async with running(tmp_path) as engine:
        failing = finish(engine, routed(python(body, timeout_ms=100)), "bad", {"n": 7})
        fine = [finish(engine, routed("output.n > 5"), f"good-{i}", {"n": 7}) for i in range(5)]
        bad, *good = await asyncio.gather(failing, *fine)
        assert bad.state is RunState.FAILED
        assert bad.error.code == "routing_failed"
        assert why in bad.error.message
        assert {state.state for state in good} == {RunState.COMPLETED}


@pytest.mark.slow
async def test_while_a_python_condition_runs_the_coordinator_decides_for_others(tmp_path):
    slow = python("sum(range(10**12)) == 1", timeout_ms=60_000)
    async with running(tmp_path) as engine:
        await start(engine, routed(slow), "slow", {"n": 7})
        state = await finish(engine, routed("output.n > 5"), "quick", {"n": 7})
        assert state.state is RunState.COMPLETED
        assert (await engine.runs.state("slow")).state is RunState.RUNNING
