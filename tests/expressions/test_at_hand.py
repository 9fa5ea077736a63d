"""Templates and conditions over values that are stored elsewhere: what they need is asked for, one thing at a time."""

from typing import Any

import pytest

from perdure.expressions.at_hand import Lost, resolve
from perdure.expressions.errors import ContentLost, NeedsBlob, TemplateError
from perdure.expressions.namespace import Namespace
from perdure.expressions.templates import render
from perdure.expressions.verdicts import evaluate
from perdure.kernel.causal_past import Evidence, LoopView, Seen
from perdure.kernel.segments import BlobRef
from tests.expressions.helpers import RUN, ask

A, B, C = (f"cas://sha256:{letter * 64}" for letter in "abc")
CONTENT = {
    A: {"n": 1, "text": "hello", "rows": [{"v": 3}, {"v": 4}], "null": None},
    B: {"inner": BlobRef(A), "list": [BlobRef(C), 2]},
    C: "text of c",
}
NODES = {
    "a": Seen("completed", output_ref=A),
    "b": Seen("completed", output_ref=B),
    "mixed": Seen("completed", {"a": BlobRef(A), "plain": 7, "list": [BlobRef(C)]}),
}


def show(template: Any, at_hand: dict[str, Any], **more: Any) -> Any:
    return render(template, Namespace(RUN, NODES, at_hand=at_hand, **more))


def fetching(template: Any, **more: Any) -> tuple[Any, list[str]]:
    """As a coordinator does it: whatever is asked for is fetched, until the value is there."""
    at_hand: dict[str, Any] = {}
    asked: list[str] = []
    while True:
        try:
            return show(template, at_hand, **more), asked
        except NeedsBlob as need:
            ref = need.ref
        assert ref not in at_hand, "what is at hand is asked for again"
        asked.append(ref)
        at_hand[ref] = CONTENT[ref]


@pytest.mark.parametrize(
    ("template", "value", "asked"),
    [
        ("{{ a }}", BlobRef(A), []),
        ("{{ a.output }}", BlobRef(A), []),
        ({"x": ["{{ a }}"]}, {"x": [BlobRef(A)]}, []),
        ("{{ a.n }}", 1, [A]),
        ("{{ a.rows[1].v }}", 4, [A]),
        ("n={{ a.n }}", "n=1", [A]),
        ("{{ a.n + 1 }}", 2, [A]),
        ("{{ a.text | upper }}", "HELLO", [A]),
        ("{{ a.nothing | default('none') }}", "none", [A]),
        ("{{ a.nothing is defined }}", False, [A]),
        ("{{ 'n' in a }}", True, [A]),
        ("{{ a['te' ~ 'xt'] }}", "hello", [A]),
        ("{{ mixed }}", NODES["mixed"].output, []),
        ("{{ mixed.plain }}", 7, []),
        ("{{ mixed.a }}", BlobRef(A), []),
        ("{{ mixed.a.n }}", 1, [A]),
        ("{{ mixed.plain + 1 }}", 8, []),
        ("{{ mixed.a.n + 1 }}", 2, [A]),
        ("{{ mixed.list[0] | length }}", 9, [C]),
        ("{{ mixed.list | first }}", "text of c", [C]),
        ("{{ mixed['a'].text }}", "hello", [A]),
        ("{{ b.inner }}", BlobRef(A), [B]),
        ("{{ b.inner.n }}", 1, [B, A]),
        ("{{ b.list[0] }} and {{ b.list[1] }}", "text of c and 2", [B, C]),
        ("{{ b.list | length }}", 2, [B]),
        ("{{ b.list | join('-') }}", "text of c-2", [B, C]),
        ("{{ a.n if mixed.plain == 7 else b.inner.n }}", 1, [A]),
    ],
)
def test_only_what_is_looked_into_is_fetched(template, value, asked):
    assert fetching(template) == (value, asked)


def test_all_of_a_value_as_text_needs_all_that_is_in_it():
    text, asked = fetching("{{ b }}!")
    assert sorted(asked) == [A, B, C]
    assert text == '{"inner":{"n":1,"text":"hello","rows":[{"v":3},{"v":4}],"null":null},"list":["text of c",2]}!'
    assert fetching("{{ mixed | tojson }}")[0].startswith('{"a":{"n":1')


def test_inputs_items_and_loops_may_be_stored_too():
    loop = LoopView(2, Seen("completed", output_ref=A))
    assert fetching("{{ loop.previous.n }}", loop=loop) == (1, [A])
    assert fetching("{{ item.n }}", extra={"item": BlobRef(A)}) == (1, [A])


@pytest.mark.parametrize(
    "template", ["{{ a.n }}", "{{ a }} text", "{{ a.n + 1 }}", "{{ mixed.a.n | default(3) }}", "{{ mixed | tojson }}"]
)
def test_what_is_lost_is_an_error_with_its_own_code_and_never_missing(template):
    lost = {A: Lost("blob_missing", "there is no blob"), C: "c"}
    with pytest.raises(ContentLost, match="there is no blob") as caught:
        show(template, lost)
    assert caught.value.code == "blob_missing"
    assert isinstance(caught.value, TemplateError)


@pytest.mark.parametrize(
    ("expression", "asked"),
    [("output.n == 1", [A]), ("ctx.b.output.inner.n == 1", [B, A, C]), ("ctx.mixed.output.plain == 7", [A, C])],
)
def test_a_condition_asks_for_what_it_reads_and_is_never_false_meanwhile(expression, asked):
    at_hand: dict[str, Any] = {}
    found: list[str] = []
    question = ask(expression, nodes={name: NODES[name] for name in ("b", "mixed")})
    question = type(question)(question.need, Evidence(output_ref=A, nodes=question.evidence.nodes), question.condition)
    verdict = None
    while verdict is None:
        try:
            verdict = evaluate(question, RUN, at_hand)
            continue
        except NeedsBlob as need:
            ref = need.ref
        assert ref not in at_hand
        found.append(ref)
        at_hand[ref] = CONTENT[ref]
    assert (verdict.value, verdict.error) == (True, None)
    assert found == asked


def test_a_condition_over_something_lost_is_an_error():
    question = ask("output.n == 1")
    question = type(question)(question.need, Evidence(output_ref=A), question.condition)
    verdict = evaluate(question, RUN, {A: Lost("blob_damaged", "it is damaged")})
    assert verdict.value is None
    assert verdict.error is not None
    assert (verdict.error.code, "it is damaged" in verdict.error.message) == ("blob_damaged", True)


def test_what_holds_no_blob_is_given_back_as_it_is():
    value = {"a": [1, {"b": "c"}]}
    assert resolve(value, "x", {}) is value
