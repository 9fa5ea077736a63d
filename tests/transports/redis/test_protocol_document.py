"""docs/reference/worker-protocol.md: its messages are messages, its calls are those of the scripts, its code signs."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.transport import Result, Task, WorkerBeat
from perdure.transports.envelopes import Keyring
from perdure.transports.redis.messages import Answer, Messages, Wish
from perdure.transports.redis.scripts import all_scripts

DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "worker-protocol.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json (\w+)\n(.*?)\n```", DOCUMENT, re.DOTALL)
TYPES: dict[str, Any] = {"task": Task, "result": Result, "begin": Wish, "grant": Answer, "beat": WorkerBeat}


def test_every_kind_of_message_has_an_example():
    assert {kind for kind, _ in EXAMPLES} == set(TYPES)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_an_example_is_a_message_without_unknown_fields(kind, text):
    assert Messages(None).decode(kind, text.encode(), b"") is not None
    given = json.loads(text)
    assert given.pop("v") == 1
    assert set(given) <= {field.name for field in msgspec.structs.fields(TYPES[kind])}
    assert "\n" not in text


@pytest.mark.parametrize("kind", ["task", "result"])
def test_every_field_is_explained(kind):
    rows = "".join(re.findall(r"^\| `.*$", DOCUMENT, re.MULTILINE))
    named = set(re.findall(r"`(\w+)`", rows))
    allowed = {
        "v",
        "output_ref",
        "step",
    }  # not for workers outside Perdure: they need the blob store, or the step protocol
    missing = {field.name for field in msgspec.structs.fields(TYPES[kind])} - named - allowed
    assert missing == set()


def test_scripts_are_called_with_as_many_keys_as_they_document():
    calls = re.findall(r"EVALSHA <hash of (\w+)> (\d)", DOCUMENT)
    assert {name for name, _ in calls} == {"beat", "check", "claim", "append_chunks", "keep_piece"}
    for name, number in calls:
        used = set(re.findall(r"KEYS\[(\d)\]", all_scripts()[name].text))
        assert max(map(int, used), default=5) == int(number), name


def test_the_code_signs_as_perdure_does():
    [code] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    key = b"k" * 32
    for kind, text in EXAMPLES:
        ours = Keyring({"k1": key}).sign(kind, "acme", text.encode())
        assert names["sign"]("k1", key, kind, "acme", text.encode()) == ours
