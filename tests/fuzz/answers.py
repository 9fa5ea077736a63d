"""Answers of models that are broken on the way: whatever comes, it is an answer or an error of its own, however it is cut into chunks."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec

from perdure.llms.port import LlmError
from perdure.llms.scripted.script import Asked, Rule, ScriptedCall, ScriptedUsage
from perdure.llms.scripted.shapes import FORMATS, make_answer
from perdure.llms.sse import Events
from perdure.llms.wire import _refuse_heavy
from tests.fuzz import making
from tests.llms.helpers import models_at

CODECS = {path: models_at(1).get(kind, "default").provider.codec for path, kind in (
    ("/v1/chat/completions", "chat"), ("/v1/responses", "responses"), ("/v1/messages", "anthropic"),
)}  # fmt: skip
ASKED = Asked("m-1", "hello", 1, None, stream=True, text="hello")
ENDS = (b"\n", b"\r\n", b"\r")
NOISE = (
    b"data: ",
    b"data: [DONE]\n\n",
    b"event: error\n",
    b"\n\n",
    b": \n",
    b"\x00",
    b"\xff",
    b'{"a":',
    b"[" * 50,
    b"null",
    b"1e999",
    b'"\\ud800"',
)
Outcome = tuple[Any, ...]


def read_answer(random: Random) -> None:
    path = random.choice(sorted(CODECS))
    stream = _break(random, _stream(random, path))
    whole = _read(path, [stream])
    assert whole[0] != "error" or whole[2], whole
    assert _read(path, _cut(random, stream)) == whole, "another answer when it comes in other chunks"


def _stream(random: Random, path: str) -> bytes:
    value = making.value(random, 2)
    calls = tuple(
        ScriptedCall(f"tool_{number}", {"a": making.value(random, 2)}) for number in range(random.randint(0, 2))
    )
    usage = ScriptedUsage(input=random.randint(0, 9), output=random.randint(0, 9))
    said: dict[str, Any] = random.choice([{"data": value}, {"say": making.word(random)}])
    answer = make_answer(Rule(**said, calls=calls, usage=usage, thinking=random.choice(["", "hm"])), ASKED)
    end = random.choice(ENDS)
    lines = b""
    for kind, data in FORMATS[path][2](answer):
        text = data.encode(errors="replace") if isinstance(data, str) else json.dumps(data, default=str).encode()
        lines += (b"event: " + kind.encode() + end if kind else b"") + b"data: " + text + end + end
    return lines


def _break(random: Random, stream: bytes) -> bytes:
    for _ in range(random.choice([0, 1, 1, 2, 5])):
        at = random.randint(0, len(stream))
        match random.randint(0, 4):
            case 0:
                stream = stream[:at]
            case 1:
                stream = stream[:at] + random.choice(NOISE) + stream[at:]
            case 2:
                stream = stream[:at] + bytes([random.randint(0, 255)]) + stream[at + 1 :]
            case 3:
                until = min(len(stream), at + random.randint(0, 200))
                stream = stream[:at] + stream[at:until] * 2 + stream[until:]
            case _:
                stream = stream[:at] + random.randbytes(random.randint(1, 20)) + stream[at:]
    return stream


def _cut(random: Random, stream: bytes) -> list[bytes]:
    if len(stream) < 2_000 and random.random() < 0.2:
        return [stream[at : at + 1] for at in range(len(stream))]
    places = sorted(random.randint(0, len(stream)) for _ in range(random.randint(0, 8)))
    return [stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)]


def _read(path: str, chunks: list[bytes]) -> Outcome:
    """As `wire.py` does. Nothing but the errors that it knows may be raised."""
    reader, events = CODECS[path].reader(None), Events()
    try:
        for chunk in chunks:
            for event, data in events.feed(chunk):
                _refuse_heavy(data)
                if reader.feed(event, data):
                    return "answer", msgspec.json.encode(reader.finish())
        return "answer", msgspec.json.encode(reader.finish())
    except LlmError as error:
        return "error", error.code, error.code.startswith("llm:")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return "no answer", type(error).__name__
