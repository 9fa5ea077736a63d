"""Definitions with streams: what they compile to, and what is refused (rule 71)."""

from typing import Any

import pytest

from perdure.model import compile_definition
from perdure.model.ir import Stream
from tests.model.helpers import again, by_id, codes, compiled, edge, message, node, workflow

FLOW = [{"from": "a.out", "to": "b.words"}]


def test_an_edge_with_ports_makes_both_ends_stream():
    ir = compiled(node("a"), node("b"), node("c", "b"), edges=FLOW)
    assert edge(ir, "a", "b").ports == (("out", "words"),)
    assert by_id(ir, "a").stream == by_id(ir, "b").stream == Stream()
    assert by_id(ir, "c").stream is None
    assert ir.streams


def test_a_workflow_without_ports_has_no_streams_in_its_ir():
    assert not compiled(node("a"), node("b", "a")).streams


def test_defaults_are_left_out_of_the_canonical_definition():
    written = {"restart": "anew", "collect": "list", "buffer": "8MiB", "early": False, "ports": ["out"]}
    data = workflow(node("a", stream=written), node("b"), edges=FLOW)
    canonical = compile_definition(data).definition
    assert canonical is not None
    assert canonical["nodes"][0]["stream"] == {}
    assert compile_definition(canonical).definition == canonical


def test_what_a_node_says_is_in_its_ir():
    said = {"collect": "text", "buffer": "64KiB", "ports": ["alt", "more"]}
    ir = compiled(node("a", stream=said), node("b", stream={"early": True}), edges=[{"from": "a.alt", "to": "b.x"}])
    assert by_id(ir, "a").stream == Stream(collect="text", buffer=65536, ports=("alt", "more"))
    assert by_id(ir, "b").stream == Stream(early=True)


@pytest.mark.parametrize("kind", ["human", "wait", "map", "workflow", "http"])
def test_only_tasks_have_ports(kind: str):
    assert "no_such_port" in codes(workflow(node("a"), {"id": "b", "type": kind}, edges=FLOW))
    assert "no_such_port" in codes(workflow({"id": "a", "type": kind}, node("b"), edges=FLOW))


def test_an_edge_that_enters_no_port_is_refused():
    found = compile_definition(workflow(node("a"), node("b"), edges=[{"from": "a.out", "to": "b"}]))
    assert "name the parameter" in message(found, "no_such_port")


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        ({"restart": "sometimes"}, "wrong_value"),
        ({"collect": "all"}, "wrong_value"),
        ({"buffer": "1 byte"}, "wrong_value"),
        ({"buffer": "1KiB"}, "wrong_value"),
        ({"buffer": 1}, "wrong_value"),
        ({"ports": ["a b"]}, "no_such_port"),
        ({"ports": [f"p{i}" for i in range(16)]}, "wrong_value"),
        ({"early": True}, "misplaced_key"),
        ({"speed": 1}, "unknown_key"),
        ("yes", "wrong_type"),
    ],
)
def test_what_a_stream_cannot_be(stream: Any, code: str):
    assert code in codes(workflow(node("a", stream=stream), node("b"), edges=FLOW))


@pytest.mark.parametrize("keys", [{"isolation": "process"}, {"sensitive": ["x"]}])
def test_what_is_not_built_is_refused_at_either_end(keys: dict[str, Any]):
    assert "stream_not_built" in codes(workflow(node("a", **keys), node("b"), edges=FLOW))
    assert "stream_not_built" in codes(workflow(node("a"), node("b", **keys), edges=FLOW))
    assert "stream_not_built" in codes(workflow(node("a", stream={}, **keys)))


def test_streams_inside_of_a_loop_are_not_built():
    found = codes(workflow(node("a"), node("b", loop=again("a")), edges=FLOW))
    assert "stream_not_built" in found
    assert "stream_crosses_loop" not in found


def test_every_problem_comes_at_once_and_says_where():
    found = compile_definition(
        workflow(
            node("a", branch={"rules": [], "default": ["b"]}),
            node("b", join="any"),
            {"id": "c", "type": "human"},
            edges=[*FLOW, {"from": "a.alt", "to": "c.x"}],
        )
    )
    places = {(problem.code, problem.path) for problem in found.errors}
    assert places >= {
        ("stream_edge_routed", "edges[0]"),
        ("stream_join", "edges[0]"),
        ("no_such_port", "edges[1]"),
    }


# -- reading what still streams ----------------------------------------------------------------------------------------


def read(name: str) -> dict[str, Any]:
    return {"config": {"function": "f:g", "args": {"x": f"{{{{ {name} }}}}"}}}


def test_a_reader_of_a_stream_cannot_read_the_output_of_its_source():
    assert "reads_open_stream" in codes(workflow(node("a"), node("b", **read("a")), edges=FLOW))


def test_nor_that_of_a_source_further_up_the_stream():
    edges = [*FLOW, {"from": "b", "to": "c.words"}]
    assert "reads_open_stream" in codes(workflow(node("a"), node("b"), node("c", **read("a")), edges=edges))


def test_what_comes_after_the_reader_may_read_the_source():
    assert codes(workflow(node("a"), node("b"), node("c", "b", **read("a")), edges=FLOW)) == set()


def test_unless_the_reader_may_end_early():
    nodes = [node("a"), node("b", stream={"early": True}), node("c", "b", **read("a"))]
    assert codes(workflow(*nodes, edges=FLOW)) == {"reads_open_stream"}


def test_what_had_ended_before_the_stream_began_may_be_read():
    assert codes(workflow(node("z"), node("a", "z"), node("b", **read("z")), edges=FLOW)) == set()


def test_a_when_of_the_reader_cannot_read_its_source_and_its_branch_can():
    routed = {"branch": {"rules": [{"condition": "ctx.a.output == 1", "next_nodes": ["c"]}]}}
    assert "reads_open_stream" in codes(workflow(node("a"), node("b", when="ctx.a.output == 1"), edges=FLOW))
    assert "reads_open_stream" not in codes(workflow(node("a"), node("b", **routed), node("c"), edges=FLOW))
