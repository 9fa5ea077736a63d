"""`transform` in the real engine: trivial by value, in a worker by jq and pipeline."""

from __future__ import annotations

import json

import pytest

from perdure import egress, testing
from perdure.egress.policy import Policy
from perdure.kernel.lifecycle import RunState
from perdure.model import compile_definition
from perdure.nodes import builtin, transform
from perdure.nodes.config_checks import check_configs
from tests.egress.server import reply, serving
from tests.engine.helpers import events, finish, output_of, running, state_of, workflow

pytestmark = pytest.mark.slow

ROWS = [{"name": "b", "price": 20}, {"name": "a", "price": 10}, {"name": "c", "price": 30}]


def node(id="t", needs=(), **config):
    made = {"id": id, "type": "transform", "config": config}
    return {**made, "dependencies": list(needs)} if needs else made


async def run(tmp_path, *nodes, inputs=None):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(*nodes), inputs=inputs)
        return state, await events(engine.journal)


async def test_a_value_is_answered_by_the_coordinator_and_takes_no_worker(tmp_path):
    state, found = await run(tmp_path, node(value={"n": "{{ inputs.n }}"}), inputs={"n": 3})
    assert output_of(state, "t") == {"n": 3}
    assert [e.worker for e in found if e.type == "node.completed"] == [""]


async def test_jq_makes_a_value_of_its_input_in_a_worker(tmp_path):
    state, found = await run(
        tmp_path,
        node("rows", value="{{ inputs.rows }}"),
        node(jq="map(select(.price > 10)) | sort_by(.name) | map(.name)", input="{{ rows }}", needs=["rows"]),
        inputs={"rows": ROWS},
    )
    assert output_of(state, "t") == ["b", "c"]
    assert [e.worker != "" for e in found if e.type == "node.completed"] == [False, True]


async def test_without_an_input_jq_gets_the_outputs_of_its_parents_by_name(tmp_path):
    state, _ = await run(tmp_path, node("a", value=1), node("b", value=2), node(jq=".a + .b", needs=["a", "b"]))
    assert output_of(state, "t") == 3


async def test_parents_whose_outputs_are_stored_as_blobs_are_loaded(tmp_path):
    rows = [{"n": number, "text": "x" * 100} for number in range(2000)]
    state, _ = await run(
        tmp_path,
        node("rows", value="{{ inputs.rows }}"),
        node(jq=".rows | length", needs=["rows"]),
        node("last", pipeline=[{"step": "top_k", "k": 1, "field": "n"}], input="{{ rows }}", needs=["rows"]),
        inputs={"rows": rows},
    )
    assert output_of(state, "t") == 2000
    assert output_of(state, "last") == [rows[-1]]


async def test_a_pipeline_calls_sorts_and_cuts_as_the_documents_show(tmp_path):
    answer = reply(200, json.dumps({"flights": ROWS}).encode(), content_type="application/json")
    async with serving(lambda seen: answer) as server:
        steps = [
            {
                "step": "http_request",
                "url": f"http://127.0.0.1:{server.port}/search",
                "params": {"origin": "{{ inputs.origin }}", "dest": "LAX"},
                "path": "flights",
            },
            {"step": "table_sort", "field": "price", "order": "asc"},
            {"step": "top_k", "k": "{{ inputs.k }}"},
            {"step": "jq_transform", "program": "map(.name)"},
        ]
        state, _ = await run(tmp_path, node(pipeline=steps), inputs={"origin": "NYC", "k": 2})
    assert output_of(state, "t") == ["a", "b"]
    assert [seen.target for seen in server.seen] == ["/search?origin=NYC&dest=LAX"]


async def test_a_call_of_a_pipeline_is_held_to_the_egress_rules(tmp_path):
    egress.configure(Policy.parse(""))
    async with serving(lambda seen: reply(200)) as server:
        steps = [{"step": "http_request", "url": f"http://127.0.0.1:{server.port}/"}]
        state, _ = await run(tmp_path, node(pipeline=steps))
    assert state.state is RunState.FAILED
    assert state.error.code == "egress_refused"
    assert server.seen == []


@pytest.mark.parametrize(
    ("config", "code", "why"),
    [
        ({"jq": ".a.b", "input": {"a": "t0ps3cret"}}, "jq_error", "Cannot index"),
        ({"jq": "range(3)", "input": 1}, "jq_many_values", "put it in [ … ]"),
        ({"jq": "empty", "input": 1}, "jq_no_value", "no value"),
        ({"jq": "halt", "input": 1}, "jq_no_value", "no value"),
        ({"jq": "nope(", "input": 1}, "bad_program", "syntax error"),
        ({"jq": '"x" * 1e9', "input": 1}, "jq_memory", "256 MB"),
        (
            {"pipeline": [{"step": "table_sort", "field": "a"}], "input": "t0ps3cret"},
            "bad_table",
            "step 1, table_sort: the input must be a table",
        ),
    ],
)
async def test_what_goes_wrong_fails_the_node_at_once_and_quotes_no_data(tmp_path, config, code, why):
    state, found = await run(tmp_path, node(**config))
    assert state.state is RunState.FAILED
    assert state.error.code == code
    assert why in state.error.message
    assert "t0ps3cret" not in state.error.message
    assert not [e for e in found if e.type == "node.retrying"]


async def test_a_program_that_never_ends_is_killed_when_the_node_times_out(tmp_path):
    slow = {**node(jq="def f: f; f", input=1), "timeout_seconds": 0.5, "retry": {"max_attempts": 1}}
    state, _ = await run(tmp_path, slow)
    assert state.error.code == "timeout"
    assert transform._jq._busy == set()


async def test_a_transform_can_undo(tmp_path):
    boom = {"id": "boom", "type": "transform", "config": {"jq": 'error("boom")', "input": 1}, "dependencies": ["t"]}
    undone = {**node(value=1), "compensator": {"type": "transform", "config": {"jq": ".n", "input": {"n": 7}}}}
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(undone, boom, on_failure={"compensate": True}))
        found = await events(engine.journal)
    assert state.state is RunState.FAILED
    assert [e.type for e in found if e.type.startswith("node.compensat")] == ["node.compensating", "node.compensated"]
    assert state_of(state, "t") == "compensated"


@pytest.mark.parametrize(
    ("config", "paths"),
    [
        ({}, ["nodes.t.config"]),
        ({"value": 1, "jq": "."}, ["nodes.t.config"]),
        ({"value": 1, "input": 1}, ["nodes.t.config.input"]),
        ({"jq": 3}, ["nodes.t.config.jq"]),
        ({"jq": 'include "x"; .'}, ["nodes.t.config.jq"]),
        ({"pipeline": []}, ["nodes.t.config.pipeline"]),
        ({"pipeline": [{"step": "top_k"}, {"step": "nope"}]}, ["nodes.t.config.pipeline[0]", "nodes.t.config.pipeline[1]"]),
        ({"valeu": 1}, ["nodes.t.config.valeu"]),
    ],
)  # fmt: skip
def test_mistakes_in_a_config_are_found_before_it_is_stored(config, paths):
    ir = compile_definition(workflow({"id": "t", "type": "transform", "config": config})).get_ir()
    assert [problem.path for problem in check_configs(ir, builtin())] == paths


def test_templates_may_stand_where_a_value_is_known_later():
    config = {"pipeline": [{"step": "top_k", "k": "{{ inputs.k }}"}], "input": "{{ inputs.rows }}"}
    ir = compile_definition(workflow({"id": "t", "type": "transform", "config": config})).get_ir()
    assert check_configs(ir, builtin()) == ()


def test_in_a_test_of_a_workflow_jq_is_stubbed_or_real_as_any_worker_type():
    definition = workflow(
        node(jq=".x + 1", input={"x": 1}), node("after", value="{{ t * 10 }}", needs=["t"]), name="played"
    )
    assert testing.run(definition, real=True).outputs == {"after": 20}
    assert testing.run(definition, stubs={"t": 5}).outputs == {"after": 50}
    with pytest.raises(testing.StubInvalid, match="node 't'"):
        testing.run(definition)
    transform._jq.close()
