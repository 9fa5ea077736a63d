"""Text to data: what both formats accept, and what is refused before any work is done."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model import compile_definition, compile_text, reader
from perdure.model.problems import Problems
from perdure.model.reader import MAX_BYTES, check_data, read
from tests.model.helpers import codes, message, node, workflow

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4)
    ),
    max_leaves=15,
)


def data_of(text, format=None):
    problems = Problems()
    data, _, _ = read(text, format, problems)
    assert not problems.found, problems.found
    return data


def refused(text, format=None):
    problems = Problems()
    read(text, format, problems)
    return [(f.code, f.line) for f in problems.found]


@given(plain)
def test_json_is_read_as_the_standard_library_reads_it(data):
    text = json.dumps({"x": data})
    assert data_of(text) == json.loads(text)
    assert check_data({"x": data}, Problems())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-7", -7),
        ("+3", 3),
        ("0", 0),
        ("012", "012"),
        ("0o17", "0o17"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-11-15", "2026-11-15"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ('"12"', "12"),
        ("'true'", "true"),
        ("|\n  text", "text"),
        ("<<", "<<"),
    ],
)
def test_yaml_scalars_mean_what_they_look_like(text, value):
    assert data_of(f"x: {text}", "yaml") == {"x": value}


def test_yaml_keys_are_always_text():
    assert data_of("on: 1\nyes: 2\n3: 3\nnull: 4\ntrue: 5", "yaml") == {"on": 1, "yes": 2, "3": 3, "null": 4, "true": 5}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: 1\nb: &x 2\n", "yaml_feature", 2),
        ("a: &x 1\nb: *x\n", "yaml_feature", 1),
        ("a: {b: 1}\nc:\n  <<: {d: 1}\n", "yaml_feature", 3),
        ("a: !!python/object:os.system x\n", "yaml_feature", 1),
        ("a: !thing x\n", "yaml_feature", 1),
        ("a: 1\n---\nb: 2\n", "yaml_feature", 2),
        ("? [a, b]\n: 1\n", "yaml_feature", 1),
        ("a: 1\nb: 2\na: 3\n", "duplicate_key", 3),
        ("a: .nan\n", "number_out_of_range", 1),
        ("a: -.inf\n", "number_out_of_range", 1),
        ("a: 99999999999999999999999\n", "number_out_of_range", 1),
        ("a: 1e999\n", "number_out_of_range", 1),
        ("a: [1, 2\nb: 3\n", "syntax", 2),
        ("a: 'open\n", "syntax", 2),
        ('a: "\\0"\n', "not_utf8", 1),
        ("a: \x01\n", "syntax", None),
    ],
)
def test_yaml_refuses(text, code, line):
    found = refused(text, "yaml")
    assert code in [c for c, _ in found]
    if line is not None:
        assert found[0][1] == line


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('{"a": 1,\n "b": {"c": 1, "c": 2}}', "duplicate_key", 2),
        ('{"a": 1, "\\u0061": 2}', "duplicate_key", 1),
        ('{"a":\n NaN}', "number_out_of_range", 2),
        ('{"a": -Infinity}', "number_out_of_range", 1),
        ('{"a": 1e999}', "number_out_of_range", 1),
        ('{"a": 18446744073709551616}', "number_out_of_range", 1),
        ('{"a": ' + "9" * 5000 + "}", "number_out_of_range", 1),
        ('{"a": ' + "9" * 5000 + ".5}", "number_out_of_range", 1),
        ('{"a": "\\ud800"}', "not_utf8", 1),
        ('{"a": "\\u0000"}', "not_utf8", 1),
        ('{"\\udc00": 1}', "not_utf8", 1),
        ('{"a": "\ud800"}', "not_utf8", 1),
        ('{"a": 1,}', "syntax", 1),
        ('{"a": 1', "syntax", 1),
        ("{'a': 1}", "syntax", 1),
        ('{"a": 1}\n}', "syntax", 2),
        ('{"a": "x\ny"}', "syntax", 1),
        ('\n\n{"a": tru}', "syntax", 3),
    ],
)
def test_json_refuses(text, code, line):
    assert refused(text, "json")[0] == (code, line)


def test_surrogate_pairs_are_whole_characters():
    assert data_of('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_a_comment_in_json_is_named_as_such():
    result = compile_text('{"name": "w", // the name\n "nodes": []}')
    assert "JSON has no comments" in message(result, "syntax")
    assert (result.problems[0].line, result.problems[0].column) == (1, 15)


def test_a_byte_order_mark_is_ignored_and_bytes_are_accepted():
    assert data_of(b'\xef\xbb\xbf{"a": "\xc3\xa9"}') == {"a": "é"}


def test_empty_text_is_an_empty_workflow():
    assert codes("") == codes(b"  \n") == {"empty_workflow"}
    assert codes("# only a comment\n") == {"wrong_type"}


@pytest.mark.parametrize("top", ["[]", "3", '"x"', "null", "- a", "just text"])
def test_a_definition_that_is_no_mapping_is_refused(top):
    assert "wrong_type" in codes(top)


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        "[" * 200_000 + "]" * 200_000,
        '{"x": "' + '\\"' * 300_000,
        '\\"' * 300_000,
        "{" + '"' * 300_000,
        "- " * 100_000,
        "{a: " * 100_000,
        "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(2000)),
        "? " * 50_000,
        "x: " + "'" * 100_001,
        "&a " * 100_000,
        "%TAG ! x\n" * 10_000,
        "\t" * 100_000,
        "a:\n" + "".join(" " * i + "b:\n" for i in range(1, 400)),
        b"\xff" * 100_000,
        "\0" * 100_000,
        "x" * (MAX_BYTES + 1),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("format", ["json", "yaml", None])
def test_bombs_are_refused_quickly(bomb, format):
    started = time.process_time()
    result = compile_text(bomb, format=format)
    assert result.ir is None
    assert result.problems
    assert time.process_time() - started < 5


@pytest.mark.slow
def test_data_from_python_has_the_same_limits(monkeypatch):
    monkeypatch.setattr(reader, "MAX_VALUES", 100_000)  # what is counted to five million takes seconds
    loop: dict = {}
    loop["self"] = loop
    shared: list = ["x"]
    for _ in range(40):
        shared = [shared, shared]
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert codes(workflow(node("a", config=loop))) == {"too_deep"}
    assert codes(workflow(node("a", config={"x": deep}))) == {"too_deep"}
    assert codes(workflow(node("a", config={"x": shared}))) == {"too_large"}
    assert codes(workflow(node("a", config={"x": float("nan")}))) == {"number_out_of_range"}
    assert codes(workflow(node("a", config={"x": 2**70}))) == {"number_out_of_range"}
    assert codes(workflow(node("a", config={"x": "\ud800"}))) == {"not_utf8"}
    assert codes(workflow(node("a", config={"\0": 1}))) == {"not_utf8"}
    assert codes(workflow(node("a", config={1: 1}))) == {"not_plain_data"}
    assert codes(workflow(node("a", config={"x": b"y"}))) == {"not_plain_data"}


def test_the_given_data_is_copied_and_tuples_become_lists():
    config: dict = {"x": (1, 2)}
    ir = compile_definition(workflow(node("a", config=config))).get_ir()
    config["x"] = ()
    assert ir.nodes[0] is not None
    assert ir.nodes[0].config == {"x": [1, 2]}


@given(st.binary(max_size=300))
def test_garbage_bytes_give_problems_and_never_an_exception(data):
    for format in ("json", "yaml", None):
        result = compile_text(data, format=format)
        assert result.ir is None
        assert result.problems


@given(st.text(st.sampled_from('{}[]":,-& *!|>?%@`#\n\t ab01.~<\\u'), max_size=120))
def test_garbage_syntax_gives_problems_and_never_an_exception(text):
    for format in ("json", "yaml"):
        assert compile_text(text, format=format).ir is None
