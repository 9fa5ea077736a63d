"""What templates and conditions read, and whether it is there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model import compile_definition
from perdure.model.ir import Reference
from perdure.model.references import BadExpression, find_in_expression, find_in_template
from tests.model.helpers import again, by_id, codes, compiled, message, node, workflow

KNOWN = {"a", "b", "my-node", "my"}


def R(root, *path, node=None, optional=False):  # noqa: N802
    return Reference(root, node, path, optional)


def A(*path, optional=False):  # noqa: N802
    return Reference("node", "a", path, optional)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain { text } }} 5 % {x}", []),
        ('{"json": {"a": 1}}', []),
        ("{{ a.output }}", [A()]),
        ("{{ a }}", [A()]),
        ("{{ a.output.output }}", [A("output")]),
        ("{{ a.field.deep }}", [A("field", "deep")]),
        ("{{a.x}}{{-a.y-}}{{ inputs.z }}", [A("x"), A("y"), R("inputs", "z")]),
        ("{{ a.b[0].c }}", [A("b", 0, "c")]),
        ("{{ a['k k'][\"x\"] }}", [A("k k", "x")]),
        ("{{ inputs['it\\'s'] }}", [R("inputs", "it's")]),
        ("{{ a.x | default('z') }}", [A("x", optional=True)]),
        ("{{ a.x | upper | default('z') }}", [A("x", optional=True)]),
        ("{{ a.x | replace('a', 'b') | d(b.y) }}", [A("x", optional=True), R("node", "y", node="b", optional=True)]),
        ("{{ (a.x) | default('z') }}", [A("x")]),
        ("{{ a.n + 1 }}", [A("n")]),
        ("{{ a.n-1 }}", [A("n")]),
        ("{{ a.x if a.x is defined else 'n' }}", [A("x", optional=True), A("x", optional=True)]),
        ("{{ a.x is not none and not b.y }}", [A("x"), R("node", "y", node="b")]),
        ("{{ a[inputs.key].c }}", [A(), R("inputs", "key")]),
        ("{{ a.name.upper() }}", [A("name")]),
        ("{{ a.items() | join(sep=',') }}", [A()]),
        ("{{ 'a.b }}' ~ a.x }}", [A("x")]),
        ('{{ {"k": {"z": a.x}} }}', [A("x")]),
        ("{{ [a.x, b.y, 3, true, none] }}", [A("x"), R("node", "y", node="b")]),
        ("{{ my-node.x }}", [R("node", "x", node="my-node")]),
        ("{{ my-a.x }}", [R("node", node="my"), A("x")]),
        (
            "{{ run.id }} {{ loop.iteration }} {{ item.x }} {{ secrets.K }}",
            [R("run", "id"), R("loop", "iteration"), R("item", "x"), R("secrets", "K")],
        ),
        ("{{ '{% raw %}' }}", []),
    ],
)
def test_a_template_reads(text, found):
    assert find_in_template(text, KNOWN) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ a.x", "not closed"),
        ("{{ a.x }", "closes nothing"),
        ("{{ a[0 }}", "closes nothing"),
        ("{{ }}", "empty"),
        ("{{ 'open }}", "quote"),
        ("{{ a.x } }}", "closes nothing"),
        ("{{ a § b }}", "not expected"),
        ("{% for x in y %}", "'{%' is not accepted"),
        ("text {# comment #}", "'{#' is not accepted"),
        ("{{ a }} {% if x %}", "'{%' is not accepted"),
        ("{{ " + "(" * 500 + " }}", "nested"),
        ("{{ " + "a + " * 20_000 + "a }}", "longer"),
    ],
)
def test_a_bad_template_is_refused_with_the_reason(text, reason):
    with pytest.raises(BadExpression, match=reason):
        find_in_template(text, KNOWN)


@given(st.text(st.sampled_from("{}%#|.'\"[]()ab-_ 1,\\\n"), max_size=60))
def test_any_text_is_a_template_or_refused(text):
    try:
        find_in_template("{{ " + text, KNOWN)
        find_in_expression(text, KNOWN)
    except BadExpression:
        pass


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("output.score >= 80 && ctx.a.output.revenue > 100000", [R("output", "score"), A("revenue")]),
        ("ctx.a.metadata.duration_ms > 5", [R("metadata", "duration_ms", node="a")]),
        ("ctx.a.short", [A("short")]),
        ('ctx["my-node"].output.x', [R("node", "x", node="my-node")]),
        ("current.output.x / current.y", [R("output", "x"), R("output", "y")]),
        (
            "loop.iteration < 3 && loop.previous.x && run.id != '' && inputs.y",
            [R("loop", "iteration"), R("loop", "previous", "x"), R("run", "id"), R("inputs", "y")],
        ),
        ("output.items.all(a, a.price > 3)", [R("output", "items")]),
        ("has(ctx.a.output.x) && ctx.a.output.x == 1", [A("x", optional=True), A("x", optional=True)]),
        ("output.name.startsWith('ctx.b')", [R("output", "name")]),
        ("int(output.x) == 3u || type(output.y) == string", [R("output", "x"), R("output", "y")]),
        ("output.s.matches(r'^\\d+$')", [R("output", "s")]),
    ],
)
def test_an_expression_reads(text, found):
    assert find_in_expression(text, KNOWN) == (found, [])


def reading(text, **keys):
    return node("r", "a", config={"x": text}, **keys)


def test_references_of_a_node_are_each_listed_once_in_a_stable_order():
    ir = compiled(
        node("a"), node("r", "a", config={"z": "{{ inputs.b }}{{ a.x }}", "y": ["{{ a.x }}", "{{ inputs.a }}"]})
    )
    assert by_id(ir, "r").references == (R("inputs", "a"), R("inputs", "b"), A("x"))


def test_an_unknown_node_in_a_template_gets_a_suggestion():
    result = compile_definition(workflow(node("fetch"), node("b", "fetch", config={"x": "{{ fetsh.y }}"})))
    assert "did you mean 'fetch'?" in message(result, "unknown_node")


def test_a_far_ancestor_is_upstream_and_a_sibling_is_not():
    chain = [node("a"), node("b", "a"), node("c", "b"), node("d", "a")]
    assert codes(workflow(*chain, node("r", "c", config={"x": "{{ a.y }}"}))) == set()
    assert codes(workflow(*chain, node("r", "c", config={"x": "{{ d.y }}"}))) == {"not_upstream"}


def test_a_body_node_is_upstream_of_what_follows_the_loop():
    assert (
        codes(workflow(node("h"), node("x", "h", loop=again("h")), node("r", "x", config={"v": "{{ h.y }}"}))) == set()
    )


def test_a_later_node_of_the_same_loop_is_read_through_loop_previous():
    result = compile_definition(
        workflow(node("h", config={"v": "{{ x.y }}", "w": "{{ loop.previous.y }}"}), node("x", "h", loop=again("h")))
    )
    assert "loop.previous" in message(result, "not_upstream")
    assert len(result.problems) == 1


def test_a_node_cannot_read_itself_but_its_conditions_and_compensator_can():
    assert codes(workflow(node("a", config={"x": "{{ a.y }}"}))) == {"not_upstream"}
    assert codes(workflow(node("a", loop=again(condition="ctx.a.output.x > 1")))) == set()
    assert (
        codes(
            workflow(
                node(
                    "a",
                    compensator={
                        "type": "http",
                        "config": {"x": "{{ output.id }}{{ config.u }}{{ error.code }}{{ a.z }}"},
                    },
                )
            )
        )
        == set()
    )


def test_roots_exist_only_at_their_place():
    assert codes(workflow(node("a", config={"x": "{{ item }}"}))) == {"bad_reference"}
    assert codes(workflow(node("a", config={"x": "{{ loop.iteration }}"}))) == {"bad_reference"}
    assert codes(workflow(node("a", config={"x": "{{ loop.iteration }}"}, loop=again()))) == set()
    assert codes(workflow(node("a", config={"x": "{{ output.x }}"}))) == {"bad_reference"}
    assert codes(workflow(node("a", config={"x": "{{ ctx.a }}"}))) == {"bad_reference"}
    assert codes(workflow(node("a", config={"x": "{{ error.x }}"}))) == {"unknown_node"}
    assert codes(workflow(node("a", concurrency={"key": "{{ secrets.x }}", "limit": 1}))) == {"bad_reference"}
    assert codes(workflow(node("a", config={"x": "{{ secrets.x }}"}))) == set()
    assert codes(workflow(node("a", when="output.x == 1"))) == {"bad_reference"}
    assert codes(workflow(node("a"), outputs={"x": "{{ loop.iteration }}"})) == {"bad_reference"}


def test_a_bare_node_in_a_condition_is_told_about_ctx():
    result = compile_definition(workflow(node("a"), node("b", "a", when="a.x == 1")))
    assert "ctx.a.output" in message(result, "bad_reference")


def test_conditions_are_checked_like_templates():
    def cond(condition):
        return codes(workflow(node("a"), node("z"), node("b", "a", loop=again(condition=condition))))

    assert cond("ctx.zz.output.x") == {"unknown_node"}
    assert cond("ctx.z.output.x") == {"not_upstream"}
    left = {"source": "context", "node": "z", "path": "output.x"}
    assert cond({"type": "cross_node_comparison", "left": left, "operator": "==", "right": {"value": 1}}) == {
        "not_upstream"
    }
    left = {"source": "current", "path": "output x"}
    assert cond({"type": "cross_node_comparison", "left": left, "operator": "==", "right": {"value": 1}}) == {
        "bad_expression"
    }
    assert cond({"type": "composite", "operator": "and", "conditions": ["ctx.a.output.x", "ctx.z.output.y"]}) == {
        "not_upstream"
    }
    assert cond({"type": "python_sandbox", "code": "def evaluate(output, context): return True"}) == set()


def test_references_of_a_condition_are_kept_with_it():
    right = {"source": "context", "node": "a", "path": "output.items[0].n"}
    condition = {
        "type": "cross_node_comparison",
        "left": {"source": "current", "path": "output.n"},
        "operator": ">",
        "right": right,
    }
    loop = by_id(compiled(node("a"), node("b", "a", loop=again(condition=condition))), "b").loop
    assert loop is not None
    assert loop.condition.kind == "cross_node_comparison"
    assert loop.condition.references == (A("items", 0, "n"), R("output", "n"))


def skips(*nodes):
    found = codes(workflow(*nodes))
    assert found <= {"may_be_skipped"}, found
    return bool(found)


def test_reading_a_node_that_may_be_skipped_is_a_warning():
    maybe = node("m", "s", when="inputs.x")
    assert skips(node("s"), maybe, node("r", "s", "m", config={"x": "{{ m.y }}"}))
    assert not skips(node("s"), maybe, node("r", "s", "m", config={"x": "{{ m.y | default('') }}"}))
    assert not skips(node("s"), maybe, node("r", "m", config={"x": "{{ m.y }}"}))
    assert not skips(node("s"), maybe, node("r", "s", {"node": "m", "required": True}, config={"x": "{{ m.y }}"}))  # type: ignore[arg-type]
    assert not skips(node("s"), maybe, node("r", "s", "m", join={"at_least": 2}, config={"x": "{{ m.y }}"}))


def test_branches_may_be_skipped_but_not_for_what_lies_only_behind_them():
    choose = node("s", branch={"rules": [{"condition": "output.x", "next_nodes": ["l"]}], "default": ["r"]})
    both = [choose, node("l"), node("r"), node("l2", "l")]
    assert not skips(*both, node("t", "l2", config={"x": "{{ l.y }}{{ s.z }}"}))
    assert skips(*both, node("t", "l2", "r", config={"x": "{{ l.y }}"}))
    assert not skips(*both, node("t", "l2", "r", config={"x": "{{ s.y }}"}))
    # What joins both sides runs whichever was chosen, so its own readers need no default.
    assert not skips(*both, node("t", "l2", "r"), node("u", "t", config={"x": "{{ t.y }}"}))


def test_a_diamond_below_a_branch_is_dominated_by_its_top():
    top = [
        node("s", branch={"rules": [], "default": ["a"]}),
        node("a"),
        node("b", "a"),
        node("c", "a"),
    ]
    assert not skips(*top, node("d", "b", "c", config={"x": "{{ a.y }}"}))
    # Both sides run whenever the diamond is entered, but the rule looks at dominators only: a warning too many.
    assert skips(*top, node("d", "b", "c", config={"x": "{{ b.y }}"}))


def test_what_is_read_inside_a_default_is_no_warning():
    """`truck | default(post, true)` is how one of two branches is read."""
    nodes: list[dict[str, Any]] = [
        {"id": "a", "type": "t", "branch": {"rules": [{"condition": "true", "next_nodes": ["b"]}], "default": ["c"]}},
        {"id": "b", "type": "t"},
        {"id": "c", "type": "t"},
        {"id": "d", "type": "t", "dependencies": ["b", "c"], "config": {"x": "{{ b.x | default(c.x | upper, true) }}"}},
    ]
    assert compile_definition({"name": "w", "nodes": nodes}).problems == ()
    nodes[3]["config"] = {"x": "{{ b | default(1) }} {{ c }}"}
    assert [p.code for p in compile_definition({"name": "w", "nodes": nodes}).problems] == ["may_be_skipped"]
