import time

import pytest

from perdure.expressions.json_schema import SchemaInvalid, check, fits
from tests.attack.watchdog import taking_at_most

ORDER = {
    "type": "object",
    "required": ["item", "quantity"],
    "properties": {"item": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
}


def test_a_value_that_fits_has_no_problems():
    assert check(ORDER, {"item": "lamp", "quantity": 3}) == []


def test_every_problem_is_named_with_its_place():
    problems = check(ORDER, {"item": 7, "quantity": 0})
    assert len(problems) == 2
    assert any(problem.startswith("item: ") for problem in problems)
    assert any(problem.startswith("quantity: ") for problem in problems)


def test_a_missing_key_is_named():
    assert any("quantity" in problem for problem in check(ORDER, {"item": "lamp"}))


def test_a_schema_that_is_none_is_refused():
    with pytest.raises(SchemaInvalid):
        check({"type": "nonsense"}, 1)


@pytest.mark.parametrize("ref", ["http://127.0.0.1:9/s.json", "file:///etc/passwd", "https://example.org/x"])
def test_nothing_outside_the_schema_is_fetched(ref):
    with pytest.raises(SchemaInvalid):
        check({"$ref": ref}, 1)


def test_references_inside_the_schema_work():
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert check(schema, {"a": 1}) == []
    assert check(schema, {"a": "x"}) != []


def test_an_evil_pattern_costs_nothing():
    problems = check({"type": "string", "pattern": "(a+)+$"}, "a" * 30 + "!")
    assert len(problems) <= 1


def test_the_list_of_problems_is_bounded():
    schema = {"type": "array", "items": {"type": "integer"}}
    assert len(check(schema, ["x"] * 1000)) == 21


def chain(count):
    """Definitions that each use the next one twice."""
    definitions: dict = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(count)}
    return {"$defs": definitions | {f"d{count}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


def nested(count):
    value: dict = {}
    for _ in range(count):
        value = {"c": value}
    return value


DOUBLING = {"properties": {"c": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
BOMBS = [
    (chain(40), 1, True),
    (chain(10), 1, False),
    ({"items": {"allOf": [{"type": "integer"}] * 5000}}, [1] * 10_000, True),
    ({"items": {"enum": [[i] * 50 for i in range(2000)]}}, [[1999] * 50] * 2000, True),
    ({"items": {"oneOf": [{"properties": {"a": {"const": i}}} for i in range(2000)]}}, [{"a": 5}] * 2000, True),
    ({"pattern": "(.{1,100}){1,10}x"}, "a" * 20_000, True),
    ({"patternProperties": {"(.{1,100}){1,10}x": True}}, {"a" * 20_000: 1}, True),
    ({"$ref": "#"}, 1, False),
    ({"allOf": [{"$ref": "#"}]}, 1, False),
    (DOUBLING, nested(90), True),
    (DOUBLING, nested(9), False),
    ({"items": {"contains": {"contains": {"const": 5}}}}, [[[1] * 30] * 30] * 30, False),
    ({"uniqueItems": True}, [[i] for i in range(20_000)], False),
    ({"multipleOf": 1e-300}, 1e300, False),
    ({"format": "regex"}, "(" * 10_000, False),
    ({"required": ["a"]}, {"a": [1] * 100_000}, False),
]


@pytest.mark.parametrize(("schema", "value", "refused"), BOMBS)
def test_no_schema_takes_long(schema, value, refused):
    begin = time.thread_time()
    try:
        fits(schema, value)
        was_refused = False
    except SchemaInvalid:
        was_refused = True
    assert time.thread_time() - begin < 0.6  # 0.1 and a busy machine, with a collection of garbage in between
    assert was_refused is refused


def test_a_schema_of_a_table_may_be_used_on_a_large_one():
    row = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "tags": {"items": {"type": "string"}}},
    }
    table = [{"id": i, "name": "x", "tags": ["a", "b"]} for i in range(50_000)]
    assert fits({"type": "array", "items": row}, table) is True


def test_a_deep_schema_is_refused():
    schema: dict = {"type": "integer"}
    for _ in range(3000):
        schema = {"not": schema}
    with pytest.raises(SchemaInvalid):
        fits(schema, 1)


ALTERNATIVES = [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"items": {"type": "string"}}, [0] * 10, 10),
        ({"items": {"type": "string"}}, [0] * 100_000, 1),
        ({"items": {"type": "string"}}, ["x"] * 100_000, 0),
        ({"anyOf": ALTERNATIVES}, [True] * 50_000, 1),
        ({"oneOf": ALTERNATIVES}, [1] * 50_000, 0),
        ({"items": {"anyOf": [{"const": i} for i in range(1000)]}}, [-1] * 1000, 1),
    ],
)
def test_of_a_large_value_only_the_first_problem_is_looked_for(schema, value, problems):
    with taking_at_most(0.3):  # 0.1 and a busy machine
        assert len(check(schema, value)) == problems
