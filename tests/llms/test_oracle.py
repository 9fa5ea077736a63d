"""Our codecs against what the vendors' own libraries read and accept (`oracle.py`, recorded)."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from perdure.llms.openai_chat import OpenAIChat
from perdure.llms.operator_file import read_models
from perdure.llms.port import Call, Image, Message, Params, Prefix, Request, Result, Text, Thinking, Tool
from perdure.llms.scripted.script import load_script
from perdure.llms.scripted.scripted_server import ScriptedServer
from tests.llms.helpers import KINDS, asking, call, models_at

HERE = Path(__file__).parent
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPAQUE = {
    "chat": None,
    "responses": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    "anthropic": {"type": "thinking", "thinking": "hm", "signature": "x"},
}


def requests(kind):
    """Requests with everything that a request may have."""
    tools = (Tool("b", "B.", {"type": "object", "properties": {}}), Tool("a", "A.", CLOSED))
    said = Message("assistant", (Text("I look."), Call("c0", "a", {"a": "x"}, "call_0"), Call("c1", "b", "not json")))
    thought = (Message("assistant", (Thinking(OPAQUE[kind]), *said.parts)),) if OPAQUE[kind] else (said,)
    results = Message("user", (Result("c0", "42", wire_id="call_0"), Result("c1", "no", failed=True)))
    image = Message("user", (Image("image/png", "aGk="), Text("look")))
    params = Params(temperature=0.5, top_p=1, max_output_tokens=7, seed=3, reasoning="low", stop=("END",))
    examples = (Message("user", (Text("2+2"),)), Message("assistant", (Text("4"),)))
    yield asking()
    yield asking(prefix=Prefix(tools, "Be brief.", examples), params=params, schema=CLOSED)
    yield asking(schema={"type": "object"}, tool_choice="required", prefix=Prefix(tools))
    yield Request(model="m-1", prefix=Prefix(tools), messages=(image, *thought, results))


def bodies(kind):
    codec = models_at(1).get(kind, "default").provider.codec
    return [
        msgspec.json.decode(msgspec.json.encode(codec.body(request, stream=True, native_schema=True, limit=99)))
        for request in requests(kind)
    ]


def test_requests_are_those_that_the_libraries_accept():
    made = {kind: bodies(kind) for kind in KINDS}
    file = HERE / "requests.json"
    if os.environ.get("PERDURE_TEST_RECORD"):
        file.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert made == json.loads(file.read_text(encoding="utf-8")), "see oracle.py"


@pytest.mark.slow
async def test_answers_are_read_as_the_libraries_read_them():
    recorded = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))
    server = ScriptedServer(load_script(str(HERE / "oracle.yaml")))
    await server.start()
    try:
        for word in ("hello", "tools", "refuse", "long"):
            for kind in KINDS:
                for stream in (True, False):
                    got = await call(server, kind, asking(word), stream=stream)
                    calls = [[one.name, one.arguments] for one in got.message.parts if isinstance(one, Call)]
                    usage = [got.usage.input, got.usage.cached, got.usage.output]
                    assert [got.message.text, calls, usage] == recorded[word][kind], (word, kind, stream)
    finally:
        await server.close()


def test_older_servers_are_told_the_limit_in_their_word():
    body = OpenAIChat("max_tokens").body(asking(), stream=False, native_schema=True, limit=99)
    assert (body["max_tokens"], "max_completion_tokens" in body, "stream" in body) == (99, False, False)
    problems: list[str] = []
    row = {"kind": "openai_chat", "base_url": "https://x.example/v1", "limit_field": "max_length"}
    read_models({"providers": {"x": row}}, problems)
    assert "limit_field" in problems[0]
