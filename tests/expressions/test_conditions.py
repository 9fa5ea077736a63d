"""Questions of the kernel, answered."""

import pytest

from perdure.expressions.at_hand import Lost
from perdure.expressions.errors import NeedsBlob
from perdure.expressions.sight import MAX_SEEN
from perdure.expressions.verdicts import check, evaluate
from perdure.kernel.causal_past import LoopView, Seen
from perdure.kernel.values import Error
from perdure.model.ir import Condition
from tests.expressions.helpers import LOOP, RUN, ask

A = {"a": Seen("completed", {"x": 1}, started_at=10.0, ended_at=12.5)}


def test_a_condition_that_holds_says_what_it_saw():
    verdict = evaluate(
        ask("output.score > 80 && ctx.a.output.x == 1 && inputs.city == 'Rome'", {"score": 85}, nodes=A), RUN
    )
    assert verdict.value is True
    assert verdict.error is None
    assert verdict.seen == {"output.score": 85, "ctx.a.output.x": 1, "inputs.city": "Rome"}


def test_a_condition_that_does_not_hold_is_false():
    assert evaluate(ask("output.score > 80", {"score": 5}), RUN).value is False


def test_a_condition_that_cannot_be_evaluated_is_an_error_and_never_false():
    verdict = evaluate(ask("output.score > 80", {}), RUN)
    assert verdict.value is None
    assert verdict.error is not None
    assert verdict.error.code == "condition_error"
    assert "'output.score > 80'" in verdict.error.message
    assert "score" in verdict.error.message


def test_a_result_that_is_no_bool_is_an_error():
    verdict = evaluate(ask("output.score", {"score": 1}), RUN)
    assert verdict.value is None
    assert verdict.error is not None
    assert "of type int, not bool" in verdict.error.message


def test_loops_see_their_iteration_and_the_one_before():
    question = ask("loop.iteration == 2 && loop.previous.k == 7 && loop.parent.iteration == 5", kind="loop", loop=LOOP)
    assert evaluate(question, RUN).value is True
    first = ask("loop.previous == null", kind="loop", loop=LoopView(1))
    assert evaluate(first, RUN).value is True


def test_when_does_not_see_an_output():
    verdict = evaluate(ask("output == null", kind="when"), RUN)
    assert verdict.error is not None
    assert evaluate(ask("inputs.city == 'Rome' && ctx.a.output.x == 1", nodes=A, kind="when"), RUN).value is True


def test_a_skipped_node_is_null_and_reading_into_it_says_so():
    nodes = {"b": Seen("skipped")}
    assert evaluate(ask("ctx.b.output == null", nodes=nodes), RUN).value is True
    verdict = evaluate(ask("ctx.b.output.x == 1", nodes=nodes), RUN)
    assert verdict.error is not None
    assert "skipped, so the output is null: b" in verdict.error.message


def test_a_failed_node_is_seen_by_its_error():
    error = Error("http:503", "gone", 3)
    nodes = {"b": Seen("failed", error=error)}
    assert (
        evaluate(ask("has(ctx.b.output.error) && ctx.b.output.error.code == 'http:503'", nodes=nodes), RUN).value
        is True
    )
    assert evaluate(ask("has(output.error) && output.error.attempts == 3", error.as_output()), RUN).value is True


def test_metadata_says_how_long_a_node_took():
    assert evaluate(ask("ctx.a.metadata.duration_ms == 2500.0", nodes=A), RUN).value is True


def test_only_what_the_condition_names_is_converted():
    class Untouchable(dict):
        pass

    # CEL refuses a set; it is not looked at unless it is named.
    verdict = evaluate(ask("inputs.city == 'Rome'", {"bad": {1, 2}}), RUN)
    assert verdict.value is True


def test_the_current_output_has_two_names():
    assert evaluate(ask("current.output.x == output.x", {"x": 1}), RUN).value is True


@pytest.mark.parametrize(
    "question",
    [
        ask("output.x == 1", output_ref="cas://sha256:ab"),
        ask("ctx.b.output.x == 1", nodes={"b": Seen("completed", output_ref="cas://sha256:ab")}),
        ask("loop.previous.x == 1", loop=LoopView(2, Seen("completed", output_ref="cas://sha256:ab"))),
    ],
)
def test_an_output_in_a_blob_is_asked_for_by_its_name_and_read_once_it_is_at_hand(question):
    with pytest.raises(NeedsBlob) as caught:
        evaluate(question, RUN)
    assert caught.value.key == "cas://sha256:ab"
    assert evaluate(question, RUN, {"cas://sha256:ab": {"x": 1}}).value is True
    lost = evaluate(question, RUN, {"cas://sha256:ab": Lost("blob_missing", "nobody has it")})
    assert lost.error is not None
    assert lost.error.code == "blob_missing"


def test_an_output_in_a_blob_is_no_matter_to_a_condition_that_does_not_read_it():
    assert evaluate(ask("inputs.city == 'Rome'", output_ref="cas://sha256:ab"), RUN).value is True


def test_what_was_seen_is_cut_short():
    output = {"text": "x" * 5000, "list": list(range(5000)), "rows": [{"n": "y" * 500}]}
    expression = "output.text != '' && output.list != [] && output.rows != []"
    seen = evaluate(ask(expression, output), RUN).seen
    assert set(seen) == {"output.text", "output.list", "output.rows"}
    assert all(len(value) <= 201 for value in seen.values())
    many = " || ".join(f"output.k{i} == 1" for i in range(60))
    assert len(evaluate(ask(many, {f"k{i}": 0 for i in range(60)}), RUN).seen) == MAX_SEEN


def test_what_is_absent_is_not_among_what_was_seen():
    verdict = evaluate(ask("has(output.error)", {"x": 1}), RUN)
    assert (verdict.value, verdict.seen) == (False, {})


def test_a_condition_is_checked_without_a_run():
    assert check("output.x == 1") is None
    assert check(Condition("cel", {"expression": "output.x == 1"})) is None
    assert check("x == 1") is not None


def test_the_same_question_has_the_same_answer():
    question = ask("output.score > 80 && ctx.a.output.x == 1", {"score": 85}, nodes=A)
    assert len({repr(evaluate(question, RUN)) for _ in range(20)}) == 1
