"""Python conditions: nothing runs where it is evaluated; what must be run is asked for."""

import asyncio

import pytest

from perdure.expressions.at_hand import Lost
from perdure.expressions.checks import check_parts
from perdure.expressions.errors import NeedsBlob, NeedsVerdict
from perdure.expressions.python_code import MAX_CODE, Job, check
from perdure.expressions.verdicts import evaluate
from perdure.kernel.causal_past import Seen
from perdure.sandbox import Sandbox
from tests.expressions.helpers import RUN, ask_about
from tests.kernel.driver import compiled

GROWTH = """
def evaluate(output, context):
    revenue = output.get('revenue', 0)
    previous_revenue = context.get('last_month', {}).get('output', {}).get('revenue', 0)
    growth_rate = (revenue - previous_revenue) / previous_revenue if previous_revenue > 0 else 0
    if growth_rate > 0.2 and output.get('churn_rate', 1) < 0.05:
        return True
    return False
"""
BIG = "def evaluate(output, context):\n    return output['n'] > 10"
SMALL = "def evaluate(output, context):\n    return output['n'] < 100"


@pytest.fixture
async def sandbox():
    sandbox = Sandbox()
    yield sandbox
    await sandbox.close()


def python(code, **keys):
    return {"type": "python_sandbox", "code": code, **keys}


async def decide(question, sandbox, at_hand=None):
    """As the coordinator does: evaluate, run what it lacks, evaluate again. The verdict, and how often it ran."""
    at_hand = {} if at_hand is None else at_hand
    runs = 0
    while True:
        try:
            return evaluate(question, RUN, at_hand), runs
        except NeedsVerdict as lacking:
            runs += 1
            at_hand[lacking.key] = await sandbox.run(lacking.job)


async def test_a_condition_asks_for_its_code_to_be_run_and_then_knows(sandbox):
    nodes = {"last_month": Seen("completed", {"revenue": 100})}
    verdict, runs = await decide(ask_about(python(GROWTH), {"revenue": 130, "churn_rate": 0.01}, nodes=nodes), sandbox)
    assert (verdict.value, runs) == (True, 1)
    assert verdict.seen == {"evaluate(output, context)": True}
    verdict, _ = await decide(ask_about(python(GROWTH), {"revenue": 110, "churn_rate": 0.01}, nodes=nodes), sandbox)
    assert verdict.value is False


async def test_evaluating_runs_nothing():
    question = ask_about(python("def evaluate(output, context):\n    while True: pass"))
    with pytest.raises(NeedsVerdict) as caught:
        evaluate(question, RUN)
    assert isinstance(caught.value.job, Job)
    assert caught.value.key == caught.value.job.key


def test_the_key_names_code_arguments_and_limits_and_nothing_else():
    def key(code=BIG, output=None, nodes=None, **keys):
        with pytest.raises(NeedsVerdict) as caught:
            evaluate(ask_about(python(code, **keys), output, nodes=nodes), RUN)
        return caught.value.key

    assert key() == key()
    others = [
        key(SMALL),
        key(output={"n": 1}),
        key(nodes={"a": Seen("completed", 1)}),
        key(timeout_ms=500),
        key(max_memory_mb=20),
    ]
    assert len({key(), *others}) == 6


async def test_several_in_one_composite_are_run_one_after_the_other(sandbox):
    both = {"type": "composite", "operator": "AND", "conditions": [python(BIG), python(SMALL), "output.n == 50"]}
    verdict, runs = await decide(ask_about(both, {"n": 50}), sandbox)
    assert (verdict.value, runs) == (True, 2)
    verdict, runs = await decide(ask_about(both, {"n": 5}), sandbox)
    assert (verdict.value, runs) == (False, 1)  # the first one decides


async def test_code_in_a_blob_is_fetched_then_run(sandbox):
    spec = {"type": "python_sandbox", "code_ref": "cas://sha256:" + "1" * 64}
    question = ask_about(spec, {"n": 50})
    with pytest.raises(NeedsBlob) as caught:
        evaluate(question, RUN)
    verdict, runs = await decide(question, sandbox, {caught.value.key: BIG})
    assert (verdict.value, runs) == (True, 1)
    for content, why in ((7, "not text"), ("x = 1", "no function evaluate")):
        broken = evaluate(question, RUN, {caught.value.key: content})
        assert broken.value is None
        assert why in str(broken.error)


async def test_it_sees_every_node_that_ended_and_none_that_was_skipped(sandbox):
    code = "def evaluate(output, context):\n    return sorted(context) == ['a', 'f'] and context['a']['output'] == 1"
    nodes = {"a": Seen("completed", 1), "f": Seen("failed", {"error": {}}), "s": Seen("skipped")}
    assert (await decide(ask_about(python(code), nodes=nodes), sandbox))[0].value is True


def test_when_it_is_decided_again_the_question_is_the_same():
    """A node that ends in this decision ends at another time in the next try."""
    keys = set()
    for now in (1.0, 2.0):
        nodes = {"a": Seen("completed", 1, started_at=now, ended_at=now)}
        with pytest.raises(NeedsVerdict) as caught:
            evaluate(ask_about(python(BIG), {"n": 1}, nodes=nodes), RUN)
        keys.add(caught.value.key)
    assert len(keys) == 1


async def test_before_a_node_runs_there_is_no_output(sandbox):
    code = "def evaluate(output, context):\n    return output is None"
    assert (await decide(ask_about(python(code), kind="when"), sandbox))[0].value is True


@pytest.mark.parametrize(
    ("code", "error", "why"),
    [
        ("def evaluate(output, context):\n    return 1", "condition_error", "gave int, not True or False"),
        ("def evaluate(output, context):\n    return output['x']", "condition_error", "raised KeyError (line 2)"),
        ("def evaluate(output, context):\n    return nope", "condition_error", "name 'nope' is not defined"),
        ("def evaluate(output, context):\n    while True: pass", "condition_timeout", "longer than its 200 ms"),
        ("def evaluate(output, context):\n    return [0] * 10**9", "condition_memory", "more than its 50 MB"),
    ],
)
async def test_what_goes_wrong_inside_is_an_error_and_never_false(sandbox, code, error, why):
    verdict, _ = await decide(ask_about(python(code, timeout_ms=200), {}), sandbox)
    assert verdict.value is None
    assert verdict.error is not None
    assert verdict.error.code == error
    assert why in verdict.error.message


async def test_messages_do_not_quote_the_data(sandbox):
    code = "def evaluate(output, context):\n    raise ValueError(output['secret'])"
    verdict, _ = await decide(ask_about(python(code), {"secret": "t0ps3cret"}), sandbox)
    assert "t0ps3cret" not in repr(verdict)
    assert "ValueError" in repr(verdict)


def test_a_lost_verdict_is_an_error():
    question = ask_about(python(BIG), {"n": 1})
    with pytest.raises(NeedsVerdict) as caught:
        evaluate(question, RUN)
    verdict = evaluate(question, RUN, {caught.value.key: Lost("condition_crashed", "it died")})
    assert (verdict.value, verdict.error and verdict.error.code) == (None, "condition_crashed")


def test_more_data_than_a_sandbox_is_given_is_an_error():
    verdict = evaluate(ask_about(python(BIG), {"n": "x" * 9_000_000}), RUN)
    assert verdict.error is not None
    assert "8,388,608 are allowed" in verdict.error.message


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def evaluate(output, context)\n    pass", "not Python: expected ':' (line 1)"),
        ("x = 1", "no function evaluate"),
        ("async def evaluate(output, context): return True", "no function evaluate"),
        ("def evaluate(output): return True", "two arguments"),
        ("def evaluate(a, b, c): return True", "two arguments"),
        ("def evaluate(*, output, context): return True", "two arguments"),
        ("x = '\0'", "not Python"),
        ("(" * 1000, "not Python"),
        ("-" * 40_000 + "1", "not Python"),
        ("#" * (MAX_CODE + 1), "50,000 are allowed"),
        (7, "not text"),
    ],
)
def test_code_that_cannot_work_is_found_before_it_is_stored(code, why):
    assert why in str(check(code))


@pytest.mark.parametrize(
    "code", [GROWTH, BIG, "def evaluate(output, context=None): return True", "def evaluate(*a): return '\\d' in a"]
)
def test_code_that_may_work_is_accepted(code):
    assert check(code) is None


def test_bad_code_is_a_problem_of_the_definition_with_its_path():
    ir = compiled({"id": "a", "when": python("def f(")})
    assert [(problem.path, problem.code) for problem in check_parts(ir)] == [("nodes.a.when", "bad_condition")]


@pytest.mark.slow
async def test_while_a_condition_runs_the_loop_goes_on(sandbox):
    """A coordinator would be stuck otherwise."""
    question = ask_about(python("def evaluate(output, context):\n    while True: pass", timeout_ms=700))
    turns = 0

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    spinning = asyncio.create_task(turn())
    verdict, _ = await decide(question, sandbox)
    spinning.cancel()
    assert verdict.error is not None
    assert turns > 100


@pytest.mark.parametrize("name", ["exec", "eval", "compile", "__import__"])
def test_code_that_runs_text_is_refused_before_it_is_stored(name):
    problem = check(f"def evaluate(output, context):\n    run = {name}\n    return bool(run('1'))")
    assert problem is not None
    assert f"{name} (line 2)" in problem
    assert check(f"def evaluate(output, context):\n    return output == '{name}'") is None
