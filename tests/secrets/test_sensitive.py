"""Sensitive fields: readable by those who need them, and in no file, log or output of anybody else's."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from perdure.deployment import keys_file
from perdure.kernel import events as e
from perdure.kernel.lifecycle import RunState
from perdure.secrets.keyring import open_file, write_file
from tests.engine.helpers import ask, compiled, running, start, until

SSN, CARD = "078-05-1120", "4111111111111111"


def call(id, function, *needs, args=None, **more):
    config = {"function": f"tests.secrets.leaky:{function}", "args": args or {}}
    return {"id": id, "type": "task", "config": config, "dependencies": list(needs), **more}


PERSON = call("person", "person", sensitive=["ssn", "cards.number"])


def flow(*nodes, name="people", **more):
    return {"name": name, "nodes": [PERSON, *nodes], **more}


async def finish(engine, definition, run_id="r1", **more):
    reply = await start(engine, definition, run_id, **more)
    assert not reply.refused, reply.message
    return await until(engine, lambda state: state.terminal, run_id)


def files_with(folder, *texts):
    return [
        path.name
        for path in Path(folder).rglob("*")
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts)
    ]


@pytest.mark.slow
async def test_a_handler_reads_what_was_sealed_whole_in_a_part_and_in_a_text(tmp_path):
    nodes = [
        call("part", "look", "person", args={"value": "{{ person.ssn }}"}),
        call("text", "look", "person", args={"value": "number {{ person.cards[0].number }}"}),
        call("whole", "look", "person", args={"value": "{{ person }}"}),
        call("isolated", "look", "person", args={"value": "{{ person.ssn }}"}, isolation="process"),
        call("each", "look", "copy", args={"value": "{{ copy.kept }}"}),
        {
            "id": "copy",
            "type": "transform",
            "config": {"value": {"kept": "{{ person.ssn }}"}},
            "dependencies": ["person"],
        },
    ]
    async with running(tmp_path) as engine:
        state = await finish(engine, flow(*nodes))
        found = {name: state.find(name, ()).output for name in ("part", "text", "whole", "isolated", "each")}
    assert state.state is RunState.COMPLETED, state.error
    assert {name: output["type"] for name, output in found.items()} == {
        "part": "str",
        "text": "str",
        "whole": "dict",
        "isolated": "str",
        "each": "str",
    }
    assert {found[name]["text"] for name in ("part", "isolated", "each")} == {SSN[-4:]}
    assert found["text"]["text"] == CARD[-4:]
    assert files_with(tmp_path, SSN, CARD) == []


async def test_conditions_read_it_and_the_journal_does_not_say_it(tmp_path):
    branch = {
        "type": "conditional",
        "rules": [
            {"condition": f"output.ssn == '{SSN[:3]}' + '{SSN[3:]}' && output.name == 'Ada'", "next_nodes": ["yes"]}
        ],
        "default": ["no"],
    }
    copied = {"type": "jsonpath", "query": "$.kept", "operator": "!=", "value": "nobody"}
    definition = {
        "name": "asked",
        "nodes": [
            {**PERSON, "branch": branch},
            {
                "id": "yes",
                "type": "transform",
                "config": {"value": {"kept": "{{ person.ssn }}"}},
                "when": "ctx.person.output.ssn != ''",
            },
            {"id": "no", "type": "transform", "config": {"value": 0}},
            {"id": "then", "type": "transform", "config": {"value": 1}},
        ],
    }
    definition["nodes"][1]["branch"] = {
        "type": "conditional",
        "rules": [{"condition": copied, "next_nodes": ["then"]}],
        "default": ["no"],
    }
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        stored = [e.decode(one.body) for one in await engine.journal.read_events("r1", 0, 1000)]
    assert state.state is RunState.COMPLETED, state.error
    assert state.find("then", ()).output == 1
    seen = {event.node: event.route.seen for event in stored if event.type == "node.completed" and event.route}
    assert seen["person"]["output.ssn"] == "***"
    assert seen["person"]["output.name"] == "Ada"
    assert seen["yes"] == {"$.kept": "***"}
    assert files_with(tmp_path, SSN, CARD) == []


async def test_a_child_opens_what_its_parent_gave_it_and_another_run_does_not(tmp_path):
    child = {
        "name": "child",
        "nodes": [
            {"id": "in", "type": "input"},
            call("read", "look", "in", args={"value": "{{ inputs.ssn }}"}, when="inputs.ssn.startsWith('078')"),
        ],
        "outputs": {"last": "{{ read.text }}"},
    }
    parent = {"id": "call", "type": "workflow", "dependencies": ["person"]}
    parent["config"] = {"workflow": "child", "inputs": {"ssn": "{{ person.ssn }}"}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child))
        state = await finish(engine, flow(parent))
        assert state.state is RunState.COMPLETED, state.error
        assert state.find("call", ()).output == {"last": SSN[-4:]}
        sealed = state.find("person", ()).output["ssn"]
        thief = flow(call("steal", "look", args={"value": "{{ inputs.ssn }}"}), name="thief")
        stolen = await finish(engine, thief, "r2", inputs={"ssn": sealed})
        assert stolen.state is RunState.FAILED
        assert stolen.find("steal", ()).error.code == "cannot_open"
    assert files_with(tmp_path, SSN, CARD) == []


async def test_it_cannot_be_computed_with_in_a_template_and_the_error_says_so(tmp_path):
    for value in ("{{ person.ssn | upper }}", "{{ person.ssn == 'x' }}", "{{ person | tojson }}"):
        async with running(tmp_path) as engine:
            run_id = f"r{len(value)}"
            state = await finish(engine, flow(call("x", "look", "person", args={"value": value})), run_id)
            assert "sealed" in state.find("x", ()).error.message


@pytest.mark.slow
async def test_an_output_schema_sees_the_value_and_a_forged_field_is_refused(tmp_path):
    schema = {"type": "object", "properties": {"ssn": {"type": "string", "minLength": 11}}}
    async with running(tmp_path) as engine:
        fits = await finish(engine, {"name": "s", "nodes": [{**PERSON, "output_schema": schema}]}, "fits")
        schema["properties"]["ssn"]["minLength"] = 12
        misfits = await finish(engine, {"name": "s", "nodes": [{**PERSON, "output_schema": schema}]}, "misfits")
    assert (fits.state, misfits.state) == (RunState.COMPLETED, RunState.FAILED)
    assert misfits.find("person", ()).error.code == "output_schema"
    assert files_with(tmp_path, SSN, CARD) == []


async def test_people_see_a_mask_wherever_they_look(tmp_path):
    human = {"id": "boss", "type": "human", "config": {"approvers": ["x"]}, "dependencies": ["person"]}
    async with running(tmp_path) as engine:
        await start(engine, flow(human, outputs={"ssn": "{{ person.ssn }}", "name": "{{ person.name }}"}))
        await until(engine, lambda state: state.approvals)
        await ask(engine, "vote", approval="r1:boss:1", by="x")
        state = await until(engine, lambda state: state.terminal)
        assert await engine.contents.outputs(state) == {"ssn": "***", "name": "Ada"}
        view = await engine.contents.view(state)
    assert view["nodes"]["person"]["output"] == {"name": "Ada", "ssn": "***", "cards": [{"number": "***", "kind": "x"}]}
    for command in (["runs", "show", "r1"], ["runs", "events", "r1", "--json"], ["approvals", "list", "--json"]):
        arguments = [*command, "--db", str(tmp_path / "perdure.db")]
        shown = await asyncio.to_thread(CliRunner().invoke, app, arguments, catch_exceptions=False)
        assert shown.exit_code == 0, shown.output
        assert SSN not in shown.output
        assert "$perdure:sealed" not in shown.output


async def test_a_rotation_in_the_middle_of_a_run_loses_nothing(tmp_path):
    wait = {"id": "wait", "type": "wait", "config": {"signal": "go"}, "dependencies": ["person"]}
    second = call("second", "person", "wait", sensitive=["ssn"])
    last = call("last", "look", "second", args={"value": "{{ person.ssn }} {{ second.ssn }}"})
    path = keys_file(f"sqlite:///{tmp_path / 'perdure.db'}")
    async with running(tmp_path) as engine:
        await start(engine, flow(wait, second, last))
        await until(engine, lambda state: state.find("wait", ()) is not None)
        write_file(path, open_file(path).rotated())
    async with running(tmp_path) as engine:
        await ask(engine, "signal", name="go")
        state = await until(engine, lambda state: state.terminal)
    assert state.state is RunState.COMPLETED, state.error
    outputs = [json.dumps(state.find(name, ()).output["ssn"]) for name in ("person", "second")]
    assert [":k1:" in outputs[0], ":k2:" in outputs[1]] == [True, True]


async def test_checkpoints_of_a_sensitive_node_are_sealed_too(tmp_path):
    node = call("steps", "stepwise", sensitive=["*"], retry={"max_attempts": 2, "backoff_ms": 1})
    async with running(tmp_path) as engine:
        state = await finish(engine, {"name": "c", "nodes": [node]})
        assert state.state is RunState.COMPLETED, state.error
        assert (await engine.contents.view(state))["nodes"]["steps"]["output"] == "***"
    assert files_with(tmp_path, SSN) == []


@pytest.mark.parametrize("key", ["$perdure:sealed"])
async def test_a_handler_cannot_pass_data_off_as_sealed(tmp_path, key):
    async with running(tmp_path) as engine:
        node = call("forged", "forge", args={"key": key})
        state = await finish(engine, {"name": "f", "nodes": [node]})
        assert state.find("forged", ()).error.code == "bad_output"
