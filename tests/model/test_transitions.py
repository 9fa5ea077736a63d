"""Which ways a workflow may go at all: `capabilities` of nodes as the reference documents write them, and `policies` of the workflow."""

import pytest

from perdure.model import compile_definition
from perdure.nodes import builtin
from perdure.nodes.config_checks import find_more_problems
from tests.model.helpers import node as bare
from tests.model.helpers import workflow


def node(id, *after, **keys):
    return bare(id, *after, **{"type": "transform", "config": {"value": 1}, **keys})


def agent(**more):
    return {"id": "qualify", "type": "agent", "config": {"model": "fast", "prompt": "Qualify."}, **more}


def made(*nodes, **more):
    compiled = compile_definition(workflow(*nodes, **more))
    return compiled, compiled.ir and {one.id: one for one in compiled.ir.nodes if one is not None}


def refused(*nodes, **more):
    compiled = compile_definition(workflow(*nodes, **more))
    every = (*compiled.problems, *find_more_problems(compiled, builtin()))
    return [(one.code, one.message) for one in every if one.severity == "error"]


SALES, NURTURE = node("sales"), node("nurture")
CAPABILITIES = {
    "can_emit_to": ["sales", "nurture"],
    "max_fanout": 1,
    "requires_approval": True,
    "allowed_tools": ["search_database"],
}


def test_capabilities_of_an_agent_say_what_other_keys_say():
    compiled, nodes = made(agent(capabilities=CAPABILITIES), SALES, NURTURE)
    branch = {"type": "agent_driven", "available_next_nodes": ["sales", "nurture"], "approve": True}
    config = {"model": "fast", "prompt": "Qualify.", "available_tools": ["search_database"]}
    same = agent(branch=branch, limits={"max_fanout": 1}, capabilities={"can_emit_to": ["sales", "nurture"]})
    assert made({**same, "config": config}, SALES, NURTURE)[0].ir.hash == compiled.ir.hash
    assert (nodes["qualify"].max_fanout, nodes["qualify"].branch.approve) == (1, True)
    assert compile_definition(compiled.definition).ir == compiled.ir


def test_where_a_node_may_lead_is_asked_of_each_of_its_edges():
    [(code, message)] = refused(node("a", capabilities={"can_emit_to": ["b"]}), node("b", "a"), node("c", "a"))
    assert (code, "node 'a' leads to 'c', and can_emit_to allows b" in message) == ("transition_denied", True)
    branch = {"type": "agent_driven", "available_next_nodes": ["sales"], "default": ["nurture"]}
    [(code, message)] = refused(agent(branch=branch, capabilities={"can_emit_to": ["sales"]}), SALES, NURTURE)
    assert "leads to 'nurture'" in message
    assert refused(node("a", capabilities={"can_emit_to": ["b"]}), node("b", "a")) == []


@pytest.mark.parametrize(
    ("capabilities", "words"),
    [
        ({"can_emit_too": ["b"]}, "did you mean 'can_emit_to'"),
        ({"max_fanout": 0}, "max_fanout"),
        ({"requires_approval": True}, "put a node of type human before"),
        ({"allowed_tools": ["f"]}, "is for nodes of type agent"),
        ({"can_emit_to": "b"}, "can_emit_to"),
        (7, "capabilities"),
    ],
)
def test_a_mistake_in_capabilities_is_refused(capabilities, words):
    assert any(words in message for _, message in refused(node("a", capabilities=capabilities)))


def test_capabilities_do_not_contradict_what_else_is_said():
    tools = agent(capabilities={"allowed_tools": ["f"]})
    tools["config"]["tools"] = ["ask_human"]
    assert any("keep one of them" in message for _, message in refused(tools))
    branch = {"type": "agent_driven", "available_next_nodes": ["sales"], "approve": False}
    assert any("the opposite" in m for _, m in refused(agent(branch=branch, capabilities=CAPABILITIES), SALES, NURTURE))
    assert any(
        "another max_fanout" in m
        for _, m in refused(agent(limits={"max_fanout": 2}, capabilities=CAPABILITIES), SALES, NURTURE)
    )


DELETE = {"when": "to == 'delete_customer' && from != 'admin_console'", "then": "deny"}


def test_a_policy_denies_an_edge():
    ways = [node("a"), node("delete_customer", "a")]
    [(code, message)] = refused(*ways, policies=[DELETE])
    assert (code, message) == (
        "transition_denied",
        f"'a' leads to 'delete_customer', and policy[0] ({DELETE['when']}) denies it; remove the edge",
    )
    assert refused(node("admin_console"), node("delete_customer", "admin_console"), policies=[DELETE]) == []


def test_what_a_policy_wants_asked_about_is_asked_about():
    asks = {**DELETE, "then": "ask"}
    [(_, message)] = refused(node("a"), node("delete_customer", "a"), policies=[asks])
    assert "put a node of type human between them" in message
    human = {"id": "a", "type": "human", "config": {"approvers": ["ann"]}}
    assert refused(human, node("delete_customer", "a"), policies=[asks]) == []
    chooses = agent(branch={"type": "agent_driven", "available_next_nodes": ["delete_customer"]})
    assert refused(chooses, node("delete_customer"), policies=[asks]) == []
    assert refused(chooses, node("delete_customer"), policies=[DELETE]) != []


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"when": "to ==", "then": "deny"}, "when of policy[0]"),
        ({"when": "too == 'x'", "then": "deny"}, "too"),
        ({"when": "to", "then": "deny"}, "cannot be judged"),
        ({"when": "true", "then": "allow"}, "then"),
        ({"then": "deny"}, "has no 'when'"),
        ({"when": "true", "then": "deny", "who": 1}, "who"),
        ("no", "policy[0]"),
    ],
)
def test_a_mistake_in_a_policy_is_refused(policy, words):
    found = refused(node("a"), node("b", "a"), policies=[policy])
    assert any(words in message for _, message in found), found


def test_policies_are_a_part_of_what_a_workflow_is():
    assert made(node("a"), policies=[DELETE])[0].ir.hash != made(node("a"))[0].ir.hash
    assert made(node("a"), policies=[DELETE])[0].ir.policies == (DELETE,)
