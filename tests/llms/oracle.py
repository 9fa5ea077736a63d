"""What the vendors' own libraries read of the scripted server, and what they say of our requests. Run when a codec, a shape of the server or a library changes; `make oracle` does it, and compares generated ones (`sdks.py`):

    perdure llm-server --script tests/llms/oracle.yaml --port 8792 python tests/llms/oracle.py 8792

It writes `recorded.json`, which `test_oracle.py` compares with our codecs. `requests.json`, which that test writes from our codecs
when it is run with PERDURE_TEST_RECORD=1, is checked here against the types of the libraries: no key that they do not know, and
every value of the type they say.
"""

# mypy: ignore-errors
import json
import sys
import typing
from pathlib import Path

import anthropic
import openai
import pydantic
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

HERE = Path(__file__).parent
WORDS = ("hello", "tools", "refuse", "long")


def chat(client, word):
    request = {"model": "m-1", "messages": [{"role": "user", "content": word}]}
    whole = client.chat.completions.create(**request)
    text, calls, finish, usage = [], {}, None, None
    for chunk in client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text.append(choice.delta.content or choice.delta.refusal or "")
            finish = choice.finish_reason or finish
            for one in choice.delta.tool_calls or ():
                name, arguments = calls.setdefault(one.index, ["", ""])
                calls[one.index] = [one.function.name or name, arguments + (one.function.arguments or "")]
    message = whole.choices[0].message
    assert (message.content or message.refusal or "") == "".join(text)
    assert (whole.usage, whole.choices[0].finish_reason) == (usage, finish)
    found = [[name, json.loads(arguments)] for name, arguments in calls.values()]
    return (
        "".join(text),
        found,
        [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens],
    )


def responses(client, word):
    whole = client.responses.create(model="m-1", input=word)
    with client.responses.stream(model="m-1", input=word) as stream:
        last = [event for event in stream if event.type in ("response.completed", "response.incomplete")][-1].response
    assert last.model_dump(exclude={"output"}) == whole.model_dump(exclude={"output"})
    texts = [
        getattr(part, "text", None) or part.refusal
        for item in whole.output
        if item.type == "message"
        for part in item.content
    ]
    calls = [[item.name, json.loads(item.arguments)] for item in last.output if item.type == "function_call"]
    usage = whole.usage
    return "".join(texts), calls, [usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens]


def messages(client, word):
    request = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": word}]}
    whole = client.messages.create(**request)
    with client.messages.stream(**request) as stream:
        last = stream.get_final_message()
    assert [block.model_dump() for block in last.content] == [block.model_dump() for block in whole.content]
    assert last.stop_reason == whole.stop_reason
    usage = last.usage
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    text = "".join(block.text for block in last.content if block.type == "text")
    calls = [[block.name, block.input] for block in last.content if block.type == "tool_use"]
    return text, calls, [usage.input_tokens + read + written, read, usage.output_tokens]


def check(kind, body):
    """Whether a body is one that the library could have made: its type knows every key and value."""
    known = {
        "chat": CompletionCreateParamsStreaming,
        "responses": ResponseCreateParamsStreaming,
        "anthropic": MessageCreateParamsStreaming,
    }[kind]
    unknown = body.keys() - typing.get_type_hints(known).keys()
    assert not unknown, f"{kind}: unknown keys {unknown}"
    pydantic.TypeAdapter(known).validate_python(body)


def main():
    where = f"http://127.0.0.1:{sys.argv[1]}"
    ours = openai.OpenAI(api_key="k", base_url=f"{where}/v1", max_retries=0)
    theirs = anthropic.Anthropic(api_key="k", base_url=where, max_retries=0)
    found = {"openai": openai.__version__, "anthropic": anthropic.__version__}
    for word in WORDS:
        found[word] = {
            "chat": chat(ours, word),
            "responses": responses(ours, word),
            "anthropic": messages(theirs, word),
        }
    (HERE / "recorded.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    checked = 0
    for kind, bodies in json.loads((HERE / "requests.json").read_text(encoding="utf-8")).items():
        for body in bodies:
            check(kind, body)
            checked += 1
    print(f"{len(WORDS) * 3} answers recorded, {checked} requests fit")


if __name__ == "__main__":
    main()
