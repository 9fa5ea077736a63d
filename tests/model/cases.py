"""The smallest definition for each problem code. `test_problems.py` keeps this table and the table of codes equal."""

from typing import Any

from tests.model.helpers import again, node, workflow

_a, _b, _c = node("a"), node("b", "a"), node("c", "b")


def _nested_loops() -> dict[str, Any]:
    nodes = [node("h")]
    for i in range(18):
        before = "h" if i == 0 else f"x{i - 1}"
        nodes.append(node(f"x{i}", before, loop=again("h")))
    return workflow(*nodes)


# code -> text or data that has (at least) this problem
CASES: dict[str, Any] = {
    "syntax": '{"name": "w", "nodes": [}',
    "not_utf8": b'{"name": "\xff"}',
    "too_large": workflow(*[{"id": "n", "type": "t"}] * 250_001),
    "too_deep": '{"nodes": ' + "[" * 100 + "]" * 100 + "}",
    "duplicate_key": '{"name": "w", "name": "v", "nodes": []}',
    "number_out_of_range": '{"name": "w", "nodes": [], "limits": {"max_hops": NaN}}',
    "yaml_feature": "name: w\nnodes:\n  - &x {id: a, type: t}\n  - *x\n",
    "not_plain_data": workflow(node("a", config={"x": {1, 2}})),
    "empty_workflow": {"name": "w", "nodes": []},
    "wrong_type": workflow(node("a", timeout_seconds="soon")),
    "wrong_value": workflow(node("a", timeout_seconds=-1)),
    "unknown_key": workflow(node("a", retires=3)),
    "missing_key": workflow({"id": "a"}),
    "map_in_map": workflow(
        node("a", type="map", config={"over": [1], "node": {"type": "map", "config": {"over": [1], "node": {}}}})
    ),
    "transition_denied": workflow(node("a", capabilities={"can_emit_to": []}), node("b", "a")),
    "misplaced_key": workflow(node("a", human_config={"timeout_hours": 2})),
    "conflicting_keys": workflow(node("a", handler="http")),
    "missing_name": {"nodes": [_a]},
    "invalid_name": {"name": "a b", "nodes": [_a]},
    "missing_id": workflow({"type": "task"}),
    "invalid_id": workflow(node("1st")),
    "duplicate_id": workflow(node("a"), node("a")),
    "invalid_reference": workflow(node("a", config_ref="md5:abc")),
    "unknown_node": workflow(node("a", "zz")),
    "self_dependency": workflow(node("a", "a")),
    "cycle": workflow(_a, node("b", "a", "c"), _c),
    "no_entry": workflow(node("a", "b"), _b),
    "no_exit": workflow(node("a", "b"), _b),
    "unreachable": workflow(_a, node("x", "y"), node("y", "x")),
    "no_terminal_reachable": workflow(_a, node("b", "a", "c"), node("c", "b"), node("d", "a")),
    "impossible_join": workflow(_a, node("b", "a", join={"at_least": 2})),
    "mixed_join": workflow(node("o"), node("h"), node("m", "h", "o", join="any"), node("x", "m", loop=again("h"))),
    "no_such_port": workflow(_a, node("b"), edges=[{"from": "a.alt", "to": "b.x"}]),
    "stream_edge_routed": workflow(
        node("a", branch={"rules": [], "default": ["b"]}), node("b"), edges=[{"from": "a", "to": "b.x"}]
    ),
    "stream_crosses_loop": workflow(node("a", loop=again()), node("b"), edges=[{"from": "a", "to": "b.x"}]),
    "stream_join": workflow(_a, node("b", join="any"), edges=[{"from": "a", "to": "b.x"}]),
    "reads_open_stream": workflow(
        _a, node("b", config={"function": "f:g", "args": {"x": "{{ a }}"}}), edges=[{"from": "a", "to": "b.y"}]
    ),
    "stream_not_built": workflow(node("a", stream={}, isolation="process")),
    "loop_without_maximum": workflow(node("a", loop={"condition": "output.again"})),
    "loop_not_dominated": workflow(_a, _b, node("z"), node("x", "b", loop=again("z"))),
    "loops_overlap": workflow(
        node("a"), node("b", "a"), node("c", "b", loop=again("a")), node("d", "c", loop=again("b")), node("e", "d")
    ),
    "loops_too_deep": _nested_loops(),
    "endless_without_wait": workflow(node("a", loop={"condition": "true", "endless": True})),
    "break_and_branch": workflow(
        node("a", loop=again(break_path=["b"]), branch={"rules": [{"condition": "true", "next_nodes": ["c"]}]}),
        {"id": "b", "type": "task"},
        {"id": "c", "type": "task"},
    ),
    "bad_template": workflow(node("a", config={"x": "{{ inputs.y "})),
    "bad_expression": workflow(node("a", when="inputs.x == 'open")),
    "bad_reference": workflow(node("a", config={"x": "{{ item }}"})),
    "not_upstream": workflow(_a, node("b", config={"x": "{{ a.y }}"})),
    "may_be_skipped": workflow(
        node("s"), node("a", "s", when="inputs.x"), node("b", "s", "a", config={"x": "{{ a.y }}"})
    ),
    "too_many_problems": workflow(*[node(f"n{i}", "nowhere") for i in range(1100)]),
}
