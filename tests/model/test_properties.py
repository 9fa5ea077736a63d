"""Whatever is given, the compiler answers; and equal meanings have equal hashes."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perdure.model import compile_definition, compile_text
from perdure.model.definition import _GRAPH_KEYS, _WORKFLOW_KEYS, NODE_KEYS
from perdure.model.ir import decode, encode
from perdure.model.loops import classify
from perdure.model.problems import CODES
from tests.model.strategies import definitions

words = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "zz",
        "",
        "all",
        "any",
        "{{ a.x }}",
        "{{ b.y",
        "output.x",
        "sha256:" + "a" * 64,
        "conditional",
        "agent_driven",
        "human",
        "map",
    ]
)
scalars = st.none() | st.booleans() | st.integers(-3, 5) | st.floats(-2, 5) | words
inner_keys = st.sampled_from(
    "type rules default condition next_nodes expression available_next_nodes max_iterations loop_back_to break_path "
    "timeout_path node required path at_least cancel_rest action over workflow conditions operator left right value "
    "max_attempts key limit per_seconds enabled endless from to".split()
)
junk = st.recursive(
    scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(inner_keys, x, max_size=4), max_leaves=8
)
junk_nodes = st.builds(
    lambda id, type, rest: {**rest, "id": id, "type": type},
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["task", "human", "map", "wait"]),
    st.dictionaries(st.sampled_from(sorted(NODE_KEYS)), junk, max_size=4),
)
junk_workflows = st.builds(
    lambda rest, nodes: {**rest, "nodes": nodes},
    st.dictionaries(st.sampled_from(sorted(_WORKFLOW_KEYS)), junk, max_size=3),
    st.lists(junk_nodes | junk, max_size=4),
)


@pytest.mark.slow
@given(junk_workflows | junk)
def test_any_data_gives_an_ir_or_errors_and_never_an_exception(data):
    result = compile_definition(data)
    errors = [p for p in result.problems if p.severity == "error"]
    assert (result.ir is None) == bool(errors)
    assert (result.definition is None) == bool(errors)
    for problem in result.problems:
        assert problem.code in CODES
        assert problem.message
    if isinstance(data, dict):
        from_text = compile_text(json.dumps(data))
        assert [(p.path, p.code) for p in from_text.problems if p.line is None] == []
        assert {(p.path, p.code) for p in from_text.problems} == {(p.path, p.code) for p in result.problems}


@pytest.mark.slow
@given(definitions())
def test_json_yaml_and_data_are_one_meaning(data):
    ir = compile_definition(data).get_ir()
    assert compile_text(json.dumps(data)).ir == ir
    assert compile_text(yaml.safe_dump(data, sort_keys=False)).ir == ir
    assert compile_text(yaml.safe_dump(data, default_flow_style=True), format="yaml").ir == ir
    assert decode(encode(ir)) == ir


@pytest.mark.slow
@given(definitions(), st.data())
def test_equal_meaning_has_an_equal_hash(data, draw):
    result = compile_definition(data)
    other = compile_definition(respell(copy.deepcopy(data), draw))
    assert other.definition is not None, other.problems
    other.definition.pop("description", None)
    assert other.definition == result.definition
    assert other.get_ir().hash == result.get_ir().hash
    assert other.get_ir().nodes == result.get_ir().nodes
    assert other.get_ir().edges == result.get_ir().edges
    once_more = compile_definition(result.definition)
    assert once_more.definition == result.definition
    assert once_more.ir == result.ir


def respell(data: dict[str, Any], draw: st.DataObject) -> dict[str, Any]:
    """The same workflow, written by somebody else."""

    def coin() -> bool:
        return draw.draw(st.booleans())

    edges = []
    by_id = {node["id"]: node for node in data["nodes"]}
    for node in data["nodes"]:
        kept = []
        for dependency in node.pop("dependencies", []):
            plain = isinstance(dependency, str)
            source = dependency if plain else dependency["node"]
            way = draw.draw(st.sampled_from(["keep", "edge", "dependent", "both"]))
            if way == "keep" or (way == "dependent" and not plain):
                kept.append(dependency)
            elif way == "dependent":
                by_id[source].setdefault("dependents", []).append(node["id"])
            else:
                edges.append({"from": source, "to": node["id"], "required": not plain})
                if way == "both":
                    kept.append({"node": source, "required": False})
        if kept:
            node["depends_on" if coin() else "dependencies"] = kept
    for node in data["nodes"]:
        if coin():
            node["node_id"] = node.pop("id")
        if coin():
            node["handler"] = {"http": "call_external_service"}.get(node["type"], node["type"])
            del node["type"]
        if coin():
            node.setdefault("effect", "idempotent")
            node.setdefault("queue", "default")
            node.setdefault("on_failure", "fail")
            node.setdefault("join", "all")
            node.setdefault("config", {})
            node.setdefault("priority", 0)
        if "retry" in node and coin():
            node["retry"] = {"max_attempts": float(node["retry"]), "jitter": True, "multiplier": 2}
        if node.get("join") == "any" and coin():
            node["join"] = {"at_least": 1}
        for part in ("branch", "loop"):
            if part in node:
                node[part]["enabled"] = True
                if "condition" in node[part] and coin():
                    node[part]["condition"] = {"type": "cel", "expression": node[part]["condition"]}
            elif coin():
                node[part] = {"enabled": False}
        if "loop" in node and node["loop"].get("enabled") and coin():
            node["loop"]["loop_back_to"] = node.get("id") or node.get("node_id")
        if "branch" in node and "default" in node["branch"]:
            node["branch"]["default"].reverse()
    nodes = [dict(reversed(node.items())) if coin() else node for node in data["nodes"]]
    data["nodes"] = draw.draw(st.permutations(nodes))
    if edges:
        data["edges"] = draw.draw(st.permutations(edges))
    data["description"] = "the same"
    data["limits"] = {"max_hops": 10_000, "max_fanout": 100_000}
    data["on_failure"] = {"compensate": False}
    return dict(reversed(data.items()))


@pytest.mark.slow
@given(definitions(), definitions())
def test_different_definitions_have_different_hashes(one, other):
    first, second = compile_definition(one), compile_definition(other)
    assert (first.definition == second.definition) == (first.get_ir().hash == second.get_ir().hash)


@pytest.mark.slow
@given(definitions())
def test_the_ir_is_consistent(data):
    ir = compile_definition(data).get_ir()
    for e, edge in enumerate(ir.edges):
        source, target = ir.nodes[edge.source], ir.nodes[edge.target]
        assert source is not None
        assert target is not None
        if edge.kind == "back":
            assert source.loop is not None
            assert source.loop.head == edge.target
            assert e not in source.edges_out
            assert e not in target.edges_in
            continue
        assert edge.source < edge.target
        assert e in source.edges_out
        assert e in target.edges_in
        assert (edge.kind, edge.common) == classify(source.loops, target.loops)
    assert len({(e.source, e.target) for e in ir.edges}) == len(ir.edges)
    for i, node in enumerate(ir.nodes):
        assert node is not None
        assert (i in ir.entries) == (not node.edges_in)
        assert (i in ir.terminals) == node.terminal == (not node.edges_out)
        for looping in node.loops:
            around = ir.nodes[looping]
            assert around is not None
            assert around.loop is not None
            assert i in around.loop.body
        if node.loop is not None:
            assert node.loops[-1] == i
            inside = set(node.loop.body)
            assert set(node.loop.exits) == {
                e for e, x in enumerate(ir.edges) if x.source in inside and x.target not in inside
            }
        if node.region is not None:
            join = ir.nodes[node.region]
            assert join is not None
            assert join.join.at_least is not None


def test_the_lists_of_keys_cover_each_other():
    assert _GRAPH_KEYS < NODE_KEYS
