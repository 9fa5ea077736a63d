"""`llm` in the real engine, against a scripted model."""

import json

import msgspec
import pytest

from perdure import llms
from perdure.expressions.json_schema import check as misfits
from perdure.kernel import events as e
from perdure.llms.durable import rebuild
from perdure.llms.scripted.scripted_server import serving
from perdure.nodes import llm
from perdure.secrets.providers import open_secrets
from perdure.secrets.vault import Vault
from tests.engine.helpers import (
    crash,
    ended,
    events,
    finish,
    opened,
    output_of,
    running,
    start,
    task,
    until_true,
    workflow,
)
from tests.llms.helpers import models_at

QUICK = {"max_attempts": 3, "backoff_ms": 1, "jitter": False}
TITLE = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}


@pytest.fixture(autouse=True)
def _no_models():
    yield
    llms.configure(None)


def node(id="ask", **config):
    outer = {key: config.pop(key) for key in {"retry", "timeout_seconds", "dependencies", "sensitive"} & config.keys()}
    config = {"model": "chat", "prompt": "hello", **config}
    return {"id": id, "type": "llm", "config": config, "retry": QUICK, **outer}


async def run(path, rules, inputs=None, models=None, **config):
    """The state at the end, and the server."""
    path.mkdir(exist_ok=True)
    async with serving(rules) as server:
        llms.configure(models_at(server.port, **(models or {})))
        async with running(path) as engine:
            return await finish(engine, workflow(node(**config)), inputs=inputs), server


async def output(path, rules, **more):
    state, server = await run(path, rules, **more)
    assert state.state == "completed", state.error
    found = output_of(state, "ask")
    assert misfits(llm.TYPE.output_schema, found) == []
    return found, server


async def test_text_is_the_result_and_says_what_it_cost(tmp_path):
    rules = [{"say": "Hi.", "usage": {"input": 1000, "cached": 400, "output": 100}}]
    found, server = await output(
        tmp_path,
        rules,
        prompt="Say hi to {{ inputs.name }}",
        system="Be brief.",
        inputs={"name": "Ann"},
        models={"prices": {"input": 2.0, "cached": 0.5, "output": 10.0}},
    )
    usage = {"input": 1000, "cached": 400, "written": 0, "output": 100, "reasoning": 0, "calls": 1, "usd": 0.0024}
    assert found == {
        "result": "Hi.",
        "text": "Hi.",
        "data": None,
        "finish": "stop",
        "model": "m-1",
        "usage": usage,
        "mended": False,
        "cached": False,
    }
    assert server.seen[0].body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hi to Ann"},
    ]


@pytest.mark.parametrize("schema", ["native", "prompt"])
async def test_an_answer_that_does_not_fit_is_repaired_and_every_request_can_be_rebuilt(tmp_path, schema):
    rules = [
        {"when": {"turn": 1}, "say": "I would say: nothing"},
        {"when": {"turn": 2}, "data": {"title": 7}},
        {"when": {"turn": 3}, "say": '```json\n{"title": "ok",}\n```'},
    ]
    async with serving(rules) as server:
        llms.configure(models_at(server.port, model_schema=schema))
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(node(schema=TITLE, repairs=2)))
            found = output_of(state, "ask")
            said = await events(engine.journal)
    assert (found["result"], found["mended"], found["usage"]["calls"]) == ({"title": "ok"}, True, 3)
    assert '7 is not of type "string"' in server.seen[2].body["messages"][-1]["content"]
    steps = {one.step: one.data for one in said if isinstance(one, e.NodeCheckpointed)}
    assert list(steps) == ["request", "call", "call.r1", "call.r2"]
    assert rebuild(steps) == {name: steps[name]["request"] for name in ("call", "call.r1", "call.r2")}
    assert ("JSON Schema" in str(server.seen[0].body["messages"][0])) is (schema == "prompt")


@pytest.mark.slow
async def test_an_answer_that_never_fits_fails_and_the_next_attempt_asks_anew(tmp_path):
    rules = [{"times": 2, "say": "no"}, {"data": {"title": "at last"}}]
    found, server = await output(tmp_path, rules, schema=TITLE, repairs=1)
    assert (found["result"], len(server.seen)) == ({"title": "at last"}, 3)
    state, server = await run(tmp_path / "b", [{"say": "no"}], schema=TITLE, repairs=1)
    assert (state.error.code, len(server.seen)) == ("llm:bad_output", 6)
    assert "asked 2 times" in state.error.message


@pytest.mark.parametrize(("finish_as", "code"), [("refused", "llm:refused"), ("filtered", "llm:filtered")])
async def test_a_refusal_is_final(tmp_path, finish_as, code):
    state, server = await run(tmp_path, [{"say": "No.", "finish": finish_as}])
    assert (state.state, state.error.code, len(server.seen)) == ("failed", code, 1)


async def test_what_was_answered_before_a_crash_is_not_asked_again(tmp_path):
    rules = [{"when": {"turn": 1}, "say": "no"}, {"times": 1, "faults": ["silence_before"]}, {"data": {"title": "ok"}}]
    async with serving(rules) as server:
        llms.configure(models_at(server.port))
        engine = await opened(tmp_path)
        await engine.hold()
        await start(engine, workflow(node(schema=TITLE)))
        await until_true(
            lambda: len(server.seen) == 2, "it was asked again"
        )  # the first answer is kept, the second does not come
        await crash(engine)
        async with running(tmp_path) as engine:
            state = await ended(engine)
            found = output_of(state, "ask")
    assert found["result"] == {"title": "ok"}
    assert [len(one.body["messages"]) for one in server.seen] == [1, 3, 3]  # only the call in flight was made twice
    assert found["usage"]["calls"] == 2


async def test_max_usd_is_kept_over_all_calls_of_the_node(tmp_path):
    price = {"input": 1.0, "output": 10.0}
    models = {"prices": price, "model_max_output": 100}
    state, server = await run(
        tmp_path,
        [{"say": "no", "usage": {"input": 10, "output": 90}}],
        schema=TITLE,
        repairs=9,
        max_usd=0.0032,
        models=models,
    )
    # 910 millionths a call, and each may cost 1,000 and some: the fourth would not fit any more
    assert (state.error.code, len(server.seen)) == ("budget_exhausted", 3)
    state, server = await run(tmp_path / "b", [], max_usd=1)
    assert (state.error.code, server.seen) == ("llm:price_unknown", [])


async def test_another_model_stands_in_and_the_output_says_which(tmp_path):
    rules = [{"when": {"anywhere": "max_completion_tokens"}, "status": 413}, {"say": "from the other"}]
    found, _ = await output(tmp_path, rules, fallback=["anthropic"])
    assert found["text"] == "from the other"


async def test_the_prefix_is_the_same_over_runs_and_stands_first(tmp_path):
    """What vendors keep in their caches is found again byte by byte."""
    examples = [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]
    async with serving() as server:
        llms.configure(models_at(server.port))
        async with running(tmp_path) as engine:
            for name in ("chat", "responses", "anthropic"):
                for word in ("one", "two"):
                    config = {"model": name, "system": "S", "examples": examples, "prompt": "{{ inputs.word }}"}
                    await finish(
                        engine, workflow(node(**config), name=f"{name}-{word}"), f"{name}-{word}", {"word": word}
                    )
    raws = [one.raw for one in server.seen]
    for first, second in zip(raws[::2], raws[1::2], strict=True):
        assert first.replace(b"one", b"two") == second
    assert server.seen[4].body["messages"][1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert server.seen[2].body["prompt_cache_key"] == server.seen[3].body["prompt_cache_key"]


async def test_a_key_goes_to_its_provider_and_nowhere_else(tmp_path):
    key = "sk-0123456789-abcdef"
    vault = Vault(open_secrets({"MY_KEY": key}))
    async with serving([{"say": f"your key is {key}"}]) as server:
        llms.configure(models_at(server.port, secret="MY_KEY"))
        async with running(tmp_path, vault=vault) as engine:
            state = await finish(engine, workflow(node(prompt="What is {{ inputs.x }}?")), inputs={"x": "2"})
            kept = msgspec.json.encode(await events(engine.journal)).decode()
    assert server.seen[0].headers["authorization"] == f"Bearer {key}"
    assert key not in kept
    assert output_of(state, "ask")["text"] == "your key is ***"


async def test_images_are_sent_as_each_vendor_wants_them_and_what_is_none_is_refused(tmp_path):
    png = "iVBORw0KGgoAAAANSUhEUg=="
    for name in ("chat", "responses", "anthropic"):
        _, server = await output(tmp_path / name, [], model=name, images=[{"$bytes": png}])
        assert png in json.dumps(server.seen[0].body)
        assert "image/png" in json.dumps(server.seen[0].body)
    state, _ = await run(tmp_path / "bad", [], images=[{"$bytes": "aGVsbG8="}])
    assert (state.error.code, "neither PNG" in state.error.message) == ("bad_config", True)


async def test_sensitive_fields_are_shown_to_no_model_unless_the_node_says_so_and_seals_what_it_keeps(tmp_path):
    first = task("who", args={"value": "078-05-1120"}, sensitive=["value"])
    for allowed, sensitive in ((False, []), (True, []), (True, ["*"])):
        path = tmp_path / f"{allowed}{len(sensitive)}"
        path.mkdir()
        async with serving() as server:
            llms.configure(models_at(server.port))
            async with running(path) as engine:
                more = {"sensitive": sensitive} if sensitive else {}
                asks = node(prompt="{{ who.value }}", allow_sensitive=allowed, dependencies=["who"], **more)
                state = await finish(engine, workflow(first, asks))
                kept = msgspec.json.encode(await events(engine.journal)).decode()
        assert "078-05-1120" not in kept
        if sensitive:
            assert (state.state, "078-05-1120" in str(server.seen[0].body)) == ("completed", True)
        else:
            assert (state.error.code, server.seen) == ("sensitive_in_prompt", [])
