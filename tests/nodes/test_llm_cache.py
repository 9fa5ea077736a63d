"""`cache` of `llm` nodes: exactly the same request is answered again, and nobody is answered with what another one was told (H28)."""

from __future__ import annotations

import base64

import msgspec
import pytest

from perdure import llms
from perdure.blob_stores.store_url import open_store
from perdure.clock import system
from perdure.engine import Engine
from perdure.kernel import events as e
from perdure.llms import exact_cache
from perdure.llms.durable import rebuild
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.runtime.worker.handler_inputs import Shelf
from perdure.settings import Settings
from perdure.transports.envelopes import Keyring
from tests.attack.marks import attack
from tests.engine.helpers import ended, events, output_of, running, start, workflow

HOUR = {"cache": {"ttl_seconds": 3600}}
TITLE = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
PRICE = {"input": 1.0, "output": 1.0}


def ask(name="triage", id="ask", **config):
    outer = {key: config.pop(key) for key in {"sensitive"} & config.keys()}
    return workflow(
        {"id": id, "type": "llm", "config": {"model": "scripted", "prompt": "Hello.", **HOUR, **config}, **outer},
        name=name,
    )


async def say(engine, definition, run_id, id="ask", **more):
    await start(engine, definition, run_id, **more)
    state = await ended(engine, run_id)
    assert state.state == "completed", state.error
    return output_of(state, id)


async def test_the_same_request_is_answered_again_and_costs_nothing(tmp_path):
    with ScriptedModel([{"times": 1, "say": "Hi."}, {"say": "Other."}], price=PRICE) as model:
        async with running(tmp_path) as engine:
            first = await say(engine, ask(), "r1")
            again = await say(engine, ask(), "r2")
            said = await events(engine.journal, "r2")
        async with running(tmp_path) as engine:
            later = await say(engine, ask(), "r3")
    assert [one["text"] for one in (first, again, later)] == ["Hi.", "Hi.", "Hi."]
    assert [one["cached"] for one in (first, again, later)] == [False, True, True]
    assert (again["usage"]["calls"], again["usage"]["usd"]) == (0, 0)
    assert len(model.seen) == 1
    assert not [one for one in said if isinstance(one, e.StepStarted)]  # nothing is set aside for it
    steps = {one.step: msgspec.to_builtins(one.data) for one in said if isinstance(one, e.NodeCheckpointed)}
    assert rebuild(steps) == {"call": steps["call"]["request"]}


async def test_h28_nobody_is_answered_with_what_another_was_told(tmp_path):
    """Another tenant, workflow, node, prompt, model, parameter or address is another question."""
    with ScriptedModel([{"say": "Hi."}], names=["scripted", "other"], price=PRICE) as model:
        async with running(tmp_path) as engine:
            await say(engine, ask(), "r0")
            assert (await say(engine, ask(), "r1"))["cached"]
            others = [
                ask(name="another"),
                ask(id="asked"),
                ask(prompt="Hello!"),
                ask(system="Be brief."),
                ask(params={"temperature": 0}),
            ]
            for number, definition in enumerate(others):
                found = await say(engine, definition, f"o{number}", definition["nodes"][0]["id"])
                assert not found["cached"], definition
            assert not (await say(engine, ask(), "t1", tenant="other"))["cached"]
            provider = msgspec.structs.replace(model.models.providers["scripted"], base_url="http://127.0.0.1:10/v1")
            model.models.providers["scripted"] = provider
            assert not (await say(engine, ask(), "moved"))["cached"]


@pytest.mark.parametrize(
    ("rules", "config"),
    [
        ([{"say": "Hi."}], {"cache": None}),
        ([{"say": "Hi.", "finish": "length"}], {}),
        ([{"say": "no data"}, {"data": {"title": "x"}}], {"schema": TITLE}),
        ([{"say": "Hi."}], {"sensitive": ["text", "result"]}),
    ],
    ids=["off without it", "cut off", "repaired", "sealed"],
)
async def test_what_may_not_be_used_again_is_not_kept(tmp_path, rules, config):
    rules = [{"times": 1, **rules[0]}, rules[-1]] * 2 if len(rules) > 1 else rules
    if config.get("cache", 1) is None:
        config = {}
        definition = ask()
        del definition["nodes"][0]["config"]["cache"]
    else:
        definition = ask(**config)
    with ScriptedModel(rules) as model:
        async with running(tmp_path) as engine:
            for number in range(2):
                await start(engine, definition, f"r{number}")
                assert (await ended(engine, f"r{number}")).state == "completed"
    assert len(model.seen) >= 2
    assert llms.get_models() is not model.models


async def test_an_answer_is_used_no_longer_than_the_node_says(tmp_path, monkeypatch):
    with ScriptedModel([{"say": "Hi."}]) as model:
        async with running(tmp_path) as engine:
            await say(engine, ask(), "r1")
            late = type("Late", (), {"now": staticmethod(lambda: engine.clock.now() + 3601)})
            with monkeypatch.context() as patched:
                patched.setattr(exact_cache, "system", late)
                assert not (await say(engine, ask(), "r2"))["cached"]
            assert await engine.blobs.forget(engine.clock.now() + 10) == 1
            assert not (await say(engine, ask(), "r3"))["cached"]
            assert (await say(engine, ask(), "r4"))["cached"]
    assert len(model.seen) == 3


async def test_what_was_damaged_is_not_there(tmp_path):
    with ScriptedModel([{"say": "Hi."}]) as model:
        async with running(tmp_path) as engine:
            await say(engine, ask(), "r1")
            for file in tmp_path.rglob("named/*/*/*"):
                file.write_bytes(b"{")
            assert not (await say(engine, ask(), "r2"))["cached"]
    assert len(model.seen) == 2


# -- who can write to the store ----------------------------------------------------------------------------------------


@attack("X29", "an answer of a model that was changed, moved or made up in the blob store")
@pytest.mark.parametrize("how", ["changed", "moved", "unsigned", "of another tenant", "of another time"])
async def test_an_answer_that_nobody_signed_is_not_used_again(tmp_path, how):
    """An attacker who can write to the store, and not to the database, would answer for models."""
    blobs = open_store(f"file:{tmp_path / 'blobs'}", clock=system)
    signer = Keyring({"k": b"k" * 32})
    mine = Shelf(blobs, "acme", system, signer)
    await mine.remember("a", b'{"said":"yes"}')
    await mine.remember("b", b'{"said":"no"}')
    found = await mine.recall("a")
    assert found is not None
    assert (found[0], abs(found[1] - system.now()) < 60) == (b'{"said":"yes"}', True)
    stored, _ = await blobs.recall("acme", "a") or (b"", 0.0)
    head, _, data = bytes(stored).partition(b"\n")
    match how:
        case "changed":
            await blobs.remember("acme", "a", head + b"\n" + data.replace(b"yes", b"no!"))
        case "moved":
            await blobs.remember("acme", "a", (await blobs.recall("acme", "b") or (b"",))[0])
        case "unsigned":
            await blobs.remember("acme", "a", data)
        case "of another tenant":
            other = Shelf(blobs, "other", system, signer)
            await other.remember("a", data)
            await blobs.remember("acme", "a", (await blobs.recall("other", "a") or (b"",))[0])
        case _:
            await blobs.remember("acme", "a", head[:-1] + bytes([(head[-1] - 47) % 10 + 48]) + b"\n" + data)
    assert await mine.recall("a") is None
    assert await mine.recall("b") is not None
    await blobs.close()


async def test_a_deployment_that_signs_nothing_keeps_answers_as_they_are(tmp_path):
    blobs = open_store(f"file:{tmp_path / 'blobs'}", clock=system)
    plain = Shelf(blobs, "acme", system)
    await plain.remember("a", b"1")
    assert (await plain.recall("a") or (b"",))[0] == b"1"
    await blobs.close()


@pytest.mark.slow
async def test_what_is_kept_is_signed_where_there_are_keys_and_used_again(tmp_path):
    keys = "k:" + base64.b64encode(b"k" * 32).decode()
    database = f"sqlite:///{tmp_path / 'perdure.db'}"
    with ScriptedModel([{"times": 1, "say": "Hi."}, {"say": "Other."}]):
        for number, cached in enumerate([False, True]):
            engine = await Engine.open(Settings(database_url=database, signing_keys=keys))
            try:
                await engine.hold()
                assert (await say(engine, ask(), f"r{number}"))["cached"] is cached
            finally:
                await engine.close(0.5)
    signed = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes().startswith(b"k:default:")]
    assert len(signed) == 1
