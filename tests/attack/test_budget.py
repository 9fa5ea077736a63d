"""A budget for the sum: no request and no run holds the loop that all tenants share (S03 to S06)."""

import os

import pytest

from perdure.expressions.errors import TemplateError
from perdure.expressions.json_schema import SchemaInvalid, check
from perdure.expressions.run_inputs import MOST_UNKNOWN, find_unknown
from perdure.expressions.templates import render
from perdure.expressions.verdicts import evaluate
from perdure.model import compile_definition
from tests.api.helpers import bearer, serving
from tests.attack import __main__ as attacks
from tests.attack.marks import attack
from tests.attack.watchdog import LONGEST_SECONDS, taking_at_most, watching
from tests.expressions.helpers import RUN, ask, namespace
from tests.fuzz.running import fuzz
from tests.fuzz.targets import TARGETS


def transform(value):
    return {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": value}}]}


def misnamed(count, length):
    """Ids that are all alike, and edges that name none of them."""
    ids = [f"{number:03}" + "x" * length for number in range(count)]
    nodes = [{"id": f"n{one}", "type": "transform", "config": {"value": 1}, "dependencies": [f"m{one}"]} for one in ids]
    return {"name": "w", "nodes": nodes}


def mistaken():
    """The same so small that it is compiled on the loop, with names as long as any that are compared."""
    ids = ["a" * 55 + f"{number:02}" for number in range(30)]
    edges = [{"from": f"{one}x", "to": f"{one}y"} for one in ids[:10]]
    return {"name": "w", "nodes": [{"id": one, "type": "wait"} for one in ids], "edges": edges}


def misread():
    """Fields of the inputs that are not there, of names that are much alike."""
    ids = ["a" * 55 + f"{number:02}" for number in range(28)]
    schema = {"type": "object", "additionalProperties": False, "properties": {one: {} for one in ids}}
    return {**transform([f"{{{{inputs.{one[1:]}x}}}}" for one in ids[:18]]), "inputs": schema}


DEFINITIONS = {
    "letters": transform("{{ inputs }} - " + "a" * 100_000),
    "hyphens": transform("{{ a" + "-a" * 9_000 + " }}"),
    "hyphens behind a text": transform("{{ inputs }}" + "-a" * 100_000),
    "suggestions": misnamed(100, 110),
    "short suggestions": misnamed(2_000, 20),
    "suggestions on the loop": mistaken(),
    "fields on the loop": misread(),
    "marks": transform("{{ a }}" * 20_000 + "{%"),
    "expressions": transform([f"{{{{ inputs.n + {number} }}}}" for number in range(5_000)]),
}


@pytest.mark.slow
@attack("S03", "a viewer freezes the server with a definition to validate")
@pytest.mark.parametrize("name", DEFINITIONS)
async def test_a_definition_holds_up_nobody(tmp_path, name):
    async with serving(tmp_path, tokens=True) as server:
        await server.post("/workflows/validate", transform(1), headers=bearer("eve", "viewer"))
        with watching():
            response = await server.post(
                "/workflows/validate", DEFINITIONS[name], headers=bearer("eve", "viewer"), timeout=60
            )
        assert response.status_code in (200, 413, 422), response.text[:300]


@pytest.mark.slow
@attack("S03", "a definition takes time out of proportion to its size")
@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_takes_time_in_proportion(name):
    with taking_at_most(3):
        compile_definition(DEFINITIONS[name])


@attack("S03", "an operator gives thousands of inputs that are not named, each of which is looked for")
def test_inputs_that_are_not_named_are_told_of_up_to_a_number():
    names = ["a" * 50 + f"{number:02}" for number in range(100)]
    given = {f"{name}x{number:03}": 1 for number in range(30) for name in names}
    with taking_at_most(LONGEST_SECONDS):
        told = find_unknown({"properties": dict.fromkeys(names, True)}, given)
    assert len(told) == MOST_UNKNOWN
    assert "did you mean 'aaa" in told[0]


REFERENCE = {"$ref": "#/$defs/n"}
TREES = {
    "allOf": {"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [{"properties": {"a": REFERENCE}}] * 2}}},
    "anyOf": {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"properties": {"a": REFERENCE}, "required": ["z"]}] * 2}}},
    "if": {"$ref": "#/$defs/n", "$defs": {"n": {"if": {"properties": {"a": REFERENCE}}, "then": {"properties": {"a": REFERENCE}}}}},
    "patterns": {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
    "two": {"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"properties": {"a": {"$ref": "#/$defs/y"}}}] * 2}, "y": {"properties": {"a": {"$ref": "#/$defs/x"}}}}},
}  # fmt: skip


def nested(depth):
    value: dict = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@attack("S04", "a schema that leads back to itself doubles with each level of a value")
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("depth", [5, 24, 60])
def test_a_schema_that_leads_back_to_itself_does_not_double(name, depth):
    with taking_at_most():
        if depth == 5:
            check(TREES[name], nested(depth))
        else:
            with pytest.raises(SchemaInvalid, match="back to itself"):
                check(TREES[name], nested(depth))


def test_a_schema_of_trees_checks_trees_as_deep_as_people_write_them():
    tree = {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "anyOf": [
                    {"type": "number"},
                    {
                        "type": "object",
                        "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}},
                    },
                ]
            }
        },
    }

    def grow(depth):
        return 1 if not depth else {"left": grow(depth - 1), "right": grow(depth - 1)}

    assert check(tree, grow(10)) == []
    assert check(tree, {"left": {"right": "x"}}) != []
    assert check({"type": "array", "items": {"multipleOf": 0.01}}, [1.5, 2.25] * 500) == []


@attack("S04", "numbers that are divided with all their digits")
def test_a_division_by_next_to_nothing_is_counted():
    with taking_at_most(), pytest.raises(SchemaInvalid, match="too long"):
        check({"items": {"multipleOf": 1e-300}}, [1.5e300] * 100_000)


PAIRS = "|list|join" * 15
RENDERED = {
    "filters on one long text": "{{ inputs.s" + PAIRS + "|length }}",
    "many of them": ["{{ inputs.s|list|length }}"] * 1_000,
    "many long texts": ["{{ inputs.s ~ '' }}"] * 700,
    "many values put in whole": ["{{ inputs.s }}"] * 60_000,
    "many objects put in whole": ["{{ inputs.rows }}"] * 60_000,
    "many different expressions": [f"{{{{ inputs.n + {number} }}}}" for number in range(60_000)],
    "sorting": ["{{ inputs.rows|map(attribute='i')|sort|length }}"] * 1_000,
    "replacing": "{{ inputs.s" + "|replace('a', 'aa')" * 20 + " }}",
    "upper and lower": ["{{ inputs.s" + "|upper|lower" * 10 + "|length }}"] * 50,
    "trimming": ["{{ inputs.s" + "|trim(inputs.t)" * 15 + "|length }}"] * 50,
    "lists in lists": ["{{ [[inputs.rows]]|tojson|length }}"] * 100,
    "is in": ["{{ inputs.s in inputs.texts }}"] * 1_000,
    "equal": ["{{ inputs.rows == inputs.rows }}"] * 1_000,
    "slices": ["{{ inputs.s[::-1]|length }}"] * 20_000,
    "adding lists": ["{{ (inputs.rows" + " + inputs.rows" * 30 + ")|length }}"] * 50,
    "text around it": "{{ inputs.s }} and " * 3_000,
}
INPUTS = {
    "s": "a" * 900_000,
    "t": "b" * 5_000 + "a",
    "n": 1,
    "rows": [{"i": number, "s": "x" * 20} for number in range(5_000)],
    "texts": ["a" * 899_999 + "b"] * 5,
}


@attack("S05", "templates that cost little each, and everything together")
@pytest.mark.parametrize("name", RENDERED)
def test_what_a_config_may_cost_is_counted_over_all_its_templates(name):
    with taking_at_most(), pytest.raises(TemplateError, match=r"too much data|longer than"):
        render(RENDERED[name], namespace(inputs=INPUTS))


def test_an_honest_config_is_rendered():
    config = {
        "rows": "{{ inputs.rows }}",
        "names": "{{ inputs.rows | map(attribute='s') | join(', ') }}",
        "sum": "{{ inputs.rows | sum(attribute='i') }}",
        "fields": [f"{{{{ inputs.n + {number} }}}}" for number in range(200)],
        "text": "{{ inputs.s }}" + "{{ inputs.n }}" * 200,
    }
    rendered = render(config, namespace(inputs=INPUTS))
    assert rendered["sum"] == sum(range(5_000))
    assert rendered["rows"] is INPUTS["rows"]


@attack("S05", "a run of many such nodes, one after the other")
@pytest.mark.slow
async def test_a_run_of_dear_nodes_lets_others_have_their_turn(tmp_path):
    heavy = "{{ inputs.rows|map(attribute='i')|sort|length }}"
    nodes = [{"id": f"n{number}", "type": "transform", "config": {"value": heavy}} for number in range(200)]
    inputs = {"rows": [{"i": number} for number in range(8_000)]}
    async with serving(tmp_path) as server:
        await server.start(transform("{{ inputs.rows|length }}"), inputs)
        with watching():
            run = await server.start({"name": "many", "nodes": nodes}, inputs)
        assert run["state"] == "completed"


@attack("S06", "a search for one long text in another")
@pytest.mark.parametrize(
    "expression",
    [
        "output.s.contains(output.t)",
        "output.s.contains(output.t + 'x')",
        "output.list.all(x, !output.s.contains(x))",
        "output.list.exists(x, x.contains(output.t))",
        "!(output.s + output.s).contains(output.t)",
    ],
)
def test_a_search_of_texts_is_estimated_before_it_begins(expression):
    output = {"s": "a" * 1_200_000, "t": "a" * 600_000 + "b", "list": ["a" * 300_000 + "b"] * 50}
    with taking_at_most():
        verdict = evaluate(ask(expression, output), RUN)
        assert verdict.error is not None
        assert "too long" in verdict.error.message


@pytest.mark.parametrize("expression", ["output.s.contains('needle')", "output.t.contains(output.w)"])
def test_an_honest_search_is_made(expression):
    output = {"s": "hay " * 300_000 + "needle", "t": "word " * 4_000, "w": "word word"}
    assert evaluate(ask(expression, output), RUN).value is True


@pytest.mark.slow
@attack("S06", "conditions of one decision, each within its limit")
async def test_many_conditions_share_a_budget(tmp_path):
    rule = {"condition": "output.rows.all(r, r.s.contains('b') || r.i >= 0) && false", "next_nodes": ["b"]}
    definition = {
        "name": "w",
        "nodes": [
            {"id": "a", "type": "transform", "config": {"value": "{{ inputs }}"}, "branch": {"rules": [rule] * 100, "default": ["b"]}},
            {"id": "b", "type": "transform", "config": {"value": 1}, "dependencies": ["a"]},
        ],
    }  # fmt: skip
    inputs = {"rows": [{"i": number, "s": "a" * 20} for number in range(3_000)]}
    async with serving(tmp_path) as server:
        await server.start(transform(1))
        with watching():
            run = await server.start(definition, inputs)
    assert run["state"] == "failed"
    assert "too much data" in run["error"]["message"]


GENERATED = "ATTACK_CASES"
"""How many cases of each kind: few with `make test`, more than 10,000 in all with `make attack`."""
KINDS = [name for name in TARGETS if name not in ("code", "pipelines")]


def generated():
    return int(os.environ.get(GENERATED, "200"))


def test_make_attack_tries_ten_thousand_generated_cases():
    assert attacks.CASES * len(KINDS) >= 10_000
    assert attacks.GENERATED == GENERATED


@attack("S03", "generated inputs of every kind")
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_generated_inputs_stay_within_the_budget(name):
    report = fuzz(name, TARGETS[name], generated(), seed=13, limit=LONGEST_SECONDS)
    assert report.broken == []
