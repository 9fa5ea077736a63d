"""What a picture says: every edge with the condition that chooses it, every node with what it is about."""

import asyncio

import pytest

from perdure.drawing import make_picture
from perdure.drawing.marks import mark_run
from perdure.drawing.words import say_condition
from perdure.model import compile_definition

ORDER = {
    "name": "order",
    "nodes": [
        {"id": "start", "type": "input"},
        {
            "id": "route",
            "type": "transform",
            "config": {"value": 1},
            "dependencies": ["start"],
            "branch": {
                "type": "conditional",
                "rules": [
                    {"condition": "output > 3", "next_nodes": ["big"]},
                    {"condition": "output > 1", "next_nodes": ["ask", "big"]},
                ],
                "default": ["small"],
            },
        },
        {"id": "big", "type": "task", "config": {"function": "work:big"}, "on_failure": {"path": ["mend"]}},
        {"id": "ask", "type": "human", "config": {"approvers": ["ann", "bob"], "quorum": 2}, "rejection_path": ["no"]},
        {"id": "small", "type": "wait", "config": {"seconds": 7200}},
        {"id": "mend", "type": "wait", "config": {"signal": "mended"}},
        {"id": "no", "type": "workflow", "config": {"workflow": "letters@2"}},
        {"id": "pack", "type": "map", "dependencies": ["big", "ask", "small"], "join": "any",
         "config": {"over": "{{ inputs.parts }}", "node": {"type": "http", "config": {"url": "https://a.example/x?y"}}}},
        {"id": "weigh", "type": "http", "dependencies": ["pack"], "config": {"url": "https://a.example/w?k=1", "method": "PUT"},
         "when": "inputs.heavy", "on_failure": "park",
         "loop": {"condition": "output.more", "max_iterations": 4, "loop_back_to": "pack", "break_path": ["ship"],
                  "timeout_path": ["stop"]}},
        {"id": "ship", "type": "task", "config": {"function": "work:ship"},
         "compensator": {"type": "task", "config": {"function": "work:unship"}}},
        {"id": "stop", "type": "output", "config": {}},
    ],
}  # fmt: skip


@pytest.fixture
def picture():
    compiled = compile_definition(ORDER)
    return make_picture(compiled.get_ir())


def test_every_edge_says_what_chooses_it(picture):
    said = {
        (picture.boxes[a.source].id, picture.boxes[a.target].id): (a.kind, a.label.replace("\n", ", "))
        for a in picture.arrows
    }
    assert said == {
        ("start", "route"): ("plain", ""),
        ("route", "big"): ("choice", "output > 3 or output > 1"),
        ("route", "ask"): ("choice", "output > 1"),
        ("route", "small"): ("choice", "otherwise"),
        ("big", "mend"): ("failure", "on failure"),
        ("ask", "no"): ("failure", "rejected"),
        ("ask", "pack"): ("choice", "approved"),
        ("big", "pack"): ("plain", ""),
        ("small", "pack"): ("plain", ""),
        ("pack", "weigh"): ("plain", ""),
        ("weigh", "pack"): ("back", "again if output.more, at most 4×"),
        ("weigh", "ship"): ("choice", "done"),
        ("weigh", "stop"): ("choice", "after 4×"),
    }


def test_every_node_says_what_it_is_about(picture):
    boxes = {box.id: box for box in picture.boxes}
    assert {name: box.detail for name, box in boxes.items() if box.detail} == {
        "big": "work:big",
        "ask": "2 of ann, bob",
        "small": "2 h",
        "mend": "signal mended",
        "no": "letters@2",
        "pack": "each of inputs.parts: GET a.example/x",
        "weigh": "PUT a.example/w",
        "ship": "work:ship",
    }
    assert boxes["pack"].notes == ("any of 3",)
    assert boxes["weigh"].notes == ("when inputs.heavy", "on failure: park")
    assert [name for name, box in boxes.items() if box.compensated] == ["ship"]


def test_boxes_come_in_the_order_of_the_work_and_numbers_count():
    nodes = [{"id": f"s{n}", "type": "task"} for n in (10, 9, 1)] + [
        {"id": "a", "type": "task", "dependencies": ["s10"]}
    ]
    picture = make_picture(compile_definition({"name": "x", "nodes": nodes}).get_ir())
    assert [box.id for box in picture.boxes] == ["s1", "s9", "s10", "a"]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("output.a > 1", "output.a > 1"),
        ({"type": "jsonpath", "query": "$.a", "operator": ">=", "value": "x"}, '$.a >= "x"'),
        ({"type": "jsonpath", "query": "$.a", "operator": "exists"}, "$.a exists"),
        ({"type": "schema_validation", "schema": {}, "invert": True}, "does not match the schema"),
        (
            {
                "type": "cross_node_comparison",
                "left": {"source": "current", "path": "n"},
                "operator": ">",
                "right": {"source": "context", "node": "start", "path": "n"},
            },
            "output.n > start.n",
        ),
        (
            {"type": "composite", "operator": "OR", "conditions": ["output.a", "output.b"]},
            "(output.a) or (output.b)",
        ),
        ({"type": "composite", "operator": "NOT", "conditions": ["output.a"]}, "not (output.a)"),
    ],
)
def test_conditions_are_said_in_a_line(condition, text):
    nodes = [
        {"id": "start", "type": "input"},
        {"id": "a", "type": "task", "dependencies": ["start"],
         "branch": {"type": "conditional", "rules": [{"condition": condition, "next_nodes": ["b"]}]}},
        {"id": "b", "type": "task"},
    ]  # fmt: skip
    ir = compile_definition({"name": "x", "nodes": nodes}).get_ir()
    (branch,) = [node.branch for node in ir.nodes if node is not None and node.branch is not None]
    assert say_condition(branch.rules[0].condition) == text


def test_a_run_is_marked_with_its_states_and_the_way_it_took(tmp_path):
    nodes = [
        {"id": "a", "type": "transform", "config": {"value": 5},
         "branch": {"type": "conditional", "rules": [{"condition": "output > 3", "next_nodes": ["b"]}], "default": ["c"]}},
        {"id": "b", "type": "transform", "config": {"value": "{{ loop.iteration }}"},
         "loop": {"condition": "output < 3", "max_iterations": 9}},
        {"id": "c", "type": "transform", "config": {"value": 1}},
        {"id": "d", "type": "transform", "config": {"value": 1}, "dependencies": ["b", "c"]},
    ]  # fmt: skip
    state = asyncio.run(_run(tmp_path, {"name": "x", "nodes": nodes}))
    marks = mark_run(state)
    assert marks.states == {"a": "completed", "b": "completed", "c": "skipped", "d": "completed"}
    assert marks.taken == {("a", "b"), ("b", "b"), ("b", "d")}
    assert marks.skipped == {("a", "c"), ("c", "d")}
    assert marks.progress["b"].endswith("iteration 3")


async def _run(folder, definition):
    from perdure.engine import Engine
    from perdure.runtime.coordinator.requests import Request

    engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
    try:
        await engine.hold()
        ir, version = await engine.workflows.register(compile_definition(definition))
        await engine.runs.request(Request(kind="start", run_id="r1", ir=ir.hash, workflow_version=version, inputs={}))
        async for event in engine.runs.follow("r1"):
            if event.type == "run.completed":
                return await engine.runs.state("r1")
    finally:
        await engine.close(1)
