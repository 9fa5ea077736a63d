"""Every spelling of a definition, and what it becomes."""

import copy

import pytest

from perdure.model import compile_definition
from perdure.model.ir import Compensator, Join, Limits, Retry
from tests.model.helpers import again, by_id, codes, compiled, edge, ids, index, message, node, workflow

ADDRESS = "sha256:" + "a" * 64


def same(one, other):
    """Both compile, to the same hash and the same IR."""
    first, second = compile_definition(one), compile_definition(other)
    assert first.ir is not None, first.problems
    assert second.ir is not None, second.problems
    assert first.definition == second.definition
    assert first.ir == second.ir


def same_node(one, other):
    same(workflow(node("a"), {"id": "n", **one}), workflow(node("a"), {"id": "n", **other}))


def test_the_sample_of_the_interface_compiles():
    ir = compiled(
        {"id": "start", "type": "input"},
        {
            "id": "weather",
            "type": "http",
            "config": {"url": "https://example.com/w?q={{ inputs.city }}"},
            "dependencies": ["start"],
            "timeout_seconds": 30,
            "retry": {
                "max_attempts": 4,
                "backoff_ms": 10,
                "multiplier": 1.5,
                "max_backoff_ms": 99,
                "jitter": False,
                "retry_on": ["timeout", "http:5xx"],
                "give_up_on": ["http:4xx"],
            },
            "on_failure": "park",
            "effect": "at_most_once",
            "join": {"at_least": 1, "cancel_rest": True},
            "queue": "fast",
            "priority": 5,
            "sensitive": ["body.ssn"],
            "output_schema": {"type": "object"},
            "when": "inputs.city != ''",
            "branch": {"rules": [{"condition": "output.ok", "next_nodes": ["a", "b"]}], "default": ["c"]},
            "compensator": {
                "type": "http",
                "config": {"url": "x"},
                "timeout_seconds": 60,
                "retry": {"max_attempts": 2},
            },
            "queue_timeout_seconds": 1,
            "total_timeout_seconds": 2,
            "heartbeat_timeout_seconds": 3,
            "isolation": "process",
            "max_crashes": 2,
            "concurrency": {"key": "{{ inputs.city }}", "limit": 3},
            "rate": {"key": "k", "limit": 3, "per_seconds": 60},
        },
        {"id": "a", "type": "task"},
        {"id": "b", "type": "task"},
        {"id": "c", "type": "task"},
        inputs={"type": "object"},
        limits={"max_hops": 5, "max_fanout": 6, "deadline_seconds": 7, "max_bytes": 8},
        on_failure={"compensate": True},
        outputs={"summary": "{{ a.text }}"},
        description="x",
    )
    weather = by_id(ir, "weather")
    assert weather.retry == Retry(4, 10, 1.5, 99, False, ("http:5xx", "timeout"), ("http:4xx",))
    assert weather.join == Join(1, True)
    assert weather.compensator == Compensator("http", {"url": "x"}, 60.0, Retry(max_attempts=2))
    assert (weather.on_failure, weather.effect, weather.queue, weather.priority) == ("park", "at_most_once", "fast", 5)
    assert (weather.timeout_seconds, weather.max_crashes, weather.isolation) == (30.0, 2, "process")
    assert weather.branch is not None
    assert ids(ir, weather.branch.default) == ["c"]
    assert ir.limits == Limits(5, 6, 7.0, 8)
    assert ir.compensate_on_failure
    assert ir.output_references[0].node == "a"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "http"}, {"handler": "http"}),
        ({"type": "http"}, {"type": "call_external_service"}),
        ({"type": "llm"}, {"handler": "llm_service"}),
        ({"type": "task"}, {"type": "task", "config": {}}),
        ({"type": "task"}, {"type": "task", "config": None, "retry": None, "branch": None}),
        ({"type": "task", "config": {"action": "x"}}, {"config": {"action": "x"}}),
        ({"type": "task", "config": {"function": "m:f"}}, {"config": {"function": "m:f"}}),
        ({"type": "t", "dependencies": ["a"]}, {"type": "t", "depends_on": ["a"]}),
        ({"type": "t", "dependencies": ["a"]}, {"type": "t", "dependencies": [{"node": "a"}]}),
        ({"type": "t", "dependencies": ["a"]}, {"type": "t", "dependencies": ["a", "a"], "depends_on": ["a"]}),
        ({"type": "t", "dependencies": ["a"]}, {"type": "t", "dependencies": [{"node": "a", "required": False}]}),
        ({"type": "t", "timeout_seconds": 30}, {"type": "t", "limits": {"deadline_s": 30.0}}),
        ({"type": "t", "retry": 5}, {"type": "t", "retry": {"max_attempts": 5}}),
        ({"type": "t"}, {"type": "t", "retry": 3}),
        (
            {"type": "t"},
            {"type": "t", "retry": {"backoff_ms": 1000, "multiplier": 2, "max_backoff_ms": 60000, "jitter": True}},
        ),
        ({"type": "t"}, {"type": "t", "retry": {"retry_on": [], "multiplier": 2.0}}),
        ({"type": "wait"}, {"type": "wait", "retry": 1}),
        ({"type": "t"}, {"type": "t", "join": "all", "on_failure": "fail", "effect": "idempotent", "queue": "default"}),
        ({"type": "t"}, {"type": "t", "priority": 0, "sensitive": [], "isolation": "thread", "max_crashes": 5}),
        ({"type": "t"}, {"type": "t", "wait_for_all": True}),
        ({"type": "t"}, {"type": "t", "output_schema": {}}),
        (
            {"type": "t", "dependencies": ["a"], "join": "any"},
            {"type": "t", "dependencies": ["a"], "join": {"at_least": 1, "cancel_rest": False}},
        ),
        ({"type": "t"}, {"type": "t", "branch": {"enabled": False, "rules": "nonsense"}}),
        ({"type": "t"}, {"type": "t", "loop": {"enabled": False}}),
        ({"type": "t", "loop": again()}, {"type": "t", "loop": again("n", enabled=True, delay_ms=0)}),
        (
            {"type": "t", "loop": again()},
            {"type": "t", "loop": {**again(), "condition": {"type": "cel", "expression": " output.again == true "}}},
        ),
        ({"type": "t", "config_ref": f"cas://{ADDRESS}"}, {"type": "t", "config_ref": ADDRESS}),
        ({"type": "t", "config_ref": ADDRESS}, {"type": "t", "config_ref": {"cas_ref": f"cas://{ADDRESS}"}}),
        (
            {"type": "t", "compensator": {"type": "task", "config": {"action": "x"}, "timeout_seconds": 60}},
            {"type": "t", "compensator": {"action": "x", "timeout_sec": 60, "retry": 3}},
        ),
        (
            {"type": "agent", "config": {"model": "m", "x": 1}},
            {"type": "agent", "config": {"x": 1}, "agent_config": {"model": "m"}},
        ),
        ({"type": "human", "timeout_seconds": 60}, {"type": "human", "config": {"timeout_seconds": 60.0}}),
        (
            {"type": "human", "config": {"timeout_seconds": 7200}},
            {"type": "human", "human_config": {"timeout_hours": 2}},
        ),
        ({"type": "human", "limits": {"deadline_s": 5}}, {"type": "human", "timeout_seconds": 5}),
        (
            {"type": "human", "config": {"on_timeout": "approve", "approvers": ["a"]}},
            {"type": "human", "human_config": {"escalation_policy": "auto_approve_after_timeout", "approvers": ["a"]}},
        ),
        ({"type": "human"}, {"type": "human", "config": {"on_timeout": "reject", "quorum": 1}}),
        ({"type": "t", "sensitive": ["b", "a"]}, {"type": "t", "sensitive": ["a", "b", "a"]}),
        (
            {"type": "map", "config": {"over": [1], "node": {"type": "http"}}},
            {"type": "map", "config": {"over": [1], "node": {"handler": "call_external_service", "retry": 3}}},
        ),
    ],
)
def test_two_spellings_of_one_meaning_are_one_definition(one, other):
    same_node(one, other)


def test_every_way_of_naming_an_edge_makes_the_same_edge():
    ways = [
        workflow(node("a"), node("b", "a")),
        workflow({"node_id": "a", "type": "task", "dependents": ["b"]}, {"node_id": "b", "type": "task"}),
        workflow({"id": "a", "type": "task"}, {"id": "b", "type": "task"}, edges=[{"from": "a", "to": "b"}]),
        workflow(node("b", "a"), node("a", dependents=["b"]), edges=[{"from": "a", "to": "b"}], description="other"),
    ]
    hashes = {compile_definition(way).get_ir().hash for way in ways}
    assert len(hashes) == 1


def test_a_dependency_beside_the_route_that_names_it_adds_nothing():
    branch = {"rules": [{"condition": "output.x", "next_nodes": ["b"]}]}
    same(
        workflow(node("a", branch=branch), {"id": "b", "type": "task"}),
        workflow(node("a", branch=branch), node("b", "a")),
    )
    ir = compiled(node("a", branch=branch), node("b", "a"))
    assert len(ir.edges) == 1
    assert ir.edges[0].named


def test_a_required_dependency_is_kept_on_a_named_edge():
    ir = compiled(
        node("a", branch={"rules": [], "default": ["b"]}),
        node("b", {"node": "a", "required": True}),  # type: ignore[arg-type]
    )
    assert edge(ir, "a", "b").named
    assert edge(ir, "a", "b").required


def test_ports_are_kept_on_the_edge():
    ir = compiled(
        {"id": "a", "type": "task"},
        {"id": "b", "type": "task"},
        edges=[{"from": "a.out", "to": "b.words"}, {"from": "a", "to": "b.also"}, {"from": "a", "to": "b"}],
    )
    assert len(ir.edges) == 1
    assert ir.edges[0].ports == (("out", "also"), ("out", "words"))


def test_the_canonical_definition_compiles_to_itself():
    result = compile_definition(
        workflow(
            node("a", handler="task", loop=again(break_path=["b"], timeout_path=[])),
            {
                "id": "b",
                "type": "human",
                "human_config": {"timeout_hours": 1},
                "config_ref": {"type_url": "t", "cas_ref": ADDRESS},
            },
            node("c", {"node": "b", "required": True}),  # type: ignore[arg-type]
            edges=[{"from": "a.x", "to": "c.y", "required": True}],
            endless=True,
        )
    )
    again_compiled = compile_definition(result.definition)
    assert again_compiled.definition == result.definition
    assert again_compiled.ir == result.ir


def test_the_description_is_no_part_of_the_hash_but_the_name_is():
    one = compiled(node("a"))
    assert compiled(node("a"), description="text").hash == one.hash
    assert compile_definition({"name": "other", "nodes": [node("a")]}).get_ir().hash != one.hash
    assert one.hash.startswith("sha256:")


def test_compiling_does_not_change_what_was_given():
    data = workflow({"id": "h", "type": "human", "config": {"timeout_hours": 2}}, node("b", "h"))
    before = copy.deepcopy(data)
    compile_definition(data)
    assert data == before


@pytest.mark.parametrize(
    ("type", "attempts"), [("task", 3), ("http", 3), ("human", 1), ("wait", 1), ("workflow", 1), ("my.plugin", 3)]
)
def test_the_number_of_attempts_depends_on_the_type(type, attempts):
    assert by_id(compiled({"id": "a", "type": type}), "a").retry.max_attempts == attempts


def test_a_map_has_an_item_with_its_own_retry():
    config = {"over": "{{ inputs.list }}", "node": {"type": "wait", "config": {"seconds": "{{ item.s }}"}}}
    mapped = by_id(compiled(node("m", type="map", config=config)), "m")
    assert mapped.item is not None
    assert (mapped.item.id, mapped.item.type, mapped.item.retry.max_attempts) == ("m", "wait", 1)
    assert [r.root for r in mapped.references] == ["inputs"]
    assert [r.root for r in mapped.item.references] == ["item"]
    child = {"over": "{{ inputs.list }}", "workflow": "w@2", "inputs": {"x": "{{ item }}"}}
    item = by_id(compiled(node("m", type="map", config=child)), "m").item
    assert item is not None
    assert (item.type, item.config) == ("workflow", {"workflow": "w@2", "inputs": {"x": "{{ item }}"}})


def test_a_map_in_a_map_is_refused_with_the_way_out():
    inner = {"type": "map", "config": {"over": [1], "node": {"type": "wait"}}}
    found = compile_definition({"name": "w", "nodes": [node("m", type="map", config={"over": [1], "node": inner})]})
    assert [(one.code, one.path) for one in found.problems] == [("map_in_map", "nodes[0].config.node.type")]
    assert "a workflow of its own" in found.problems[0].message


def test_a_config_may_stand_beside_a_config_ref():
    ir = compiled(
        {
            "id": "a",
            "type": "human",
            "config_ref": {"type_url": "u", "cas_ref": ADDRESS},
            "human_config": {"timeout_hours": 1},
        }
    )
    a = by_id(ir, "a")
    assert (a.config_ref, a.type_url, a.config) == (ADDRESS, "u", {"timeout_seconds": 3600})


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"retry": 0}, "wrong_value"),
        ({"retry": {"max_attempts": True}}, "wrong_type"),
        ({"retry": "often"}, "wrong_type"),
        ({"retry": {"multiplier": 0.5}}, "wrong_value"),
        ({"retry": {"retry_on": "timeout"}}, "wrong_type"),
        ({"retry": {"retry_on": [1]}}, "wrong_type"),
        ({"timeout_seconds": 0}, "wrong_value"),
        ({"timeout_seconds": 5, "limits": {"deadline_s": 6}}, "conflicting_keys"),
        ({"join": "some"}, "wrong_value"),
        ({"join": {"cancel_rest": True}}, "missing_key"),
        ({"join": {"at_least": 0}}, "impossible_join"),
        ({"join": {"at_least": -1}}, "impossible_join"),
        ({"join": {"at_least": 1.5}}, "wrong_type"),
        ({"join": 3}, "wrong_type"),
        ({"join": "any"}, "impossible_join"),
        ({"join": "any", "wait_for_all": True}, "conflicting_keys"),
        ({"wait_for_all": False}, "wrong_value"),
        ({"effect": "none"}, "wrong_value"),
        ({"queue": "a b"}, "wrong_value"),
        ({"queue": ""}, "wrong_value"),
        ({"on_failure": "ignore"}, "wrong_value"),
        ({"on_failure": {"path": []}}, "missing_key"),
        ({"on_failure": {}}, "missing_key"),
        ({"on_failure": 3}, "wrong_type"),
        ({"on_failure": {"path": ["zz"]}}, "unknown_node"),
        ({"on_failure": {"path": ["a"]}}, "self_dependency"),
        ({"dependencies": "a"}, "wrong_type"),
        ({"dependencies": [3]}, "wrong_type"),
        ({"dependencies": [{}]}, "missing_key"),
        ({"dependents": [{"node": "a"}]}, "wrong_type"),
        ({"config": [1]}, "wrong_type"),
        ({"config_ref": {"type_url": "x"}}, "missing_key"),
        ({"config_ref": 3}, "wrong_type"),
        ({"type": "a b"}, "wrong_value"),
        ({"rejection_path": []}, "misplaced_key"),
        ({"agent_config": {"x": 1}, "config": {"x": 2}}, "conflicting_keys"),
        ({"concurrency": {"key": "x"}}, "missing_key"),
        ({"rate": {"limit": 1}}, "missing_key"),
        ({"rate": {"limit": 1, "per_seconds": "x"}}, "wrong_type"),
        ({"output_schema": "x"}, "wrong_type"),
        ({"compensator": {}}, "missing_key"),
        ({"compensator": {"type": "workflow", "config": {"workflow": "w"}}}, "wrong_value"),
        ({"compensator": {"type": "human"}}, "wrong_value"),
        ({"rate": {"limit": 1, "per_seconds": 5e-324}}, "wrong_value"),
        ({"compensator": {"action": "x", "config": {"action": "y"}}}, "conflicting_keys"),
        ({"branch": {}}, "missing_key"),
        ({"branch": []}, "wrong_type"),
        ({"branch": {"rules": [{}]}}, "missing_key"),
        ({"branch": {"rules": [{"condition": "true", "next_nodes": ["a"]}] * 101}}, "wrong_value"),
        ({"branch": {"rules": [3]}}, "wrong_type"),
        ({"branch": {"type": "magic"}}, "wrong_value"),
        ({"branch": {"type": "agent_driven"}}, "missing_key"),
        ({"branch": {"type": "agent_driven", "available_next_nodes": ["zz"], "rules": [1]}}, "misplaced_key"),
        ({"branch": {"rules": [], "available_next_nodes": ["a"]}}, "misplaced_key"),
        ({"branch": {"rules": [], "default": ["zz"]}}, "unknown_node"),
        ({"loop": {"max_iterations": 3}}, "missing_key"),
        ({"loop": again(loop_back_to="zz")}, "unknown_node"),
        ({"loop": again(max_iterations=0)}, "wrong_value"),
        ({"loop": {**again(), "max_iteration": 3}}, "unknown_key"),
        ({"loop": again(break_path=["zz"])}, "unknown_node"),
        ({"when": ""}, "wrong_value"),
        ({"when": 3}, "wrong_type"),
        ({"when": {"expression": "x"}}, "missing_key"),
        ({"when": {"type": "lua"}}, "wrong_value"),
        ({"when": {"type": "cel", "expresion": "x"}}, "unknown_key"),
        ({"when": {"type": "jsonpath", "query": "$.x", "operator": "=="}}, "missing_key"),
        ({"when": {"type": "jsonpath", "query": "x", "operator": "exists"}}, "wrong_value"),
        ({"when": {"type": "jsonpath", "query": "$.x", "operator": "like", "value": 1}}, "wrong_value"),
        ({"when": {"type": "schema_validation"}}, "conflicting_keys"),
        ({"when": {"type": "schema_validation", "schema": 3}}, "wrong_type"),
        ({"when": {"type": "composite", "operator": "XOR", "conditions": ["true"]}}, "wrong_value"),
        ({"when": {"type": "composite", "operator": "NOT", "conditions": ["true", "false"]}}, "wrong_value"),
        ({"when": {"type": "composite", "operator": "AND", "conditions": []}}, "wrong_value"),
        ({"when": {"type": "python_sandbox"}}, "conflicting_keys"),
        ({"when": {"type": "python_sandbox", "code": "x", "timeout_ms": 0}}, "wrong_value"),
        ({"when": {"type": "cross_node_comparison", "left": {"value": 1}, "operator": "=="}}, "missing_key"),
        (
            {
                "when": {
                    "type": "cross_node_comparison",
                    "left": {"source": "context"},
                    "operator": "==",
                    "right": {"value": 1},
                }
            },
            "missing_key",
        ),
        ({"when": {"type": "cross_node_comparison", "expression": "true", "operator": "=="}}, "conflicting_keys"),
        ({"type": "map", "config": {"over": [1]}}, "conflicting_keys"),
        ({"type": "map", "config": {"node": {"type": "t"}}}, "missing_key"),
        ({"type": "map", "config": {"over": [1], "node": {"type": "t", "loop": again()}}}, "misplaced_key"),
        ({"type": "map", "config": {"over": [1], "node": {"type": "t", "id": "1"}}}, "invalid_id"),
        ({"type": "map", "config": {"over": [1], "node": {"type": "t"}, "inputs": {}}}, "misplaced_key"),
        ({"type": "map", "config": {"over": 3, "workflow": "w"}}, "wrong_type"),
        ({"type": "human", "human_config": {"escalation_policy": "shrug"}}, "wrong_value"),
        ({"type": "human", "human_config": {"timeout_hour": 2}}, "unknown_key"),
        ({"type": "human", "human_config": {"timeout_hours": 2}, "timeout_seconds": 5}, "conflicting_keys"),
        ({"type": "human", "config": {"timeout_seconds": 5, "timeout_hours": 2}}, "conflicting_keys"),
    ],
)
def test_a_wrong_node_is_refused(keys, code):
    assert code in codes(workflow({"id": "a", "type": "task", **keys}))


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"node": []}, "unknown_key"),
        ({"nodes": {}}, "wrong_type"),
        ({"nodes": None}, "empty_workflow"),
        ({"nodes": [3]}, "wrong_type"),
        ({"edges": [{"from": "a"}]}, "missing_key"),
        ({"edges": [{"from": "a", "to": "zz"}]}, "unknown_node"),
        ({"edges": [{"from": "a.", "to": "a"}]}, "wrong_value"),
        ({"edges": [["a", "b"]]}, "wrong_type"),
        ({"limits": {"max_hop": 3}}, "unknown_key"),
        ({"limits": 3}, "wrong_type"),
        ({"on_failure": "compensate"}, "wrong_type"),
        ({"inputs": "x"}, "wrong_type"),
        ({"outputs": []}, "wrong_type"),
        ({"outputs": {"x": "{{ zz.y }}"}}, "unknown_node"),
        ({"outputs": {"x": "{{ secrets.y }}"}}, "bad_reference"),
        ({"endless": "yes"}, "wrong_type"),
        ({"name": 3}, "wrong_type"),
    ],
)
def test_a_wrong_workflow_is_refused(keys, code):
    assert code in codes({"name": "w", "nodes": [node("a")], **keys})


@pytest.mark.parametrize(
    "id", ["", "1a", "a b", "a.b", "é", "a" * 129, "inputs", "run", "loop", "item", "secrets", "ctx", 3, ["a"]]
)
def test_an_id_that_is_no_identifier_is_refused(id):
    assert "invalid_id" in codes(workflow({"id": id, "type": "task"}))


@pytest.mark.parametrize("id", ["a", "_a", "A1", "a-b", "a" * 128, "node", "error"])
def test_an_identifier_is_an_id(id):
    ir = compiled(node(id), node("reader", id, config={"x": f"{{{{ {id}.y }}}}"}))
    assert by_id(ir, "reader").references[0].node == id
    assert index(ir, id) == 0


def test_unknown_types_are_for_a_later_stage():
    assert by_id(compiled({"id": "a", "type": "acme.frobnicate"}), "a").type == "acme.frobnicate"


def test_a_disabled_part_is_not_even_looked_at():
    ir = compiled(node("a", loop={"enabled": False, "loop_back_to": "nowhere"}))
    assert by_id(ir, "a").loop is None


def test_two_ids_that_differ_are_a_conflict():
    assert "conflicting_keys" in codes(workflow({"id": "a", "node_id": "b", "type": "task"}))


def test_a_missing_name_is_a_warning():
    result = compile_definition({"nodes": [node("a")]})
    assert result.ir is not None
    assert "it can be run" in message(result, "missing_name")
