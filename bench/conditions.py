"""`python -m bench.conditions`: how long a warm condition of each kind takes, as the coordinator asks it; medians."""

from __future__ import annotations

import asyncio
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.expressions.errors import NeedsVerdict
from perdure.expressions.namespace import Run
from perdure.expressions.verdicts import evaluate
from perdure.kernel.causal_past import Evidence, Seen
from perdure.kernel.commands import Need, Question
from perdure.model.conditions import read_condition
from perdure.model.ir import Condition
from perdure.model.problems import Problems
from perdure.model.references import find_in_condition
from perdure.sandbox import Sandbox
from perdure.sandbox.jq import Jq

RUN = Run("run-1", "bench", {"city": "Oslo"})
NODES = {
    "enrich_data": Seen("completed", {"revenue": 120_000, "name": "Acme"}),
    "forecast": Seen("completed", {"predicted_revenue": 100}),
    "initial_score": Seen("completed", {"score": 80}),
    "last_month": Seen("completed", {"revenue": 100}),
}
OUTPUT = {
    "status": "success",
    "score": 85,
    "final_score": 85,
    "revenue": 120,
    "churn_rate": 0.01,
    "error_code": "TIMEOUT",
    "data": [1, 2, 3],
    "customers": [{"tier": "free"}, {"tier": "enterprise"}, {"tier": "free"}],
    "transactions": [{"amount": 6000}, {"amount": 5000}],
}
SCHEMA = {
    "type": "object",
    "required": ["status", "data"],
    "properties": {"status": {"const": "success"}, "data": {"type": "array", "minItems": 1}},
}
CODE = """
def evaluate(output, context):
    revenue = output.get('revenue', 0)
    previous = context.get('last_month', {}).get('output', {}).get('revenue', 0)
    growth = (revenue - previous) / previous if previous > 0 else 0
    return growth > 0.1 and output.get('churn_rate', 1) < 0.05
"""
CEL = "output.score >= 80 && ctx.enrich_data.output.revenue > 100000"
FILTER = "$.customers[?(@.tier == 'enterprise')].length()"
KINDS: dict[str, tuple[Any, float]] = {
    "cel": (CEL, 50e-6),
    "schema_validation": ({"type": "schema_validation", "schema": SCHEMA}, 50e-6),
    "cross_node_comparison": (
        {
            "type": "cross_node_comparison",
            "left": {"source": "current", "path": "output.final_score"},
            "operator": ">",
            "right": {"source": "context", "node": "initial_score", "path": "output.score"},
        },
        50e-6,
    ),
    "cross_node, expression": (
        {
            "type": "cross_node_comparison",
            "expression": "(current.output.revenue - ctx.forecast.output.predicted_revenue) "
            "/ ctx.forecast.output.predicted_revenue > 0.1",
        },
        50e-6,
    ),
    "jsonpath": ({"type": "jsonpath", "query": "$.error_code", "operator": "in", "value": ["TIMEOUT"]}, 200e-6),
    "jsonpath, filter": ({"type": "jsonpath", "query": FILTER, "operator": ">", "value": 0}, 200e-6),
    "jsonpath, sum": (
        {"type": "jsonpath", "query": "$.transactions[*].amount", "operator": "sum_gt", "value": 10_000},
        200e-6,
    ),
    "composite of three": (
        {
            "type": "composite",
            "operator": "AND",
            "conditions": [
                CEL,
                {"type": "jsonpath", "query": "$.error_code", "operator": "in", "value": ["TIMEOUT"]},
                {"type": "schema_validation", "schema": SCHEMA},
            ],
        },
        300e-6,
    ),
}


def make_question(spec: Any, output: Any = None) -> Question:
    canonical = read_condition(spec, (), "the condition", Problems())
    assert canonical is not None
    references = [one for _, found, _ in find_in_condition(canonical, (), NODES) for one in found]
    condition = Condition(canonical.pop("type"), canonical, tuple(references))
    return Question(Need("branch", "n"), Evidence(OUTPUT if output is None else output, nodes=NODES), condition)


def measure(call: Callable[[], Any], count: int) -> float:
    call()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


async def measure_async(call: Callable[[], Awaitable[Any]], count: int) -> float:
    await call()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        await call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


async def measure_sandbox() -> float:
    """Asked, run, asked again: all that such a condition takes."""
    question = make_question({"type": "python_sandbox", "code": CODE})
    sandbox = Sandbox()

    async def decide() -> None:
        try:
            evaluate(question, RUN)
        except NeedsVerdict as lacking:
            verdict = evaluate(question, RUN, {lacking.key: await sandbox.run(lacking.job)})
            assert verdict.value is True

    try:
        return await measure_async(decide, 500)
    finally:
        await sandbox.close()


def main() -> int:
    print(f"{platform.machine()}, Python {platform.python_version()}, medians of warm evaluations\n")
    missed = 0
    for name, (spec, limit) in KINDS.items():
        question = make_question(spec)
        assert evaluate(question, RUN).value is True, evaluate(question, RUN)
        seconds = measure(lambda question=question: evaluate(question, RUN), 5000)  # type: ignore[misc]
        missed += show(name, seconds, limit)
    missed += show("python_sandbox", asyncio.run(measure_sandbox()), 5e-3)
    jq = Jq()
    rows = [{"name": str(number), "price": number} for number in range(100)]
    show("jq over 100 rows", measure(lambda: jq.call("map(select(.price > 50)) | length", rows), 300), None)
    jq.close()
    return 1 if missed else 0


def show(name: str, seconds: float, limit: float | None) -> int:
    goal = f"   goal {limit * 1e6:6,.0f} µs" if limit is not None else ""
    late = limit is not None and seconds > limit
    print(f"  {name:26} {seconds * 1e6:8,.1f} µs{goal}{'   MISSED' if late else ''}", flush=True)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
