import pytest

from weft.routing.schemas import SchemaInvalid, check

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
