"""Nothing in a template reaches Python, nothing in one runs long, and what outputs contain is never a template."""

import builtins
import os
import subprocess
import sys
import time
import tracemalloc
from contextlib import ExitStack, contextmanager
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.expressions.errors import NeedsBlob, TemplateError
from perdure.expressions.rendered_config import BlobRef, Secret, Segments, dumps, fill, loads
from perdure.expressions.templates import find_mistake
from tests.expressions.helpers import completed, show
from tests.expressions.payloads import expressions, payloads

PLAIN = (dict, list, str, int, float, bool, type(None))


def is_plain(value):
    if type(value) is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    return all(map(is_plain, value)) if type(value) is list else type(value) in PLAIN


@contextmanager
def no_python():
    """Files, processes and code are traps while the payloads run."""

    def trap(*arguments, **named):
        raise AssertionError(f"a template reached Python: {arguments!r}")

    with ExitStack() as stack:
        for module, name in [(os, "system"), (os, "popen"), (subprocess, "Popen")]:
            stack.enter_context(mock.patch.object(module, name, trap))
        for name in ("open", "eval", "exec"):  # `compile` reads number literals in Jinja's lexer
            stack.enter_context(mock.patch.object(builtins, name, trap))
        yield


def test_the_corpus_is_large():
    assert len(set(expressions())) >= 150
    assert len(set(payloads())) >= 900


@pytest.mark.slow
def test_every_payload_is_refused_with_a_template_error():
    show("{{ 1 + 1 }}")  # what is imported late is imported now
    modules = set(sys.modules)
    escaped = []
    with no_python():
        for payload in payloads():
            try:
                escaped.append((payload, show(payload, item={"k": 1})))
            except TemplateError:
                continue
    assert escaped == []
    assert set(sys.modules) == modules


@pytest.mark.parametrize("expression", expressions())
def test_a_payload_in_an_output_arrives_as_text(expression):
    text = "{{ " + expression + " }}"
    nodes = completed({"t": text, "l": [text]})
    assert show(["{{ a.t }}", "<{{ a.t }}>", "{{ a.l }}", "{{ a.t ~ '' }}"], nodes) == [text, f"<{text}>", [text], text]


@pytest.mark.parametrize("text", [r"{{ '\ud800' }}", r"x{{ '\udfff' }}y", r"{{ {'\x00': 1} }}", r"{{ ['\u0000'] }}"])
def test_no_text_that_no_database_keeps_comes_from_an_escape(text):
    assert "half a surrogate pair" in (find_mistake(text) or "")
    with pytest.raises(TemplateError, match="half a surrogate pair"):
        show(text)


BOMBS = [
    "{{ 'a' * 1000000000 }}",
    "{{ 'a' * 10**9 }}",
    "{{ [0] * 10**9 }}",
    "{{ 9**9**9 }}",
    "{{ 9**9**9**9**9 }}",
    "{{ 10**100 * 10**100 }}",
    "{{ 2.0**99999 }}",
    "{{ 'x'.center(2000000000) }}",
    "{{ 'x' | center(2000000000) }}",
    "{{ '%2000000000d' % 1 }}",
    "{{ '{:>2000000000}'.format(1) }}",
    "{{ range(99999999) | list }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{{ 1 | round(-999999999) }}",
    "{{ a.t | replace('', a.t) }}",
    "{{ a.t | replace('x', a.t) | replace('x', a.t) }}",
    "{{ a.t ~ " * 30 + "a.t" + " }}" * 1,
    "{{ [a.t, a.t, a.t, a.t] | join(a.t * 3) }}",
    "{{ a.l | join(a.t) }}",
    "{{ " + " ~ ".join(["a.t"] * 200) + " }}",
    "{{ " + "+".join(["a.t"] * 200) + " }}",
    "{{ [" + ",".join(["a.l"] * 250) + "] | tojson }}",
    "{{ [" + ",".join(["a.l"] * 250) + "] }}",
    "{{ a.t }}" * 200,
    "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "{{ " + "[" * 99 + "]" * 99 + " }}",
    "{{ " + "not " * 5000 + "1 }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ " + "1+" * 5000 + "1 }}",
    "{{ " + "a." * 5000 + "a }}",
    "{{ " + "1 if 1 else " * 290 + "1 }}",
    "{{ " + "9" * 5000 + " }}",
    "{{ '" + "\\x41" * 2000 + "' }}",
    "{{" * 20000,
    "{{ a" + "|upper" * 500 + " }}",
    "{{ a.deep | tojson }}",
    "{{ a.deep == a.deeper }}",
]


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_a_bomb_ends_soon_and_small(bomb):
    deep: list = []
    deeper: list = []
    for _ in range(100_000):
        deep, deeper = [deep], [deeper]
    nodes = completed({"t": "x" * 30_000, "l": list(range(10_000)), "deep": deep, "deeper": deeper})
    show("{{ 1 + 1 }}")
    tracemalloc.start()
    try:
        began = time.process_time()  # what it costs, not how busy the machine is
        with pytest.raises(TemplateError):
            show(bomb, nodes)
        assert time.process_time() - began < 1
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
        while deep:
            deep, deeper = deep[0], deeper[0]


braces = st.lists(
    st.sampled_from(
        ["{{", "}}", "{%", "%}", "{#", " ", "7*7", "secrets.token", "a.x", "inputs", "|", "'", '"', "\\", "-"]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)


@given(braces)
@example("{{ secrets.token }}")
@example("{{7*7}}")
@example("{% raw %}")
def test_outputs_are_rendered_once_in_every_kind_of_field(text):
    nodes = completed({"t": text, "l": [text, {"k": text}]})
    config = {
        "whole": "{{ a.t }}",
        "output": "{{ a }}",
        "list": "{{ a.l }}",
        "text": "<{{ a.t }}>",
        "twice": "{{ a.t }}{{ a.t }}",
        "concat": "{{ a.t ~ '!' }}",
        "default": "{{ a.t | default('x') }}",
        "nothing": "{{ a.nope | default(a.t) }}",
        "item": ["{{ a.l[0] }}", {"deep": "{{ a.l[1].k }}"}],
        "dict": "{{ {'k': a.t} }}",
        "secret": "{{ a.t }}{{ secrets.token }}",
        "joined": "{{ [a.t, a.t] | join('') }}",
    }
    rendered = fill(loads(dumps(show(config, nodes))), {"token": "S"}.__getitem__)
    assert rendered == {
        "whole": text,
        "output": {"t": text, "l": [text, {"k": text}]},
        "list": [text, {"k": text}],
        "text": f"<{text}>",
        "twice": text + text,
        "concat": f"{text}!",
        "default": text,
        "nothing": text,
        "item": [text, {"deep": text}],
        "dict": {"k": text},
        "secret": f"{text}S",
        "joined": text + text,
    }


words = st.sampled_from(
    "a a.x a.rows a.text inputs inputs.list run loop item stored skipped nobody secrets secrets.token my-node _ __class__ 0 1 2.5 "
    "99999999999 1e999 'x' \"y\" '\\x' true none ( ) [ ] { } , : . .. | ~ + - * / // % ** == != < > <= >= = in is not and or if else "
    "default upper int round join sort tojson replace length attr map defined odd {{ }} {% %} {# #} -}} {{- # @ \\ é \ud800 \x00".split()
)
soup = st.lists(words, max_size=25).map(" ".join)


@given(soup | st.text(max_size=60), st.booleans())
def test_no_text_raises_anything_but_the_declared_errors(text, inside):
    template = "{{ " + text + " }}" if inside else text
    try:
        value = show(template, item={"k": [1]})
    except (TemplateError, NeedsBlob):
        return
    assert is_plain(value) or type(value) in (Secret, Segments, BlobRef)
    assert show(template, item={"k": [1]}) == value
