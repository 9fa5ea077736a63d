"""A run under way gets another definition: decided by whoever holds the journal, durable before it is answered (rule 39)."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from perdure.engine import Engine
from perdure.kernel.lifecycle import RunState
from perdure.model import DefinitionError
from perdure.runtime.coordinator.requests import Reply, Request, decode_request, encode_request
from perdure.service import Service
from perdure.service.runs.patches import PatchInvalid, apply_patch, current_definition, preview
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    crash,
    ended,
    events,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    until_true,
    workflow,
)
from tests.engine.runner import Folder

R = RunState
GATED = workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"]))


async def patch(engine: Engine, definition: dict[str, Any], run_id: str = "r1", **more: Any) -> Reply:
    ir = await engine.workflows.keep(compiled(definition))
    return await ask(engine, "patch", run_id, ir=ir.hash, **more)


async def begun() -> None:
    await until_true(lambda: tasks.seen, "its handler runs")


async def test_a_patch_adds_nodes_and_changes_what_has_not_begun(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, GATED)
        await begun()
        changed = workflow(
            task("a", "gate", args={"name": "never"}),
            task("b", "echo", ["a"], args={"value": "new"}),
            task("c", "echo", ["b"], args={"value": "{{ a.passed }}"}),
        )
        reply = await patch(engine, changed, by="ann", reason="more to do")
        assert (reply.refused, reply.state) == (False, "running")
        tasks.gate_of("a").set()
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert output_of(state, "a") == {"passed": "a"}, "what had begun keeps its config"
        assert (output_of(state, "b")["value"], output_of(state, "c")["value"]) == ("new", "a")
        (patched,) = [event for event in await events(engine.journal) if event.type == "run.patched"]
        assert (patched.by, patched.reason) == ("ann", "more to do")


async def test_a_patch_that_would_lose_something_is_refused_with_every_reason(tmp_path):
    before = workflow(
        task("a", "gate", args={"name": "a"}),
        {"id": "ok", "type": "human", "config": {"approvers": ["x"]}, "dependencies": ["a"]},
        task("pay", "echo", ["ok"]),
    )
    async with running(tmp_path) as engine:
        await start(engine, before)
        await begun()
        reply = await patch(engine, workflow(task("pay", "echo"), name="other"))
        assert reply.code == "patch_refused"
        for reason in (
            "workflow 'tested'",
            "'a' has been activated",
            "approval 'ok' was unavoidable",
            "'pay' runs only after",
        ):
            assert reason in reply.message
        assert [event.type for event in await events(engine.journal)] == ["run.created", "node.scheduled"]
        assert not (await patch(engine, before)).refused, "the definition it has already changes nothing"
        await ask(engine, "cancel", force=True)
        assert (await patch(engine, GATED)).code == "not_running"


@pytest.mark.slow
async def test_a_patch_of_an_unknown_definition_or_run_is_refused(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, GATED)
        assert (await ask(engine, "patch", ir="sha256:nothing")).code == "not_found"
        assert (await ask(engine, "patch")).code == "not_found"
        assert (await patch(engine, GATED, "r9")).code == "not_found"


async def test_what_cannot_be_evaluated_is_refused_before_anybody_hears_of_it(tmp_path):
    async with running(tmp_path) as engine:
        bad = workflow(task("a", when="1 +"))
        with pytest.raises(DefinitionError):
            await engine.workflows.keep(compiled(bad))


@pytest.mark.slow
async def test_a_kept_definition_is_no_version_of_its_workflow(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, GATED)
        ir = await engine.workflows.keep(compiled(workflow(task("a"), task("z"))))
        latest = await engine.journal.find_workflow("tested")
        assert latest.version == 1
        assert latest.ir_hash != ir.hash


async def test_a_patch_is_there_after_a_crash(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, GATED)
    await begun()
    await patch(engine, workflow(*GATED["nodes"], task("c", "echo", ["b"], args={"value": 3})))
    await crash(engine)
    tasks.gate_of("a").set()
    async with running(tmp_path) as second:
        state = await ended(second)
        assert state.state is R.COMPLETED
        assert output_of(state, "c")["value"] == 3
        assert state.find("a").attempt == 2


async def test_a_patch_whose_answer_was_lost_in_a_crash_is_not_decided_twice(tmp_path):
    """The holder dies after the append and before it answers the process that asked."""
    holder, follower = await opened(tmp_path), await opened(tmp_path)
    await holder.hold()
    await start(holder, workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}))
    lost = asyncio.Event()
    answer = holder.journal.answer_command

    async def lose(*arguments: Any) -> None:
        lost.set()
        await asyncio.Event().wait()

    holder.journal.answer_command = lose
    changed = workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}, task("b", "echo", ["s"]))
    reply = await patch(follower, changed)
    assert not reply.refused
    await lost.wait()
    holder.journal.answer_command = answer
    await holder.close()
    await follower.hold()
    await ask(follower, "signal", name="go")
    assert (await ended(follower)).state is R.COMPLETED
    assert len([event for event in await events(follower.journal) if event.type == "run.patched"]) == 1
    await follower.close()


@pytest.mark.slow
def test_a_second_process_hands_its_patch_to_the_holder(tmp_path):
    folder = Folder(tmp_path)
    folder.spec["stay"] = True
    flag = tmp_path / "flag"
    waits = task("a", "wait_for_file", args={"path": str(flag)})
    folder.add("r1", workflow(waits, task("b", "echo", ["a"])))
    with folder.process() as process:
        folder.wait(process, folder.effects, "a runs")

        async def command() -> None:
            engine = await opened(folder.path)
            try:
                assert not await engine.hold()
                reply = await patch(engine, workflow(task("b", "echo")))
                assert "node 'a' has been activated and cannot be removed" in reply.message
                reply = await patch(engine, workflow(waits, task("b", "echo", ["a"]), task("c", "echo", ["b"])))
                assert (reply.refused, reply.state, engine.holds) == (False, "running", False)
                flag.touch()
                state = await ended(engine)
                assert state_of(state, "c") == "completed"
            finally:
                await engine.close()

        asyncio.run(command())
        assert {pid for *_, pid in folder.effects()} == {process.pid}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


async def test_many_patches_and_outcomes_at_once_leave_one_history(tmp_path):
    nodes = [task(f"n{i}", "echo", [f"n{i - 1}"] if i else None) for i in range(20)]
    async with running(tmp_path) as engine:
        await start(engine, workflow(*nodes))
        asked = [patch(engine, workflow(*nodes, task(f"extra{i}", "echo"))) for i in range(5)]
        asked.append(patch(engine, workflow(*nodes, *(task(f"extra{i}", "echo") for i in range(5)))))
        replies = await asyncio.gather(*asked)
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert {reply.code for reply in replies} <= {"", "patch_refused", "not_running"}
        await check(engine.journal)


async def test_a_preview_says_what_would_change_and_changes_nothing(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, GATED)
        await begun()
        state = await engine.runs.state("r1")
        after = workflow(GATED["nodes"][0], task("c", "echo", ["a"], args={"value": 1}))
        changes = preview(state, compiled(after).get_ir(), 0.0)
        assert (changes.added, changes.removed, changes.changed) == (("c",), ("b",), ())
        assert (changes.edges_added, changes.edges_removed, changes.refused) == (("a -> c",), ("a -> b",), "")
        after["nodes"][1]["id"] = "b"
        assert preview(state, compiled(after).get_ir(), 0.0).changed == ("b",)
        assert "'a' has been activated" in preview(state, compiled(workflow(task("b"))).get_ir(), 0.0).refused
        assert len(await events(engine.journal)) == 2
        definition = await current_definition(engine.library, state)
        assert [node["id"] for node in definition["nodes"]] == ["a", "b"]
        tasks.gate_of("a").set()
        await ended(engine)


def test_a_json_patch_is_applied_in_order_and_leaves_the_definition_alone():
    definition = {"name": "x", "nodes": [{"id": "a"}]}
    operations = [
        {"op": "test", "path": "/name", "value": "x"},
        {"op": "add", "path": "/nodes/-", "value": {"id": "b"}},
        {"op": "copy", "from": "/nodes/1", "path": "/nodes/-"},
        {"op": "replace", "path": "/nodes/2/id", "value": "c"},
        {"op": "move", "from": "/nodes/0", "path": "/nodes/2"},
        {"op": "remove", "path": "/nodes/0"},
    ]
    assert apply_patch(definition, operations) == {"name": "x", "nodes": [{"id": "c"}, {"id": "a"}]}
    assert definition == {"name": "x", "nodes": [{"id": "a"}]}


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({"op": "add"}, "is a list of operations, got dict"),
        (
            [1, {"op": "explode"}, {"op": "add", "path": "/x"}],
            "operation 0: expected an object, got int; operation 1: op is",
        ),
        ([{"op": "add", "path": "/x"}], "operation 0: add needs 'value'"),
        ([{"op": "copy", "path": "/x"}], "operation 0: copy needs 'from'"),
        ([{"op": "remove", "path": "x"}], "operation 0: path is a JSON pointer"),
        ([{"op": "remove", "path": "/none"}], "operation 0 (remove /none): there is no such place"),
        ([{"op": "add", "path": "/nodes/7", "value": 1}], "operation 0 (add /nodes/7): there is no such place"),
        ([{"op": "add", "path": "/name/x/y", "value": 1}], "operation 0 (add /name/x/y): there is no such place"),
        ([{"op": "test", "path": "/name", "value": "y"}], "operation 0 (test /name): the value there is another one"),
        ([{"op": "copy", "from": "/~2", "path": "/x"}], "operation 0 (copy /x): there is no such place"),
        ([{"op": "copy", "from": "/nodes/-", "path": "/x"}], "operation 0 (copy /x): there is no such place"),
        (
            [{"op": []}, {"op": {}}],
            "operation 0: op is one of add, replace, test, remove, move, copy, got '[]'; operation 1",
        ),
        ([{"op": "remove", "path": "/name"}] * 10_001, "may have 10000 operations, this has 10001"),
    ],
)
def test_a_bad_json_patch_says_what_is_wrong_and_shows_no_payload(operations, message):
    with pytest.raises(PatchInvalid) as caught:
        apply_patch({"name": "secret", "nodes": []}, operations)
    assert message in caught.value.message
    assert "secret" not in caught.value.message


def test_a_json_patch_that_doubles_itself_is_stopped():
    bomb = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(PatchInvalid, match="may copy 2097152 bytes"):
        apply_patch({"a": ["x" * 1000]}, bomb)


def test_a_request_survives_its_way_to_another_process():
    sent = Request(kind="patch", run_id="r1", ir="sha256:x", patch=[{"op": "remove", "path": "/nodes/0"}], reason="why")
    assert decode_request(encode_request(sent)) == sent
    sent = Request(kind="rerun", run_id="r2", source="r1", node="b", inputs={"a": {"n": 1}})
    assert decode_request(encode_request(sent)) == sent


async def test_a_patch_from_the_command_line_looks_for_blobs_where_the_run_has_them(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, GATED, tenant="acme")
        await begun()
        ref = await engine.contents.blobs.put("acme", b'{"value": 5}')
        node = {"id": "c", "type": "transform", "config_ref": ref, "dependencies": ["b"]}
        more = compiled(workflow(*GATED["nodes"], node))
        await Service.of_owner(engine, "ann").runs.patch("r1", definition=more.definition)
        tasks.gate_of("a").set()
        assert output_of(await ended(engine), "c") == 5
