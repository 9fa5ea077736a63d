"""JSON Schema, cross-node and composite conditions; what each tells the journal."""

import pytest

from perdure.expressions.at_hand import Lost
from perdure.expressions.checks import check_parts
from perdure.expressions.errors import NeedsBlob
from perdure.expressions.sight import sensitive_paths
from perdure.expressions.verdicts import evaluate
from perdure.kernel.causal_past import LoopView, Seen
from perdure.kernel.values import Error
from perdure.model import compile_definition
from tests.expressions.helpers import LOOP, RUN, ask_about
from tests.kernel.driver import compiled

A = {"a": Seen("completed", {"x": 1, "n": 100, "rows": [{"p": 2}], "name": "Ann"}, started_at=1.0, ended_at=2.0)}
GONE = {"s": Seen("skipped"), "f": Seen("failed", error=Error("http:503", "gone", 3))}


def decide(spec, output=None, *, at_hand=None, sensitive=None, **context):
    return evaluate(ask_about(spec, output, **context), RUN, at_hand or {}, sensitive or {})


# -- JSON Schema -------------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "required": ["status", "data"],
    "properties": {"status": {"const": "success"}, "data": {"type": "array", "minItems": 1}},
}


def schema(**keys):
    return {"type": "schema_validation", **keys}


def test_an_output_fits_its_schema_or_does_not_and_invert_turns_it_round():
    good, bad = {"status": "success", "data": [1]}, {"status": "success", "data": []}
    assert decide(schema(schema=SCHEMA), good).value is True
    assert decide(schema(schema=SCHEMA), bad).value is False
    assert decide(schema(schema=SCHEMA, invert=True), good).value is False
    assert decide(schema(schema=SCHEMA, invert=True), bad).value is True
    assert decide(schema(schema=False), good).value is False
    assert decide(schema(schema=True), None).value is True


def test_the_journal_learns_where_it_does_not_fit_and_never_what_is_there():
    seen = decide(schema(schema=SCHEMA), {"status": "secret text", "data": []}).seen
    assert seen == {"output": "does not fit the schema: status (const), data (minItems)"}
    assert decide(schema(schema=SCHEMA), {"status": "success", "data": [1]}).seen == {"output": "fits the schema"}


def test_a_schema_in_a_blob_is_asked_for_and_used_once_it_is_at_hand():
    spec = schema(schema_ref="cas://sha256:" + "0" * 64)
    with pytest.raises(NeedsBlob) as caught:
        decide(spec, {"status": "success", "data": [1]})
    key = caught.value.key
    assert key == "cas://sha256:" + "0" * 64
    assert decide(spec, {"status": "success", "data": [1]}, at_hand={key: SCHEMA}).value is True
    assert decide(spec, {}, at_hand={key: SCHEMA}).value is False
    lost = decide(spec, {}, at_hand={key: Lost("blob_missing", "nobody has it")})
    assert (lost.value, lost.error and lost.error.code) == (None, "blob_missing")


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "nonsense"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"pattern": "(?=a)b"},
        {"pattern": "("},
    ],
)
def test_a_schema_that_is_none_is_an_error_and_never_false(bad):
    verdict = decide(schema(schema_ref="sha256:" + "0" * 64), "ab", at_hand={"cas://sha256:" + "0" * 64: bad})
    assert verdict.value is None
    assert verdict.error is not None
    assert verdict.error.code == "invalid_schema"
    ir = compiled({"id": "a", "loop": {"condition": schema(schema=bad), "max_iterations": 2}})
    assert [problem.path for problem in check_parts(ir)] == ["nodes.a.loop.condition"]


# -- cross-node --------------------------------------------------------------------------------------------------------


def cross(left, operator, right):
    return {"type": "cross_node_comparison", "left": left, "operator": operator, "right": right}


def current(path):
    return {"source": "current", "path": path}


def of(node, path):
    return {"source": "context", "node": node, "path": path}


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (current("output.n"), ">", of("a", "output.n"), True),
        (current("n"), ">", of("a", "n"), True),
        (current("output.n"), "==", {"value": 120.0}, True),
        (current("output.flag"), "==", {"value": 1}, False),
        (current("output.rows[1].p"), "<=", of("a", "output.rows[0].p"), True),
        (current("output.name"), "in", {"value": ["Ann", "Bob"]}, True),
        (current("output.name"), "not_in", of("a", "output.name"), False),
        (of("a", "output.rows"), "contains", {"value": {"p": 2.0}}, True),
        (of("a", "output.name"), "matches", {"value": "^A"}, True),
        (of("a", "metadata.duration_ms"), "==", {"value": 1000}, True),
        (of("s", "output"), "==", {"value": None}, True),
        (of("f", "output.error.code"), "==", {"value": "http:503"}, True),
        (current("output.big"), "==", {"value": 2**53 + 1}, True),  # as doubles they are the same
        ({"value": 1}, "!=", {"value": "1"}, True),
    ],
)
def test_two_operands_are_compared_as_json_with_numbers_as_doubles(left, operator, right, expected):
    output = {"n": 120, "flag": True, "rows": [{}, {"p": 1.5}], "name": "Ann", "big": 2**53}
    verdict = decide(cross(left, operator, right), output, nodes=A | GONE)
    assert verdict.error is None, verdict.error
    assert verdict.value is expected


@pytest.mark.parametrize(
    ("left", "operator", "right", "why"),
    [
        (current("output.missing"), "==", {"value": 1}, "output.missing is missing"),
        (of("a", "output.rows[5].p"), "==", {"value": 1}, "a list of 1"),
        (of("s", "output.x"), "==", {"value": 1}, "skipped, so the output is null: s"),
        (current("output.n"), ">", {"value": "x"}, "between a number and text"),
        (current("output.n"), "in", {"value": 3}, "'in' cannot be used between a number and a number"),
    ],
)
def test_operands_that_are_missing_or_do_not_compare_are_errors_and_never_false(left, operator, right, why):
    verdict = decide(cross(left, operator, right), {"n": 1}, nodes=A | GONE)
    assert verdict.value is None
    assert verdict.error is not None
    assert why in verdict.error.message


def expression(text):
    return {"type": "cross_node_comparison", "expression": text}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(current.output.n - ctx.a.output.n) / ctx.a.output.n > 0.1", True),
        ("(current.n - ctx.a.n) / ctx.a.n > 0.1", True),
        ("(current.output.n - ctx.a.output.n) / ctx.a.output.n == 0.2", True),
        ("current.output.n / 100 == 1.2", True),
        ("current.output.n * 2 - 1 == 239", True),
        ("output.n == 120 && inputs.city == 'Rome'", True),
        ("current.output.items[0] == 7", True),
        ("current.output.items[1] / 2 == 2.5", True),
        ("7 in current.output.items", True),
        ("[7, 5] == current.output.items", True),
        ("[7] != current.output.items", True),
        ("size(current.output.items) == 2", True),
        ("double(size(current.output.items)) / 4 == 0.5", True),
        ("int(current.output.n) % 2 == 0", True),
        ("current.output.items.all(x, x > 4)", True),
        ("has(current.output.n) && !has(ctx.a.output.zzz)", True),
        ("-current.output.n < -0x10", True),
        ("current.output.name == 'v1.2 [3]' // 5 > 6", True),
        ("current.output.n > 1e2 && current.output.n < 1.3e2", True),
        ("ctx.a.metadata.duration_ms / 2 == 500", True),
        ("loop.iteration / 4 == 0.5", True),
        ("loop.previous.k / 2 == 3.5", True),
    ],
)
def test_an_expression_divides_and_compares_as_doubles(text, expected):
    output = {"n": 120, "items": [7, 5], "name": "v1.2 [3]"}
    verdict = decide(expression(text), output, nodes=A, kind="loop", loop=LOOP)
    assert verdict.error is None, verdict.error
    assert verdict.value is expected


def test_plain_cel_keeps_its_integer_division():
    text = "(output.n - 100) / 100 > 0"
    assert decide({"type": "cel", "expression": text}, {"n": 120}).value is False
    assert decide(expression(text), {"n": 120}).value is True


def test_an_expression_over_what_is_not_there_is_an_error_with_a_hint():
    verdict = decide(expression("current.output.n > ctx.a.output.nope"), {"n": 1}, nodes=A)
    assert verdict.value is None
    verdict = decide(expression("size(current.output.items) / 2 > 0.4"), {"items": [1]})
    assert verdict.error is not None
    assert "write double(size(x))" in verdict.error.message
    huge = decide(expression("current.output.n > 1"), {"n": 10**400})
    assert huge.error is not None
    assert "beyond what a double can hold" in huge.error.message


def test_only_what_an_expression_reads_is_converted():
    # A set cannot be converted; it is not looked at unless it is read.
    assert decide(expression("current.output.n > 1"), {"n": 2, "rest": {1, 2}}).value is True


def test_the_journal_learns_both_sides():
    verdict = decide(cross(current("output.n"), ">", of("a", "output.n")), {"n": 120}, nodes=A)
    assert verdict.seen == {"output.n": 120, "ctx.a.output.n": 100}
    verdict = decide(expression("current.output.n > ctx.a.output.n"), {"n": 120}, nodes=A)
    assert verdict.seen == {"output.n": 120, "ctx.a.output.n": 100}


# -- composite ---------------------------------------------------------------------------------------------------------

TRUE, FALSE, BROKEN = "output.t == true", "output.t == false", "output.missing == 1"
T = {"t": True}


def composite(operator, *conditions):
    return {"type": "composite", "operator": operator, "conditions": list(conditions)}


@pytest.mark.parametrize(
    ("operator", "conditions", "expected"),
    [
        ("AND", [TRUE, TRUE], True),
        ("AND", [TRUE, FALSE], False),
        ("AND", [FALSE, BROKEN], False),
        ("AND", [BROKEN, FALSE], False),
        ("AND", [BROKEN, TRUE], None),
        ("AND", [TRUE, BROKEN], None),
        ("OR", [FALSE, FALSE], False),
        ("OR", [FALSE, TRUE], True),
        ("OR", [TRUE, BROKEN], True),
        ("OR", [BROKEN, TRUE], True),
        ("OR", [BROKEN, FALSE], None),
        ("OR", [FALSE, BROKEN], None),
        ("NOT", [TRUE], False),
        ("NOT", [FALSE], True),
        ("NOT", [BROKEN], None),
        ("and", [TRUE], True),
        ("OR", [composite("AND", TRUE, BROKEN), composite("NOT", FALSE)], True),
        ("AND", [composite("OR", BROKEN, TRUE), composite("NOT", FALSE)], True),
        ("NOT", [composite("AND", BROKEN, FALSE)], True),
    ],
)
def test_what_decides_wins_over_what_cannot_be_evaluated_as_in_cel(operator, conditions, expected):
    verdict = decide(composite(operator, *conditions), T)
    assert verdict.value is expected
    assert (verdict.error is None) is (expected is not None)


def test_composites_agree_with_cel_itself():
    parts = {"t": TRUE, "f": FALSE, "b": BROKEN}
    for names in (a + b + c for a in parts for b in parts for c in parts):
        for operator, sign in (("AND", " && "), ("OR", " || ")):
            own = decide(composite(operator, *(parts[name] for name in names)), T)
            cel = decide(sign.join(parts[name] for name in names), T)
            assert own.value is cel.value, (operator, names)


def test_nothing_is_looked_at_once_it_is_decided():
    needs_a_blob = schema(schema_ref="sha256:" + "0" * 64)
    assert decide(composite("AND", FALSE, needs_a_blob), T).value is False
    assert decide(composite("OR", TRUE, needs_a_blob), T).value is True
    with pytest.raises(NeedsBlob):
        decide(composite("AND", TRUE, needs_a_blob), T)


def test_the_journal_learns_which_part_decided_and_what_each_saw():
    query = {"type": "jsonpath", "query": "$.code", "operator": "in", "value": ["A"]}
    verdict = decide(composite("AND", TRUE, query, BROKEN), T | {"code": "B"})
    assert verdict.seen == {
        "operator": "AND",
        "conditions": [
            {"type": "cel", "seen": {"output.t": True}, "value": True},
            {"type": "jsonpath", "seen": {"$.code": "B"}, "value": False},
        ],
        "decided_by": 1,
    }
    failed = decide(composite("AND", TRUE, BROKEN), T)
    assert failed.seen["conditions"][1] == {"type": "cel", "seen": {}, "error": "condition_error"}
    assert failed.error is not None
    assert "conditions[1], 'output.missing == 1'" in failed.error.message


def test_what_is_recorded_of_a_large_composite_has_an_end():
    many = composite("AND", *(f"output.k{i} == {i}" for i in range(90)))
    seen = decide(many, {f"k{i}": i for i in range(90)}).seen
    assert sum(len(part["seen"]) for part in seen["conditions"]) == 20


def test_composites_that_are_too_deep_or_too_many_are_refused():
    deep = TRUE
    for _ in range(11):
        deep = composite("NOT", deep)
    for condition in (deep, composite("AND", *[TRUE] * 101)):
        node = {"id": "a", "type": "task", "loop": {"condition": condition, "max_iterations": 2}}
        result = compile_definition({"name": "w", "nodes": [node]})
        assert [problem.code for problem in result.problems] == ["too_large"]


def test_problems_inside_a_composite_have_their_own_place():
    condition = composite("AND", "output.x >", composite("OR", "output.x == 1", {**schema(schema={"type": 3})}))
    ir = compiled({"id": "a", "loop": {"condition": condition, "max_iterations": 2}})
    assert [problem.path for problem in check_parts(ir)] == [
        "nodes.a.loop.condition.conditions[0]",
        "nodes.a.loop.condition.conditions[1].conditions[1]",
    ]


# -- blobs and secrets -------------------------------------------------------------------------------------------------

REF = "cas://sha256:ab"


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "jsonpath", "query": "$.n", "operator": "==", "value": 1},
        schema(schema={"required": ["n"]}),
        cross(current("output.n"), "==", {"value": 1}),
        expression("current.output.n == 1"),
        composite("AND", "output.n == 1", cross(current("n"), "==", {"value": 1})),
    ],
    ids=lambda spec: spec["type"],
)
def test_an_output_in_a_blob_is_fetched_whatever_the_kind(spec):
    with pytest.raises(NeedsBlob) as caught:
        decide(spec, output_ref=REF)
    assert caught.value.key == REF
    assert decide(spec, output_ref=REF, at_hand={REF: {"n": 1}}).value is True


def test_values_under_sensitive_paths_are_masked_in_what_the_journal_learns():
    ir = compiled(
        {"id": "a", "sensitive": ["card.number", "rows[*].ssn"]},
        {"id": "n", "dependencies": ["a"], "sensitive": ["token", "person"]},
    )
    sensitive = sensitive_paths(ir)
    nodes = {"a": Seen("completed", {"card": {"number": "4111", "year": 30}, "rows": [{"ssn": "1", "x": 2}]})}
    output = {"token": "t0ps3cret", "person": {"name": "Ann"}, "other": 5, "list": [{"token": "x"}]}
    previous = LoopView(2, Seen("completed", {"card": {"number": "4111"}, "n": 1}))
    specs = [
        "output.token == 't0ps3cret' && output.other == 5 && output != null",
        "output.person.name == 'Ann' && ctx.a.output.card.number == '4111' && ctx.a.output.card.year == 30",
        "ctx.a.output.card != null && ctx.a.output.rows[0].ssn == '1' && ctx.a.output.rows[0].x == 2",
        "ctx.a.output != null && loop.previous.card.number == '4111' && loop.previous.n == 1",
        {"type": "jsonpath", "query": "$.token", "operator": "exists"},
        {"type": "jsonpath", "query": "$.token", "operator": "==", "value": "x"},
        {"type": "jsonpath", "query": "$..name", "operator": "contains", "value": "Ann"},
        {"type": "jsonpath", "query": "$.*", "operator": "count_gt", "value": 1},
        {"type": "jsonpath", "query": "$.other", "operator": "==", "value": 5},
        cross(current("output.token"), "==", of("a", "output.card.number")),
        cross(current("output.other"), "==", of("a", "output.rows[0].x")),
        expression("current.token == ctx.a.card.number || current.other == 5"),
        schema(schema={"properties": {"token": {"const": "x"}}}),
        composite("AND", "output.token != ''", "output.other == 5"),
    ]
    shown = [decide(spec, output, nodes=nodes, kind="loop", loop=previous, sensitive=sensitive).seen for spec in specs]
    text = repr(shown)
    for secret in ("t0ps3cret", "Ann", "4111"):
        assert secret not in text
    assert shown[0] == {"output.token": "***", "output.other": 5, "output": "***"}
    assert shown[1] == {"output.person.name": "***", "ctx.a.output.card.number": "***", "ctx.a.output.card.year": 30}
    assert shown[2] == {
        "ctx.a.output.card": "***",
        "ctx.a.output.rows[0].ssn": "***",
        "ctx.a.output.rows[0].x": 2,
    }
    assert shown[3] == {"ctx.a.output": "***", "loop.previous.card.number": "***", "loop.previous.n": 1}
    assert shown[8] == {"$.other": 5}
    assert shown[10] == {"output.other": 5, "ctx.a.output.rows[0].x": 2}
    assert shown[13]["conditions"][0]["seen"] == {"output.token": "***"}


def test_what_the_items_of_a_map_keep_secret_is_masked_in_their_list():
    definition = {
        "name": "w",
        "nodes": [{"id": "m", "type": "map", "config": {"over": [1], "node": {"type": "task", "sensitive": ["ssn"]}}}],
    }
    sensitive = sensitive_paths(compile_definition(definition).get_ir())
    verdict = decide("ctx.m.output[0].ssn == '1'", nodes={"m": Seen("completed", [{"ssn": "1"}])}, sensitive=sensitive)
    assert verdict.value is True
    assert verdict.seen == {"ctx.m.output[0].ssn": "***"}
