"""What is read of a stream, of a model's text and of the operator's file: bounded, linear, and never invented."""

import json
import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import SettingsInvalid
from perdure.llms.operator_file import BUILT_IN, Models, open_models, read_models
from perdure.llms.port import LlmError, Request, Usage, hash_of, is_strict
from perdure.llms.prices import Price, built_in, find_price
from perdure.llms.scripted.script import ScriptInvalid, load_script, smallest
from perdure.llms.sse import Events
from perdure.llms.structured import NotJson, read_json
from tests.attack.marks import attack
from tests.llms.helpers import asking

# -- streams -----------------------------------------------------------------------------------------------------------

STREAM = 'event: a\ndata: {"x": "ü"}\n\n: comment\n\ndata: one\ndata: two\nid: 7\n\nevent: only\n\ndata:\n\ndata: lost'
EXPECTED = [("a", '{"x": "ü"}'.encode()), ("", b"one\ntwo"), ("", b"")]


@given(st.lists(st.integers(0, 120), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
def test_events_are_the_same_however_their_bytes_are_cut(cuts, end):
    data = STREAM.replace("\n", end).encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    events = Events()
    found = [event for a, b in pairwise(places) for event in events.feed(data[a:b])]
    assert found == EXPECTED


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader_of_streams(data):
    events = Events()
    for at in range(0, len(data), 7):
        for _, one in events.feed(data[at : at + 7]):
            assert isinstance(one, bytes)


@pytest.mark.parametrize("line", [b"\r", b"\n", b"data\n", b"data: x\r", b":\n"])
def test_a_chunk_of_short_lines_takes_no_time(line):
    chunk = line * (65_536 // len(line))
    events = Events()
    began = time.process_time()
    for _ in events.feed(chunk):
        pass
    assert time.process_time() - began < 0.5  # 20 ms when nothing else runs


def test_one_event_has_an_end():
    events = Events()
    for _ in range(32):
        assert list(events.feed(b"data: " + b"x" * 65_530 + b"\n")) == []
    with pytest.raises(LlmError, match="in one event"):
        list(events.feed(b"data: " + b"x" * 65_530 + b"\n"))


# -- JSON of models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "mended"),
    [
        ('{"a": 1}', {"a": 1}, False),
        ("7", 7, False),
        ('```json\n{"a": [1, 2,],}\n```', {"a": [1, 2]}, True),
        ('Sure, "here" it is: {"a": "x,]}"} as you wished.', {"a": "x,]}"}, True),
        ("[1,\n]", [1], True),
    ],
)
def test_what_stands_around_a_value_is_taken_away(text, value, mended):
    assert read_json(text) == (value, mended)


@pytest.mark.parametrize(
    "text", ["", "no", "{} or {}", '{"a": 1', '{"a" 1}', "{'a': 1}", "[1,,]", "{,}", "NaN", '{"a": undefined}']
)
def test_nothing_is_invented(text):
    with pytest.raises(NotJson):
        read_json(text)


leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
values = st.lists(leaves | st.lists(leaves, max_size=2), max_size=3) | st.dictionaries(
    st.text(max_size=3), leaves, max_size=3
)


@given(
    values,
    st.text("ab \n,:`", max_size=9),
    st.text("ab \n,:`", max_size=9),
)
def test_a_value_with_words_around_it_is_that_value(value, before, after):
    assert read_json(before + json.dumps(value) + after)[0] == value


@given(st.text('{}[]",:\\ a1', max_size=40))
def test_whatever_is_read_stood_in_the_text(text):
    try:
        value, _ = read_json(text)
    except NotJson:
        return
    compact = "".join(text.split())
    assert all(one in compact for one in msgspec.json.encode(value).decode().replace(",", " ").split() if one.isalnum())


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        '{"' + '\\"' * 500_000,
        '"' * 1_000_000,
        "[" * 1_000_000,
        "{" + "," * 1_000_000,
        "```\n" + " " * 1_000_000,
        "{}" * 500_000,
    ],
)
def test_no_text_takes_long(text):
    began = time.process_time()
    with pytest.raises(NotJson):
        read_json(text)
    assert time.process_time() - began < 2.0  # a fifth of that when nothing else runs


# -- requests ----------------------------------------------------------------------------------------------------------


def test_equal_requests_have_one_name_and_others_have_another():
    again = msgspec.convert(msgspec.to_builtins(asking(schema={"b": 1, "a": 2})), Request)
    assert hash_of(again) == hash_of(asking(schema={"a": 2, "b": 1}))
    assert hash_of(asking("hello ")) != hash_of(asking("hello"))


def test_only_schemas_that_name_every_field_are_called_strict():
    closed = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"], "additionalProperties": False}
    assert is_strict(closed)
    assert not is_strict({**closed, "required": []})
    assert not is_strict({"type": "array", "items": {"type": "object"}})


# -- the operator's file and prices ------------------------------------------------------------------------------------


def test_every_problem_of_the_file_is_told_at_once_and_a_key_in_it_is_not_repeated(tmp_path):
    file = tmp_path / "agents.toml"
    file.write_text(
        """
provider = {}
[providers.a]
kind = "openai"
base_url = "http://x"
[providers.b]
kind = "anthropic"
base_url = "http://models.example/v1"
secret = "sk-live-very-secret"
[providers.c]
kind = "anthropic"
base_url = "ftp://models.example"
[models.fast]
provider = "opnai"
model = "x"
[models.slow]
provider = "openai"
model = "x"
max_output = 0
[prices]
"nobody/x" = {input = 1, output = 1}
"openai/x" = {input = -1, output = 1}
"""
    )
    with pytest.raises(SettingsInvalid) as caught:
        open_models(str(file))
    said = caught.value.message
    for part in (
        "'provider'; did you mean 'providers'",
        "providers.a.kind: 'openai'",
        "providers.b: 'secret' must be the name",
        "travel in the open",
    ):
        assert part in said
    for part in (
        "providers.c: base_url",
        "did you mean 'openai'",
        "models.slow",
        "prices.'nobody/x'",
        "prices.openai/x",
    ):
        assert part in said
    assert "sk-live" not in said


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), ("a = ", "not valid TOML")])
def test_a_file_that_cannot_be_read_says_so(tmp_path, content, said):
    file = tmp_path / "agents.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsInvalid, match=said):
        open_models(str(file))


def test_models_are_found_by_name_or_with_their_provider_and_only_by_their_tenants():
    problems: list[str] = []
    models = read_models(
        {
            "providers": {"local": {"kind": "openai_chat", "base_url": "http://127.0.0.1:1/v1", "tenants": ["acme"]}},
            "models": {
                "fast": {"provider": "openai", "model": "gpt-5-mini", "tenants": ["acme"]},
                "own": {"provider": "local", "model": "x"},
            },
        },
        problems,
    )
    assert problems == []
    assert models.names("acme") == ["fast", "own"]
    assert models.names("other") == []
    assert models.get("fast", "acme").full == "openai/gpt-5-mini"
    for name, tenant in (("fast", "other"), ("own", "other"), ("local/x", "other"), ("http://evil.example/v1", "acme")):
        with pytest.raises(LlmError) as caught:
            models.get(name, tenant)
        assert (caught.value.code, caught.value.sent) == ("llm:unknown_model", False)
    with pytest.raises(LlmError, match="did you mean 'fast'"):
        models.get("fats", "acme")
    # a listed model keeps its limits, whichever way it is named
    assert models.get("openai/gpt-5-mini", "acme").row is models.models["fast"]


@attack("X08", "a workflow that names a model which the operator's file does not, of a provider whose models it names")
def test_a_provider_has_the_models_that_the_file_names_and_no_other():
    file: dict[str, Any] = {
        "providers": {"local": {"kind": "openai_chat", "base_url": "http://127.0.0.1:1/v1"}},
        "models": {"fast": {"provider": "openai", "model": "gpt-5-mini"}},
        "prices": {name: {"input": 1, "output": 1} for name in ("openai/gpt-5", "anthropic/claude-haiku-4-5")},
    }
    models = read_models(file, [])
    for name in ("openai/gpt-5-pro", "openai/gpt-5-mini-2025-08-07", "openai/../x"):
        with pytest.raises(LlmError, match="there is no model"):
            models.get(name, "acme")
    # a price names a model too; and of other providers, the file says nothing
    for name in ("openai/gpt-5", "anthropic/claude-opus-4-5", "gemini/x", "local/x"):
        assert models.get(name, "acme").full == name


def test_vendors_are_there_without_a_file_and_their_keys_go_to_https_alone():
    assert Models().get("anthropic/claude-haiku-4-5", "default").provider is BUILT_IN["anthropic"]
    assert all(provider.base_url.startswith("https://") and provider.secret for provider in BUILT_IN.values())


def test_prices_are_found_with_and_without_the_date_of_a_release_and_the_operators_come_first():
    dated = find_price({}, "anthropic", "claude-haiku-4-5-20251001")
    assert dated == built_in()["anthropic/claude-haiku-4-5"]
    own = Price(input=7, output=8)
    assert find_price({"openai/gpt-5-mini": own}, "openai", "gpt-5-mini") == own
    assert find_price({}, "openai", "gpt-unheard-of") is None
    assert len(built_in()) >= 40


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_money_is_exact_and_rounded_up(plain, cached, output):
    price = Price(input=0.25, cached=0.025, output=2)
    exact = plain * 250 + cached * 25 + output * 2000  # in billionths
    assert price.of(Usage(input=plain + cached, cached=cached, output=output)) == -(-exact // 1000)


# -- scripts -----------------------------------------------------------------------------------------------------------


def test_a_script_with_a_mistake_says_where(tmp_path):
    file = tmp_path / "script.yaml"
    file.write_text("rules:\n  - {say: hi, fault: [cut]}\n")
    with pytest.raises(ScriptInvalid, match="fault"):
        load_script(str(file))
    file.write_text("rules: [")
    with pytest.raises(ScriptInvalid, match="not YAML"):
        load_script(str(file))


def test_the_smallest_value_fits_the_schema():
    schema = {
        "type": "object",
        "required": ["a", "b", "c"],
        "properties": {
            "a": {"enum": ["x", "y"]},
            "b": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            "d": {},
        },
    }
    assert smallest(schema) == {"a": "x", "b": [0, 0], "c": "text"}


def test_a_key_that_is_misspelt_is_named_with_what_was_meant():
    problems: list[str] = []
    row = {"provider": "openai", "model": "gpt-5-mini", "max_outputs": 5}
    read_models({"models": {"fast": row}, "prices": {"openai/x": {"input": 1, "output": 1, "cache": 1}}}, problems)
    assert problems == [
        "models.fast: unknown key 'max_outputs'; did you mean 'max_output'?",
        "prices.openai/x: unknown key 'cache'; did you mean 'cached'?",
    ]
