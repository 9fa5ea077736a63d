"""Values in events and snapshots may name blobs: what is written is what is read, and no data passes for a reference."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel import events as e
from perdure.kernel import segments, snapshot
from perdure.kernel.segments import BadSegment, BlobRef, Secret, Segments
from tests.kernel.driver import Run

REF = BlobRef("cas://sha256:" + "0" * 64)
keys = st.sampled_from(["$perdure:blob", "$perdure:plain", "$perdure:secret", "$perdure:", "$ref", "x"]) | st.text(
    max_size=5
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.just(REF),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_an_event_comes_back_with_its_references_and_its_data(value):
    event = e.NodeCompleted(seq=1, at=1.0, node="a", output=value)
    assert e.decode(e.encode(event)) == event


@given(values, values)
def test_every_value_of_an_event_may_hold_references(inputs, override):
    event = e.RunCreated(
        seq=1,
        at=1.0,
        run_id="r",
        workflow="w",
        workflow_version=1,
        ir="i",
        inputs=inputs,
        overrides={"a": {"b": override}},
    )
    assert e.decode(e.encode(event)) == event


def test_an_event_without_references_is_written_as_before():
    fake = {"$perdure:blob": "cas://x", "$perdure:plain": 1}
    data = e.encode(e.NodeCompleted(seq=1, at=1.0, node="a", output=fake))
    assert b"refs" not in data
    assert msgspec.json.decode(data)["output"] == fake
    assert e.decode(data).output == fake


def test_an_event_with_references_says_so():
    data = msgspec.json.decode(e.encode(e.NodeCompleted(seq=1, at=1.0, node="a", output=[REF, {"$perdure:blob": "x"}])))
    assert data["refs"] is True
    assert data["output"] == [{"$perdure:blob": REF.ref}, {"$perdure:plain": {"$perdure:blob": "x"}}]


def test_an_event_whose_references_cannot_be_read_is_refused_not_skipped():
    data = msgspec.json.encode(
        {"type": "node.completed", "seq": 1, "at": 1.0, "node": "a", "refs": True, "output": {"$perdure:new": 1}}
    )
    with pytest.raises(e.UnknownEvent, match="unknown form"):
        e.decode(data)


@pytest.mark.parametrize("secret", [Secret("x"), Segments(("a", Secret("x")))])
def test_a_secret_is_never_stored(secret):
    with pytest.raises(BadSegment, match=r"\(S2\)"):
        e.encode(e.NodeCompleted(seq=1, at=1.0, node="a", output={"a": secret}))
    stored = {
        "type": "node.completed",
        "seq": 1,
        "at": 1.0,
        "node": "a",
        "refs": True,
        "output": segments.pack([secret]),
    }
    with pytest.raises(e.UnknownEvent):
        e.decode(msgspec.json.encode(stored))


def test_a_reference_is_shown_as_one():
    shown = e.public(e.NodeCompleted(seq=1, at=1.0, node="a", output={"x": [REF]}))
    assert shown["data"]["output"] == {"x": [{"$ref": REF.ref}]}
    assert "refs" not in shown["data"]


def test_a_value_with_references_is_no_json_by_accident():
    for value in (REF, [REF], {"a": {"b": REF}}):
        with pytest.raises(TypeError):
            msgspec.json.encode(value)


def test_a_state_with_references_survives_its_snapshot_and_its_journal():
    run = Run.of({"id": "a"}, {"id": "b", "dependencies": ["a"]}, inputs={"x": REF})  # it checks both at every step
    run.complete("a", {"r": [REF], "fake": {"$perdure:blob": "x"}})
    again = snapshot.decode(snapshot.encode(run.state), dict(run.state.library))
    assert again is not None
    assert again.inputs == {"x": REF}
    assert again.find("a").output == {"r": [REF], "fake": {"$perdure:blob": "x"}}


@given(values)
def test_finding_references_agrees_with_packing(value):
    data, refs = segments.encode(value)
    assert refs == bool(segments.find_refs(value)) == segments.has_refs(value)
    assert segments.decode(data, refs) == value


def test_the_default_outputs_of_large_terminals_are_put_together_by_whoever_can_store_them():
    asked = []

    def answer(question):
        asked.append(sorted(question.evidence.nodes))
        return {"put": "together"}

    run = Run.of({"id": "a"}, {"id": "b"}, answers={"outputs": answer})
    run.complete("a", "x", size=20_000)
    run.complete("b", "y", size=20_000)
    assert asked == [["a", "b"]]
    assert run.state.outputs == {"put": "together"}


def test_default_outputs_that_are_blobs_already_are_named():
    run = Run.of({"id": "a"}, {"id": "b"})
    run.complete("a", output_ref=REF.ref, size=10**9)
    run.complete("b", 1, size=1)
    assert run.state.outputs == {"a": REF, "b": 1}


def test_the_output_node_may_give_a_blob():
    run = Run.of({"id": "a"}, {"id": "o", "type": "output", "dependencies": ["a"]})
    run.complete("a", 1)
    run.complete("o", output_ref=REF.ref, size=10**9)
    assert (run.state.outputs, run.state.outputs_ref) == (None, REF.ref)
