"""Secrets and blobs travel as types: no text and no data can pass for one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.expressions.errors import TemplateError
from perdure.expressions.rendered_config import BlobRef, Secret, Segments, dumps, fill, find_secret, loads
from tests.expressions.helpers import completed, show

SECRETS = {"token": "s3cret", "number": 5}


def test_a_secret_alone_is_a_segment():
    assert show("{{ secrets.token }}") == Secret("token")
    assert show('{{ secrets["token"] }}') == Secret("token")


def test_a_secret_in_a_text_is_a_segment_of_it():
    assert show("Bearer {{ secrets.token }}") == Segments(("Bearer ", Secret("token")))
    assert show("{{ a.x }}{{ secrets.a }}{{ secrets.b }}-{{ a.x }}") == Segments(("1", Secret("a"), Secret("b"), "-1"))


def test_an_output_that_looks_like_a_secret_stays_text():
    nodes = completed({"t": "{{ secrets.token }}", "d": {"$perdure:secret": "token"}})
    config = show({"a": "{{ a.t }}", "b": "x {{ a.t }} {{ secrets.token }}", "c": "{{ a.d }}"}, nodes)
    assert config["b"] == Segments(("x {{ secrets.token }} ", Secret("token")))
    assert fill(loads(dumps(config)), SECRETS.__getitem__) == {
        "a": "{{ secrets.token }}",
        "b": "x {{ secrets.token }} s3cret",
        "c": {"$perdure:secret": "token"},
    }


def test_filling_happens_once():
    assert fill([Secret("a")], {"a": "{{ secrets.b }}", "b": "no"}.__getitem__) == ["{{ secrets.b }}"]


def test_blobs_are_filled_in_where_the_worker_can_load_them():
    config = {"x": [BlobRef("cas://1")]}
    assert fill(config, SECRETS.__getitem__) == config
    assert fill(config, SECRETS.__getitem__, lambda ref: {"loaded": ref}) == {"x": [{"loaded": "cas://1"}]}


def test_a_secret_that_is_not_there_is_named_and_its_value_never_is():
    with pytest.raises(TemplateError, match="'nope' is not available"):
        fill({"x": Secret("nope")}, SECRETS.__getitem__)
    assert fill(Secret("number"), SECRETS.__getitem__) == 5
    with pytest.raises(TemplateError, match="'number' is not text") as caught:
        fill(Segments(("a", Secret("number"))), SECRETS.__getitem__)
    assert "5" not in caught.value.message


def test_a_secret_is_found_wherever_it_hides():
    assert find_secret({"a": [1, {"b": Secret("x")}]}) == Secret("x")
    assert find_secret([[Segments(("a",))]]) == Segments(("a",))
    assert find_secret([[BlobRef("cas://1")]]) is None
    assert find_secret({"$perdure:secret": ["{{ secrets.x }}", None, 1]}) is None


def test_the_wire_form_is_what_the_documents_say():
    config = [Secret("t"), Segments(("B ", Secret("x"))), BlobRef("cas://1"), {"$perdure:secret": "t"}]
    assert msgspec.json.decode(dumps(config)) == [
        {"$perdure:secret": "t"},
        {"$perdure:text": ["B ", {"$perdure:secret": "x"}]},
        {"$perdure:blob": "cas://1"},
        {"$perdure:plain": {"$perdure:secret": "t"}},
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"$perdure:secret": 1},
        {"$perdure:secret": "a", "x": 1},
        {"$perdure:text": ["a", 1]},
        {"$perdure:text": "a"},
        {"$perdure:blob": None},
        {"$perdure:plain": []},
        {"$perdure:new": "a"},
    ],
)
def test_a_form_nobody_writes_is_refused(data):
    with pytest.raises(TemplateError, match="unknown form"):
        loads(msgspec.json.encode([data]))


keys = st.sampled_from(
    ["$perdure:secret", "$perdure:text", "$perdure:blob", "$perdure:plain", "$perdure:", "x"]
) | st.text(max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
data = st.recursive(
    scalars | st.text(max_size=12) | st.just("$perdure:secret"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
names = st.text(max_size=6)
segments = (
    st.builds(Secret, names)
    | st.builds(BlobRef, names)
    | st.builds(
        lambda parts: Segments(tuple(parts)), st.lists(st.text(max_size=5) | st.builds(Secret, names), max_size=3)
    )
)
configs = st.recursive(
    data | segments,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(configs)
def test_every_config_survives_the_wire(config):
    assert loads(dumps(config)) == config


@given(data)
def test_no_data_is_ever_taken_for_a_segment(value):
    def refuse(name):
        raise AssertionError(f"{name} was taken for a secret")

    arrived = fill(loads(dumps(show({"k": ["{{ a }}"]}, completed(value)))), refuse, refuse)
    assert arrived == {"k": [value]}
