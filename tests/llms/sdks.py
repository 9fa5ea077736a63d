"""`make oracle`: the libraries of OpenAI and Anthropic beside our codecs, over the scripted server, for generated requests and answers.

A request that a codec makes is given to the library as its arguments: it takes all of them, sends the same body, and its types fit. An
answer that the server makes, streamed and whole, split at every byte, is read alike by the library and by the codec.
"""

# mypy: ignore-errors
import argparse
import asyncio
import json
import random
import sys

import anthropic
import openai

from perdure.llms.port import Call, Image, Message, Params, Prefix, Request, Result, Text, Tool
from perdure.llms.scripted.script import Rule, ScriptedCall, ScriptedUsage
from perdure.llms.scripted.scripted_server import ScriptedServer
from tests.llms import oracle
from tests.llms.helpers import KINDS, asking, call, models_at

WORDS = 'rain Oslo 7 Ärger „quote" back\\slash line\nline \u2028 😀 {json} </end> null'.split(" ")
SCHEMAS = [
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}, "x": {"enum": ["p", "q"]}}},
]
READABLE = ("split", "crlf")
"""Not `comments`: the library of OpenAI takes the end of a comment for an event without data, and fails."""


class Script:
    """The answer that comes next."""

    def __init__(self):
        self.rule = Rule(say="hello")

    def answer(self, asked):
        return self.rule


def text(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def value(rng, depth=0):
    kinds = [lambda: rng.choice([None, True, False]), lambda: rng.randint(-(10**9), 10**9), lambda: text(rng)]
    if depth < 3:
        kinds += [
            lambda: [value(rng, depth + 1) for _ in range(rng.randint(0, 3))],
            lambda: {rng.choice("abcd"): value(rng, depth + 1) for _ in range(rng.randint(0, 3))},
        ]
    return rng.choice(kinds)()


def arguments(rng):
    return {name: value(rng) for name in rng.sample("abcd", rng.randint(0, 3))}


def request(rng):
    """A conversation that may have been, with every part that one may have."""
    tools = tuple(Tool(f"tool_{number}", text(rng), rng.choice(SCHEMAS)) for number in range(rng.randint(0, 4)))
    messages = [Message("user", (Text(text(rng)),))]
    if rng.random() < 0.3:
        messages = [Message("user", (Image("image/png", "aGk="), Text(text(rng))))]
    for turn in range(rng.randint(0, 3) if tools else 0):
        calls = tuple(
            Call(f"c{turn}{number}", rng.choice(tools).name, arguments(rng), f"wire_{turn}{number}")
            for number in range(rng.randint(1, 3))
        )
        said = (Text(text(rng)),) if rng.random() < 0.5 else ()
        results = tuple(Result(one.id, text(rng), rng.random() < 0.2, one.wire_id) for one in calls)
        messages += [Message("assistant", said + calls), Message("user", results)]
    params = Params(
        temperature=rng.choice([None, 0, 0.5]),
        top_p=rng.choice([None, 1]),
        max_output_tokens=rng.choice([None, 9]),
        reasoning=rng.choice([None, "low", "high"]),
        stop=rng.choice([(), ("END",)]),
    )
    examples = (Message("user", (Text("2+2"),)), Message("assistant", (Text("4"),))) if rng.random() < 0.3 else ()
    return Request(
        model="m-1",
        prefix=Prefix(tools, rng.choice(["", text(rng)]), examples),
        messages=tuple(messages),
        params=params,
        schema=rng.choice([None, SCHEMAS[1]]),
        tool_choice=rng.choice(["auto", "none", "required"]) if tools else "auto",
    )


def rule(rng):
    said = {"say": text(rng)} if rng.random() < 0.6 else {}
    calls = tuple(ScriptedCall(f"tool_{rng.randint(0, 4)}", arguments(rng)) for _ in range(rng.randint(0, 3)))
    if not calls and not said:
        said = {"say": text(rng)}
    cached = rng.randint(0, 50)
    usage = ScriptedUsage(input=cached + rng.randint(1, 100), cached=cached, output=rng.randint(1, 100))
    faults = tuple(one for one in READABLE if rng.random() < 0.3)
    return Rule(**said, calls=calls, usage=usage, faults=faults)


async def compare_requests(server, clients, rng, count):
    """What the libraries make of our requests. Says what differs."""
    ours, theirs = clients
    make = {
        "chat": lambda body: ours.chat.completions.create(**body),
        "responses": lambda body: ours.responses.create(**body),
        "anthropic": lambda body: theirs.messages.create(**body),
    }
    wrong = []
    for number in range(count):
        given = request(rng)
        for kind in KINDS:
            codec = models_at(1).get(kind, "default").provider.codec
            body = json.loads(
                json.dumps(codec.body(given, stream=bool(number % 2), native_schema=True, limit=99), default=list)
            )
            try:
                if number % 2:
                    oracle.check(kind, body)
                await asyncio.to_thread(_consume, make[kind], body)
            except Exception as error:  # noqa: BLE001  whatever the library says is what is wrong
                wrong.append(f"{kind} {number}: {type(error).__name__}: {str(error)[:300]}")
                continue
            if server.seen[-1].body != body:
                wrong.append(f"{kind} {number}: the library sends {server.seen[-1].body}, the codec {body}")
    return wrong


def _consume(make, body):
    made = make(body)
    if body.get("stream"):
        for _ in made:
            pass


async def compare_answers(server, script, clients, rng, count):
    """What libraries and codecs read of the same answers. Says what differs."""
    ours, theirs = clients
    read = {"chat": (oracle.chat, ours), "responses": (oracle.responses, ours), "anthropic": (oracle.messages, theirs)}
    wrong = []
    for number in range(count):
        script.rule = rule(rng)
        said = script.rule
        for kind, (look, client) in read.items():
            try:
                spoken, calls, usage = await asyncio.to_thread(look, client, "x")
            except Exception as error:  # noqa: BLE001  whatever the library says is what is wrong
                wrong.append(f"{kind} {number}: {type(error).__name__}: {str(error)[:300]} of {said}")
                continue
            scripted = (
                said.say or "",
                [[one.name, one.arguments] for one in said.calls],
                [said.usage.input, said.usage.cached, said.usage.output],
            )
            if (spoken, calls, usage) != scripted:
                wrong.append(f"{kind} {number}: the library reads {(spoken, calls, usage)} of {scripted}")
            for stream in (True, False):
                got = await call(server, kind, asking("x"), stream=stream)
                parts = [[one.name, one.arguments] for one in got.message.parts if isinstance(one, Call)]
                mine = (got.message.text, parts, [got.usage.input, got.usage.cached, got.usage.output])
                if mine != scripted:
                    wrong.append(f"{kind} {number} {stream}: the codec reads {mine} of {scripted}")
    return wrong


async def judge(seed, count):
    script = Script()
    server = ScriptedServer(script)
    await server.start()
    where = f"http://127.0.0.1:{server.port}"
    clients = (
        openai.OpenAI(api_key="k", base_url=f"{where}/v1", max_retries=0),
        anthropic.Anthropic(api_key="k", base_url=where, max_retries=0),
    )
    rng = random.Random(seed)
    try:
        requests = await compare_requests(server, clients, rng, count)
        answers = await compare_answers(server, script, clients, rng, count)
    finally:
        await server.close()
    versions = f"openai {openai.__version__}, anthropic {anthropic.__version__}"
    print(f"{versions}: {3 * count} requests, {len(requests)} differ; {3 * count} answers, {len(answers)} differ")
    print("\n".join([*requests[:10], *answers[:10]]))
    return 1 if requests or answers else 0


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.llms.sdks", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    return asyncio.run(judge(given.seed, given.count))


if __name__ == "__main__":
    sys.exit(main())
