"""One notion of what work may cost: steps, characters, bytes and time, over all pieces of a request or of a node."""

import ast
import re
from pathlib import Path

import pytest

import perdure
from perdure import budget as budgets
from perdure.budget import Budget, OverBudget
from perdure.expressions.json_schema import SchemaInvalid, check
from perdure.model import compile_definition, compile_text
from perdure.service.runs.patches import PatchInvalid, apply_patch
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack

SOURCES = Path(perdure.__file__).parent


class Clock:
    """A clock that goes on by itself at every look."""

    def __init__(self, pace):
        self.time = 0.0
        self.pace = pace

    def __call__(self):
        self.time += self.pace
        return self.time


def nodes(count, value="{{ inputs.a }}"):
    return [{"id": f"n{number}", "type": "transform", "config": {"value": value}} for number in range(count)]


def test_steps_characters_and_stored_values_are_counted_apart():
    budget = Budget(10, 2_000, size=100, references=2)
    budget.spend(5)
    budget.make(1_024)
    assert (budget.steps, budget.characters) == (3, 976)
    assert (budget.load(60), budget.load(60), budget.load(40), budget.load(0)) == (True, False, True, False)
    with pytest.raises(OverBudget, match="longer than 2,000"):
        budget.make(977)
    with pytest.raises(OverBudget, match="too much data"):
        budget.spend(4)


def test_the_time_runs_from_the_first_step_and_is_looked_at_while_steps_are_spent():
    clock = Clock(0.0)
    clock.time = 1_000.0
    budget = Budget(10**9, seconds=5, now=clock)
    budget.spend(1)
    clock.time += 4.9
    budget.spend(1_000_000)
    clock.time += 0.2
    budget.spend(1)  # not looked at yet
    with pytest.raises(OverBudget, match="longer than 5 s"):
        budget.spend(1_000_000)


def test_two_halves_have_no_more_than_the_whole():
    budget = Budget(size=101, references=11, partial=True)
    one, two = budget.halve()
    assert (one.bytes, two.bytes, budget.bytes) == (50, 50, 1)
    assert one.references + two.references + budget.references == 11
    assert one.partial


@pytest.mark.slow
@pytest.mark.parametrize("as_text", [True, False])
def test_compiling_has_steps_and_a_time(as_text):
    import json

    definition = {"name": "w", "nodes": nodes(2_000)}

    def compiled(budget):
        if as_text:
            return compile_text(json.dumps(definition), format="json", budget=budget)
        return compile_definition(definition, budget=budget)

    for budget in (Budget(100_000), Budget(10**9, seconds=1, now=Clock(0.6))):
        refused = compiled(budget)
        assert refused.ir is None
        assert [problem.code for problem in refused.problems] == ["too_costly"]
    assert compiled(Budget(10**9, seconds=60, now=Clock(0.01))).ir is not None
    assert compiled(None).ir is not None


@pytest.mark.parametrize(
    "node",
    [
        {"config": {"value": "{{ inputs.a }}" * 2_000}},
        {"config": {"value": 1}, "when": {"type": "all", "conditions": [{"type": "cel", "expression": "true"}] * 200}},
    ],
    ids=["templates", "nodes alone"],
)
def test_each_stage_spends(node):
    spent = Budget(10**9)
    compile_definition({"name": "w", "nodes": [{"id": "a", "type": "transform", **node}]}, budget=spent)
    assert 10**9 - spent.steps >= 200


def test_schemas_and_patches_spend_from_what_they_are_given():
    schema = {"items": {"enum": list(range(100))}}
    value = [1] * 20_000
    budget = Budget()
    assert check(schema, value, budget) == []
    assert budget.steps < budgets.MAX_STEPS * 2 // 3
    check(schema, value, budget)
    with pytest.raises(SchemaInvalid, match="too long"):
        check(schema, value, budget)
    budget = Budget(characters=3_000)
    definition = {"nodes": ["x" * 1_000]}
    copy = {"op": "copy", "from": "/nodes/0", "path": "/nodes/-"}
    apply_patch(definition, [copy] * 2, budget)
    with pytest.raises(PatchInvalid, match="may copy"):
        apply_patch(definition, [copy], budget)


MONEY = re.compile(r"^(model/money|purses|.*(budgets|budget_(views|schemas)))\.py: ")
"""The files about what calls cost."""


@pytest.mark.slow
def test_nobody_counts_by_another_notion():
    """A second counter would be a second budget: the sum of both is bounded by neither."""
    found = [
        f"{path.relative_to(SOURCES)}: {node.name}"
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and (node.name.strip("_") in {"Room", "Steps"} or "Budget" in node.name)
    ]
    # Money is another thing: what calls may cost, which runs are given (rule 82) and tenants have in a month (rule 85).
    steps = [one for one in found if not MONEY.search(one)]
    kept = "runtime/coordinator/tasks/room.py: Room"  # what a run keeps for all its life, and not what is done for a request
    assert sorted(steps) == ["budget.py: Budget", "budget.py: OverBudget", kept]


@attack("S03", "a definition that takes a request longer than it may take")
@pytest.mark.slow
async def test_all_that_is_done_for_a_request_spends_from_one_budget(tmp_path, monkeypatch):
    made = []
    real = Budget.of_request

    def of_request(now):
        made.append(real(now))
        return made[-1]

    async with serving(tmp_path, tokens=True) as server:
        ann = bearer("ann")
        await server.ok("/workflows", {"name": "w", "nodes": nodes(50)}, method="POST", headers=ann)
        monkeypatch.setattr(Budget, "of_request", of_request)
        body = {"patch": [{"op": "copy", "from": "/nodes/0/config", "path": "/nodes/1/config"}], "dry_run": True}
        await server.ok("/workflows/w/patch", body, headers=ann)
        (one,) = made  # for the patch, the compiler and the answer together
        assert one.characters < budgets.REQUEST_CHARACTERS
        assert one.steps < budgets.REQUEST_STEPS - 50 * 200
        monkeypatch.setattr(budgets, "REQUEST_STEPS", 1_000)
        answer = await server.ok("/workflows/validate", {"name": "w", "nodes": nodes(50)}, headers=ann)
        assert [problem["code"] for problem in answer["problems"]] == ["too_costly"]
