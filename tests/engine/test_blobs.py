"""Values too large for an event: they travel as references, and nobody notices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.blobs import INLINE_BYTES, ref_of
from perdure.kernel.lifecycle import RunState
from perdure.kernel.segments import BlobRef
from perdure.transport import encode_message
from perdure.transports.local import LocalTransport
from tests.engine import large, tasks
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    crash,
    ended,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    transform,
    until,
    until_true,
    workflow,
)

R = RunState
BIG = 100_000


def big(id: str, function: str = "make", needs: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return task(id, function, needs, **more) | {
        "config": {"function": f"tests.engine.large:{function}", "args": more.get("args", {})}
    }


def content(size: int = BIG, **more: Any) -> dict[str, Any]:
    return {"text": "x" * size, "size": size, **more}


def ref_to(value: Any) -> str:
    return ref_of(msgspec.json.encode(value))


async def journal_bytes(engine, run_id: str = "r1") -> int:
    return sum(len(one.body) for one in await engine.journal.read_events(run_id, 0, 10**6))


# -- through a run -----------------------------------------------------------------------------------------------------


async def test_a_large_output_is_a_reference_in_the_journal_and_a_value_everywhere_else(tmp_path):
    definition = workflow(big("a"), big("b", "measure", ["a"], args={"value": "{{ a.output }}"}))
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.find("a").output is None
        assert state.find("a").output_ref == ref_to(content())
        assert state.find("a").size == len(msgspec.json.encode(content()))
        assert output_of(state, "b") == {"type": "dict", "length": BIG, "keys": ["size", "text"]}
        assert msgspec.json.decode(await engine.blobs.get("default", ref_to(content()))) == content()
        assert await journal_bytes(engine) < 4000
        assert len(tasks.seen) == 2


async def test_an_output_of_exactly_the_limit_stays_in_its_event(tmp_path):
    size = INLINE_BYTES - len(msgspec.json.encode(content(0))) - 4
    async with running(tmp_path) as engine:
        for extra, expected in ((0, False), (1, True)):
            state = await finish(engine, workflow(big("a", args={"size": size + extra})), f"r{extra}")
            assert state.find("a").size == INLINE_BYTES + extra
            assert (state.find("a").output_ref is not None) is expected
        assert len(await engine.blobs.list_blobs("default")) == 1


async def test_small_outputs_make_no_folder(tmp_path):
    async with running(tmp_path) as engine:
        await finish(engine, workflow(task("a"), task("b", needs=["a"])))
    assert not (tmp_path / "perdure.db.blobs").exists()


@pytest.mark.parametrize("function", ["measure_inputs", "measure_inputs_in_thread"])
async def test_inputs_are_whole_wherever_they_are_read(tmp_path, function):
    definition = workflow(big("a"), big("b", "make_in_thread"), big("c", function, ["a", "b"]))
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert output_of(state, "c") == {"a": BIG, "b": BIG}


async def test_a_function_that_changes_what_it_was_given_changes_nothing_else(tmp_path):
    definition = workflow(
        big("a"),
        big("b", "change", ["a"], args={"value": "{{ a }}"}),
        big("c", "measure", ["b"], args={"value": "{{ a }}"}),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert output_of(state, "c")["length"] == BIG


async def test_a_template_may_look_into_a_large_output(tmp_path):
    definition = workflow(
        big("a"),
        task("field", "echo", ["a"], args={"value": "{{ a.size }}"}),
        task("text", "echo", ["a"], args={"value": "size: {{ a.size }}"}),
        task("filter", "echo", ["a"], args={"value": "{{ a.text | length }}"}),
        transform("trivial", {"size": "{{ a.size + 1 }}"}, ["a"]),
        transform("missing", "{{ a.nothing | default('none') }}", ["a"]),
        outputs={"n": "{{ a.size }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert output_of(state, "field")["value"] == BIG
        assert output_of(state, "text")["value"] == f"size: {BIG}"
        assert output_of(state, "filter")["value"] == BIG
        assert output_of(state, "trivial") == {"size": BIG + 1}
        assert output_of(state, "missing") == "none"
        assert state.outputs == {"n": BIG}
        assert len(tasks.seen) == 4


async def test_a_condition_may_look_into_a_large_output(tmp_path):
    branch = {
        "type": "conditional",
        "rules": [{"condition": f"output.size == {BIG}", "next_nodes": ["yes"]}],
        "default": ["no"],
    }
    definition = workflow(
        big("a", branch=branch),
        task("yes", when="ctx.a.output.text.startsWith('xx')"),
        task("no"),
        task(
            "last",
            "count",
            ["yes"],
            args={"upto": 2},
            loop={"condition": "!output.done && ctx.a.output.size > 5", "max_iterations": 3},
        ),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.state is R.COMPLETED
        assert (state_of(state, "yes"), state_of(state, "no")) == ("completed", "skipped")
        assert state.find("a").route.rule == "branch[0]"
        assert len(tasks.seen) == 4


async def test_values_made_of_large_ones_name_them(tmp_path):
    definition = workflow(
        big("a"),
        big("b", "make_in_thread"),
        transform("both", {"a": "{{ a }}", "list": ["{{ b.output }}", 1]}, ["a", "b"]),
        big("c", "measure", ["both"], args={"value": "{{ both.a }}"}),
        big("d", "measure_text", ["both"], args={"text": "{{ both.list[0].text }}"}),
        outputs={"all": "{{ both }}", "one": "{{ both.list[1] }}", "a": "{{ a }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert output_of(state, "c")["length"] == BIG
        assert output_of(state, "d") == BIG
        assert output_of(state, "both") == {
            "a": BlobRef(state.find("a").output_ref),
            "list": [BlobRef(state.find("b").output_ref), 1],
        }
        whole = await engine.contents.outputs(state)
        assert whole["all"] == {"a": content(), "list": [content() | {"text": "y" * BIG}, 1]}
        assert whole["one"] == 1
        assert await journal_bytes(engine) < 8000
        assert len(await engine.blobs.list_blobs("default")) == 2


async def test_data_that_looks_like_a_reference_stays_data(tmp_path):
    fake = {"$perdure:blob": ref_to(content()), "$ref": ref_to(content())}
    definition = workflow(
        big("a"),
        task("b", args={"value": fake}),
        transform("both", {"real": "{{ a }}", "fake": "{{ b.value }}"}, ["a", "b"]),
        task("c", "echo", ["both"], args={"value": "{{ both.fake }}"}),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert output_of(state, "c")["value"] == fake
        assert output_of(state, "both")["fake"] == fake
        loaded = await engine.runs.state("r1")
        assert output_of(loaded, "both") == {"real": BlobRef(ref_to(content())), "fake": fake}


async def test_outputs_are_the_nodes_own_when_the_workflow_names_none(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(big("a"), task("b")))
        assert await engine.contents.outputs(state) == {"a": content(), "b": {"value": None, "node": "b", "attempt": 1}}
        state = await finish(
            engine,
            workflow(big("a"), {"id": "o", "type": "output", "config": {"x": "{{ a }}"}, "dependencies": ["a"]}),
            "r2",
        )
        assert await engine.contents.outputs(state) == {"x": content()}


async def test_many_small_outputs_that_are_large_together_are_stored_as_one(tmp_path):
    nodes = [task(f"n{number}", args={"value": "z" * 20_000}) for number in range(5)]
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(*nodes))
        assert state.outputs is None
        assert state.outputs_ref is not None
        outputs = await engine.contents.outputs(state)
        assert {name: value["value"] for name, value in outputs.items()} == {f"n{n}": "z" * 20_000 for n in range(5)}


async def test_a_trivial_node_may_give_a_large_value(tmp_path):
    value = ["w" * 10_000] * 10
    definition = workflow(
        transform("a", value),
        transform("b", "{{ a[3] }}", ["a"]),
        task("c", "echo", ["a"], args={"value": "{{ a | length }}"}),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.find("a").output_ref == ref_to(value)
        assert output_of(state, "b") == "w" * 10_000
        assert output_of(state, "c")["value"] == 10


@pytest.mark.slow
async def test_a_map_over_a_large_list_whose_items_give_large_outputs(tmp_path):
    node = {
        "type": "task",
        "config": {"function": "tests.engine.large:make", "args": {"size": "{{ item.number + 50000 }}"}},
    }
    definition = workflow(
        big("list", "items", args={"count": 40, "size": 2_000}),
        {
            "id": "each",
            "type": "map",
            "config": {"over": "{{ list.output }}", "node": node, "max_concurrency": 7},
            "dependencies": ["list"],
        },
        big("one", "measure", ["each"], args={"value": "{{ each[5] }}"}),
        outputs={"each": "{{ each }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.state is R.COMPLETED
        assert output_of(state, "one")["length"] == 50_005
        whole = await engine.contents.outputs(state)
        assert [len(one["text"]) for one in whole["each"]] == [50_000 + number for number in range(40)]
        assert await journal_bytes(engine) < 40_000


@pytest.mark.slow
async def test_a_map_of_so_many_references_that_they_are_large_themselves(tmp_path):
    node = {"type": "task", "config": {"function": "tests.engine.large:make", "args": {"size": "{{ item + 40000 }}"}}}
    definition = workflow(
        {"id": "each", "type": "map", "config": {"over": list(range(400)), "node": node}},
        big("one", "measure", ["each"], args={"value": "{{ each[399] }}"}),
        task("n", "echo", ["each"], args={"value": "{{ each[7].size }}"}),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.find("each").output_ref.endswith("+refs")
        assert output_of(state, "one")["length"] == 40_399
        assert output_of(state, "n")["value"] == 40_007
        value = await engine.contents.resolve("default", BlobRef(state.find("each").output_ref))
        assert [one["size"] for one in value] == [40_000 + number for number in range(400)]


# -- what comes from outside -------------------------------------------------------------------------------------------


async def test_large_inputs_are_stored_before_the_run_exists(tmp_path):
    inputs = {"text": "q" * BIG, "n": 3}
    definition = workflow(
        {"id": "given", "type": "input"},
        transform("n", "{{ inputs.n }}"),
        big("m", "measure", ["given"], args={"value": "{{ given }}"}),
        task("k", args={"value": "{{ inputs.n + 1 }}"}),
        task("skipped", when="inputs.n > 3"),
        inputs={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs=inputs)
        assert state.inputs == BlobRef(ref_to(inputs))
        assert (await engine.contents.view(state))["inputs"] == inputs
        assert output_of(state, "n") == 3
        assert output_of(state, "m") == {"type": "dict", "length": BIG, "keys": ["n", "text"]}
        assert output_of(state, "k")["value"] == 4
        assert state_of(state, "skipped") == "skipped"
        refused = await start(engine, definition, "r2", inputs={"text": "q" * BIG, "n": "three"})
        assert refused.code == "invalid_inputs"


async def test_a_child_is_given_and_gives_large_values(tmp_path):
    child = workflow(
        big("m", "measure", args={"value": "{{ inputs.data }}"}),
        big("x", args={"size": "{{ inputs.data.size }}"}),
        name="child",
        outputs={"m": "{{ m }}", "x": "{{ x }}"},
    )
    parent = workflow(
        big("a"),
        {
            "id": "call",
            "type": "workflow",
            "config": {"workflow": "child", "inputs": {"data": "{{ a }}"}},
            "dependencies": ["a"],
        },
        big("after", "measure", ["call"], args={"value": "{{ call.x }}"}),
        name="parent",
        outputs={"m": "{{ call.m.length }}"},
    )
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child))
        state = await finish(engine, parent)
        assert output_of(state, "after")["length"] == BIG
        assert state.outputs == {"m": BIG}
        await check(engine.journal, state.find("call").child)
        assert (await engine.runs.state(state.find("call").child)).inputs == {"data": BlobRef(ref_to(content()))}


async def test_large_inputs_of_a_child_are_held_against_its_schema(tmp_path):
    schema = {"type": "object", "properties": {"data": {"properties": {"size": {"maximum": BIG}}}}}
    child = workflow(big("m", "measure", args={"value": "{{ inputs.data }}"}), name="child", inputs=schema)
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child", "inputs": {"data": "{{ a }}"}}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child))
        good = await finish(engine, workflow(big("a"), {**call, "dependencies": ["a"]}, name="good"))
        assert good.state is R.COMPLETED
        wide = workflow(big("a", args={"size": BIG + 1}), {**call, "dependencies": ["a"]}, name="wide")
        bad = await finish(engine, wide, "r2")
        assert (bad.state, "invalid_inputs" in bad.error.message) == (R.FAILED, True)
        assert engine.coordinator.children._fetching == {}
        assert engine.coordinator.fetcher._needs == {}


async def test_signals_votes_and_repairs_may_be_large(tmp_path):
    definition = workflow(
        {"id": "sig", "type": "wait", "config": {"signal": "go"}},
        {"id": "ask", "type": "human", "config": {"approvers": ["ann"], "show": "{{ sig }}"}, "dependencies": ["sig"]},
        big("m", "measure", ["ask"], args={"value": "{{ ask.show }}"}),
        big("n", "measure", ["ask"], args={"value": "{{ ask.data }}"}),
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "sig") == "waiting")
        assert not (await ask(engine, "signal", name="go", payload=content())).refused
        state = await until(engine, lambda state: state_of(state, "ask") == "waiting")
        (approval,) = state.approvals
        assert not (await ask(engine, "vote", approval=approval, by="ann", data=content(BIG + 1))).refused
        state = await ended(engine)
        assert output_of(state, "m")["length"] == BIG
        assert output_of(state, "n")["length"] == BIG + 1
        assert state.find("ask").output["decision"] == "approve"
        assert await journal_bytes(engine) < 10_000


async def test_a_person_is_shown_large_things_by_reference_and_the_output_has_them_whole(tmp_path):
    parents = [task(f"p{number}", args={"value": "s" * 20_000}) for number in range(4)]
    definition = workflow(
        big("a"),
        *parents,
        {"id": "ask", "type": "human", "dependencies": ["a", *(node["id"] for node in parents)]},
        big("m", "measure", ["ask"], args={"value": "{{ ask.a }}"}),
        task("s", "echo", ["ask"], args={"value": "{{ ask.p3.value | length }}"}),
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        state = await until(engine, lambda state: state_of(state, "ask") == "waiting")
        (approval,) = state.approvals
        row = await engine.journal.get_approval(approval)
        assert msgspec.json.decode(row.body)["shown"]["a"] == {"$ref": ref_to(content())}
        assert len(row.body) < 3000
        await ask(engine, "vote", approval=approval, by="ann")
        state = await ended(engine)
        assert output_of(state, "m")["length"] == BIG
        assert output_of(state, "s")["value"] == 20_000


async def test_a_rerun_takes_over_large_outputs_and_may_be_given_others(tmp_path):
    definition = workflow(big("a"), big("m", "measure", ["a"], args={"value": "{{ a }}"}))
    async with running(tmp_path) as engine:
        await finish(engine, definition, inputs={"big": "i" * BIG})
        assert not (await ask(engine, "rerun", "r2", source="r1", node="m")).refused
        assert output_of(await ended(engine, "r2"), "m")["length"] == BIG
        inputs = {"a": content(BIG + 7)}
        assert not (await ask(engine, "rerun", "r3", source="r1", node="m", inputs=inputs)).refused
        state = await ended(engine, "r3")
        assert output_of(state, "m")["length"] == BIG + 7
        assert (await engine.contents.view(state))["inputs"] == {"big": "i" * BIG}
        assert await journal_bytes(engine, "r3") < 4000


async def test_a_config_given_on_requeue_may_be_large(tmp_path):
    definition = workflow(task("a", "fail", on_failure="park", retry={"max_attempts": 1}))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "a") == "parked")
        config = {"function": "tests.engine.large:measure", "args": {"value": content()}}
        assert not (await ask(engine, "requeue", node="a", config=config)).refused
        state = await ended(engine)
        assert output_of(state, "a")["length"] == BIG
        assert state.find("a").config == BlobRef(ref_to(config))


async def test_a_result_of_a_worker_that_stores_nothing_is_stored_by_the_coordinator(tmp_path):
    definition = workflow(big("a"), big("m", "measure", ["a"], args={"value": "{{ a }}"}))
    async with running(tmp_path) as engine:
        engine.worker._execution._leaving._blobs = None
        state = await finish(engine, definition)
        assert state.find("a").output_ref == ref_to(content())
        assert output_of(state, "m")["length"] == BIG


# -- checkpoints -------------------------------------------------------------------------------------------------------

AGAIN = {"retry": {"max_attempts": 3, "backoff_ms": 1, "jitter": False}}


async def test_a_large_checkpoint_is_there_for_the_next_attempt(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(big("a", "checkpoint", **AGAIN)))
        assert output_of(state, "a") == {"length": BIG, "last": True}
        assert await journal_bytes(engine) < 6000


async def test_the_result_of_a_step_may_be_large(tmp_path):
    large.forget()
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(big("a", "steps", **AGAIN)))
        assert output_of(state, "a") == {"first": BIG, "second": "b" * 10, "called": ["a", "b"]}
        assert await journal_bytes(engine) < 6000


async def test_a_run_with_large_values_goes_on_after_a_crash(tmp_path):
    definition = workflow(
        big("a"),
        transform("t", {"a": "{{ a }}", "n": "{{ a.size }}"}, ["a"]),
        task("g", "gate", ["t"], args={"name": "g"}),
        big("m", "measure", ["g"], args={"value": "{{ t.a }}"}),
        outputs={"t": "{{ t }}"},
    )
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, definition, inputs={"big": "i" * BIG})
    await until_true(lambda: len(tasks.seen) == 2, "g runs")
    await crash(engine)
    tasks.gate_of("g").set()
    async with running(tmp_path) as engine:
        state = await ended(engine)
        assert output_of(state, "m")["length"] == BIG
        assert (await engine.contents.outputs(state))["t"] == {"a": content(), "n": BIG}
        assert (await engine.contents.view(state))["inputs"] == {"big": "i" * BIG}


# -- steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_many_small_steps_travel_together_as_one_reference(tmp_path, monkeypatch, isolation):
    sent = []
    publish = LocalTransport.publish

    async def watch(self, given):
        sent.extend(given)
        await publish(self, given)

    monkeypatch.setattr(LocalTransport, "publish", watch)
    node = big("a", "keep_many", args={"count": 50, "size": 900}, isolation=isolation)
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow({**node, "retry": {"max_attempts": 2, "backoff_ms": 1}}))
        assert output_of(state, "a") == {"again": 0, "kept": 50 * 900 + 90}
    assert sent[0].checkpoint is None
    assert type(sent[1].checkpoint) is BlobRef
    assert len(encode_message(sent[1])) < 1_000


@pytest.mark.slow
async def test_what_all_steps_of_a_run_take_counts_against_max_bytes(tmp_path):
    node = big("a", "keep_many", args={"count": 200, "size": 10_000})
    async with running(tmp_path) as engine:
        await start(engine, workflow(node, limits={"max_bytes": 500_000}))
        state = await ended(engine)
        assert (state.state, state.error.code) == (R.FAILED, "limit_exceeded")
        assert "max_bytes" in state.error.message
        assert state.kept < 1024 * 1024 + 600_000, "the attempt went on with its steps"
