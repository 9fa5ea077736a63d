"""The codecs against the scripted server, over real HTTP: what arrives is the same in every wire format, however it comes."""

import asyncio

import pytest

from perdure.clock import system
from perdure.llms import calls, sse
from perdure.llms.port import Call, LlmError, Message, Params, Prefix, Result, Text, Thinking, Tool, Usage
from perdure.llms.scripted.scripted_server import serving
from perdure.llms.wire import exchange
from perdure.outcomes import Failure
from tests.llms.helpers import KINDS, Heard, answer, asking, call, models_at

pytestmark = pytest.mark.slow

every_kind = pytest.mark.parametrize("kind", KINDS)
CALLS = [{"name": "look", "arguments": {"id": 7, "s": "ü"}}, {"name": "other"}]
USAGE = {"input": 30, "cached": 10, "written": 5, "output": 9}


@every_kind
@pytest.mark.parametrize("stream", [True, False])
async def test_text_calls_thinking_and_usage_arrive_the_same_in_every_format(kind, stream):
    rules = [{"say": "I look.", "calls": CALLS, "thinking": "hm hm", "usage": USAGE}]
    async with serving(rules) as server:
        heard = Heard()
        found = models_at(server.port, stream=stream).get(kind, "default")
        got = await exchange(found, asking(), "key-1", tenant="default", on_delta=heard)
    assert (got.message.text, got.finish, got.model) == ("I look.", "calls", "m-1")
    assert [part for part in got.message.parts if isinstance(part, Call)] == [
        Call("c0", "look", {"id": 7, "s": "ü"}, "call_0"),
        Call("c1", "other", {}, "call_1"),
    ]
    assert got.usage == Usage(30, 10, 5, 9, calls=1)
    assert heard.text() == "I look."
    if kind != "chat":  # what its provider wants back, as it came
        assert len([part for part in got.message.parts if isinstance(part, Thinking)]) == 1


@every_kind
@pytest.mark.parametrize(
    "faults",
    [["split"], ["crlf"], ["comments"], ["split", "crlf", "comments"], ["huge"], ["missing_ids"], ["duplicate_ids"]],
    ids="-".join,
)
async def test_whatever_happens_to_the_bytes_the_answer_is_the_same(kind, faults):
    async with serving([{"say": "grüße, 世界", "calls": CALLS, "faults": faults}]) as server:
        got = await call(server, kind)
    assert got.message.text.startswith("grüße, 世界")
    assert len(got.message.text) == (1_000_000 + 9 if "huge" in faults else 9)
    calls = [part for part in got.message.parts if isinstance(part, Call)]
    assert [(one.id, one.name, one.arguments) for one in calls] == [
        ("c0", "look", {"id": 7, "s": "ü"}),
        ("c1", "other", {}),
    ]


@every_kind
async def test_arguments_that_are_no_json_stay_text(kind):
    async with serving([{"calls": CALLS[:1], "faults": ["truncated_arguments"]}]) as server:
        got = await call(server, kind)
    assert got.message.parts[-1].arguments == '{"id":7,"s":"ü"'


@every_kind
@pytest.mark.parametrize(
    ("rule", "finish"),
    [({"finish": "length"}, "length"), ({"finish": "refused"}, "refused"), ({"finish": "filtered"}, "filtered")],
)
async def test_why_a_model_stopped_is_told(kind, rule, finish):
    async with serving([{"say": "No.", **rule}]) as server:
        got = await call(server, kind)
    expected = "refused" if (kind, finish) == ("anthropic", "filtered") else finish
    assert (got.finish, got.message.text) == (expected, "No.")


@every_kind
@pytest.mark.parametrize(
    ("rule", "code", "retryable"),
    [
        ({"status": 400, "error": "invalid_request_error"}, "llm:bad_request", False),
        ({"status": 400, "say": "prompt is too long: 9 tokens"}, "llm:context_too_long", False),
        ({"status": 400, "error": "context_length_exceeded"}, "llm:context_too_long", False),
        ({"status": 401, "error": "authentication_error", "say": "bad key-1"}, "llm:auth", False),
        ({"status": 403}, "llm:auth", False),
        ({"status": 404}, "llm:unknown_model", False),
        ({"status": 408}, "llm:timeout", True),
        ({"status": 409}, "llm:overloaded", True),
        ({"status": 429}, "llm:rate_limited", True),
        ({"status": 429, "error": "insufficient_quota"}, "llm:rate_limited", False),
        ({"status": 500}, "llm:overloaded", True),
        ({"status": 529, "error": "overloaded_error"}, "llm:overloaded", True),
        ({"faults": ["redirect"]}, "llm:bad_request", False),
        ({"say": "a b c d e f", "faults": ["cut"]}, "llm:network", True),
        ({"say": "a b c d e f", "faults": ["error_between"]}, "llm:overloaded", True),
        ({"say": "hi", "faults": ["bad_utf8"]}, "llm:network", True),
        ({"say": "hi", "faults": ["empty_choices"]}, "llm:network", True),
        ({"say": "hi", "faults": ["packed"]}, "llm:network", False),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_every_way_to_fail_has_its_code(kind, rule, code, retryable):
    async with serving([rule]) as server:
        with pytest.raises(LlmError) as caught:
            await call(server, kind)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert "key-1" not in f"{caught.value.message} {caught.value.details}"


@every_kind
async def test_an_answer_without_an_end_is_not_read_to_the_end(kind, monkeypatch):
    monkeypatch.setattr(sse, "MAX_BYTES", 100_000)
    async with serving([{"say": "a b", "faults": ["endless"]}]) as server:
        with pytest.raises(LlmError, match="more than 100,000 bytes"):
            await call(server, kind)


@every_kind
@pytest.mark.parametrize("fault", ["silence_before", "silence_between", "pings"])
async def test_a_provider_that_falls_silent_is_given_up(kind, fault):
    async with serving([{"say": "a b", "faults": [fault]}]) as server:
        with pytest.raises(LlmError) as caught:
            await call(server, kind, first_seconds=0.2, between_seconds=0.2)
    assert (caught.value.code, caught.value.retryable, caught.value.sent) == ("llm:timeout", True, True)


async def test_nothing_was_sent_where_nobody_listens():
    async with serving() as server:
        port = server.port
    with pytest.raises(LlmError) as caught:
        await exchange(models_at(port).get("chat", "default"), asking(), "", tenant="default")
    assert (caught.value.code, caught.value.retryable, caught.value.sent) == ("llm:network", True, False)


@every_kind
async def test_a_conversation_goes_back_as_its_provider_wrote_it(kind):
    tool = Tool("look", "Looks.", {"type": "object", "properties": {}})
    request = asking("tools", prefix=Prefix((tool,), "Be brief."))
    async with serving([{"when": {"turn": 1}, "say": "I look.", "calls": CALLS[:1], "thinking": "hm"}]) as server:
        got = await call(server, kind, request)
        made = next(part for part in got.message.parts if isinstance(part, Call))
        found = Message("user", (Result(made.id, "42", wire_id=made.wire_id),))
        await call(server, kind, _more(request, got, found))
        first, second = (one.body for one in server.seen)
    sent = str(second)
    assert ("call_0" in sent, "42" in sent, "opaque" in sent) == (True, True, kind != "chat")
    key = {"chat": "messages", "responses": "input", "anthropic": "messages"}[kind]
    assert second[key][: len(first[key])] == first[key]  # what was said before is said the same again
    assert second["tools"] == first["tools"]


def _more(request, got, message):
    import msgspec

    return msgspec.structs.replace(request, messages=(*request.messages, got.message, message))


# -- tries -------------------------------------------------------------------------------------------------------------


async def test_a_model_is_asked_again_in_place_and_waits_as_long_as_it_is_told(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(system, "sleep", sleep)
    rules = [
        {"times": 1, "status": 429, "retry_after": 3},
        {"times": 1, "status": 429, "retry_after": "date"},
        {
            "times": 1,
            "status": 429,
            "headers": {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2s"},
        },
    ]
    async with serving(rules) as server:
        models = models_at(server.port)
        with pytest.raises(Failure) as caught:
            await answer([models.get("chat", "default")])
        assert (waits, caught.value.retry_after) == ([3.0, 2.0], 62.0)  # a minute is the node's to wait
        assert (await answer([models.get("chat", "default")])).response.message.text == "You said: hello"
        assert len(server.seen) == 4


async def test_after_four_tries_the_node_fails_and_may_be_tried_again(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(system, "sleep", sleep)
    async with serving([{"status": 500}]) as server:
        with pytest.raises(Failure) as caught:
            await answer([models_at(server.port).get("chat", "default")])
        assert len(server.seen) == 4
    assert (caught.value.code, caught.value.retryable) == ("llm:overloaded", True)
    assert [0.25 <= waits[0] <= 0.5, 1 <= waits[1] <= 2, 4 <= waits[2] <= 8] == [True] * 3


async def test_another_model_stands_in_for_one_that_cannot_and_not_for_a_refused_key(monkeypatch):
    monkeypatch.setattr(calls, "FIRST_WAIT_SECONDS", 0.001)
    rules = [
        {"when": {"anywhere": "max_tokens"}, "say": "from the other"},
        {"when": {"contains": "busy"}, "status": 529},
        {"when": {"contains": "key"}, "status": 401},
        {"when": {"contains": "long"}, "status": 413},
    ]
    async with serving(rules) as server:
        both = [models_at(server.port).get(name, "default") for name in ("responses", "anthropic")]
        for word in ("busy", "long"):
            got = await answer(both, asking(word))
            assert (got.response.message.text, got.found.name) == ("from the other", "anthropic")
        with pytest.raises(Failure, match="refuses the key"):
            await answer(both, asking("key"))


async def test_a_missing_key_is_named_and_nothing_is_sent():
    def reveal(name):
        raise LookupError(name)

    async with serving() as server:
        found = models_at(server.port, secret="MY_KEY").get("chat", "default")
        with pytest.raises(Failure, match="PERDURE_SECRET_MY_KEY") as caught:
            await answer([found], reveal=reveal)
        assert (caught.value.code, caught.value.not_done, server.seen) == ("llm:auth", True, [])


async def test_each_try_begins_with_what_it_may_use_and_ends_with_what_it_used(monkeypatch):
    monkeypatch.setattr(calls, "FIRST_WAIT_SECONDS", 0.001)
    price = {"input": 1.0, "cached": 0.1, "written": 1.25, "output": 10.0}
    begun = []

    async def begin(found, guess, make):
        begun.append((found.full, guess))
        return await make()

    rules = [
        {"times": 1, "status": 429},
        {"times": 1, "say": "a", "usage": USAGE},
        {"say": "a", "faults": ["no_usage"]},
    ]
    async with serving(rules) as server:
        found = models_at(server.port, prices=price, model_max_output=100).get("anthropic", "default")
        got = await answer([found], begin=begin)
        # 15 plain, 10 read, 5 written, 9 out: 15 + 1 + 6.25 + 90, rounded up
        assert (got.response.usage.usd, got.tries, len(server.seen)) == (113, 2, 2)
        got = await answer([found], begin=begin)
    (name, guess), *others = begun
    assert (name, guess.calls, guess.output, guess.input > 2 * len("hello")) == ("anthropic/m-1", 1, 100, True)
    assert guess.usd == -(-guess.input * 5 // 4) + 1000  # as if the cache took it all
    assert others == [(name, guess)] * 2
    assert got.response.usage == guess  # nobody said what it used


@pytest.mark.parametrize(
    ("rule", "is_free"),
    [({"status": 429}, True), ({"status": 401}, True), ({"status": 408}, False), ({"status": 500}, False)]
    + [({"say": "a b c d", "faults": [fault]}, False) for fault in ("cut", "error_between", "empty_choices")],
    ids=str,
)
@every_kind
async def test_only_what_was_refused_before_a_model_read_it_is_free(kind, rule, is_free):
    async with serving([rule]) as server:
        with pytest.raises(LlmError) as caught:
            await call(server, kind)
    assert caught.value.is_free is is_free


async def test_at_most_so_many_calls_are_made_of_a_provider_at_once(monkeypatch):
    async with serving([{"say": "a", "delay_ms": 30}]) as server:
        found = models_at(server.port, max_calls=2).get("chat", "default")
        most, now = 0, 0
        play = server._play

        async def counted(*args):
            nonlocal most, now
            now += 1
            most = max(most, now)
            try:
                return await play(*args)
            finally:
                now -= 1

        monkeypatch.setattr(server, "_play", counted)
        await asyncio.gather(*(answer([found]) for _ in range(6)))
        assert (most, len(server.seen)) == (2, 6)


async def test_a_prompt_that_no_tokenizer_makes_short_enough_is_not_sent():
    async with serving() as server:
        found = models_at(server.port, model_context=1000, model_max_output=100).get("chat", "default")
        with pytest.raises(Failure) as caught:
            await answer([found], asking("x" * 8000))
        assert (caught.value.code, server.seen) == ("llm:context_too_long", [])


async def test_parameters_are_named_as_each_vendor_names_them():
    params = Params(temperature=0, top_p=0.5, max_output_tokens=77, seed=3, reasoning="low", stop=("END",))
    async with serving() as server:
        for kind in KINDS:
            await call(server, kind, asking(params=params, prefix=Prefix(system="S")))
        chat, responses, anthropic = (one.body for one in server.seen)
    assert (chat["max_completion_tokens"], chat["seed"], chat["stop"], chat["reasoning_effort"]) == (
        77,
        3,
        ["END"],
        "low",
    )
    assert (responses["max_output_tokens"], responses["reasoning"]) == (77, {"effort": "low"})
    assert not {"seed", "stop"} & responses.keys()
    assert (anthropic["max_tokens"], anthropic["stop_sequences"]) == (77, ["END"])
    assert anthropic["output_config"] == {"effort": "low"}
    assert {one["temperature"] for one in (chat, responses)} == {0}
    assert not {"seed", "temperature", "top_p"} & anthropic.keys()


def test_texts_join_and_other_parts_do_not():
    assert Message("user", (Text("a"), Text("b"), Result("x", "y"))).text == "ab"
