"""The definitions that the reference documents show: each compiles as written once the nodes it mentions exist, and is
refused with the reason as it stands alone."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.model import Compiled, compile_definition, compile_text
from tests.model.helpers import again, by_id, edge, ids, index, message

FOLDER = Path(__file__).parent / "reference"
NODES = sorted(path.stem for path in FOLDER.glob("node_*.json"))
CONDITIONS = sorted(path.stem for path in FOLDER.glob("condition_*.json"))

# What stands alone in the documents and leans on nodes shown elsewhere: compiled alone it must say so.
ALONE_OK = {"node_charge_customer", "node_version_handover"}


def address(word: str) -> str:
    """The documents write `sha256:cfg001` where an address stands."""
    return f"sha256:{hashlib.sha256(word.encode()).hexdigest()}"


def load(name: str) -> Any:
    """As the documents have it, with addresses for their placeholders."""
    text = (FOLDER / f"{name}.json").read_text()
    return json.loads(re.sub(r"sha256:(\w+)", lambda found: address(found[1]), text))


def mentioned(value: Any) -> set[str]:
    """Nodes that conditions read."""
    text = json.dumps(value)
    known = ("enrich_data", "initial_score", "forecast", "referral_check", "calculate_total")
    return {name for name in known if name in text}


def complete(node: dict[str, Any]) -> dict[str, Any]:
    """The node in a workflow with the nodes it mentions, as plain tasks."""
    id = node.get("node_id") or node["id"]
    result = compile_definition({"name": "w", "nodes": [node]})
    names = {p.message.split("node '")[-1].split("'")[0] for p in result.problems if p.code == "unknown_node"}
    names |= mentioned(node) | set(node.get("dependencies", ())) | set(node.get("dependents", ()))
    for routing in (node.get("branch", {}), node.get("loop", {})):
        for key in ("default", "available_next_nodes", "break_path", "timeout_path"):
            names |= set(routing.get(key, ()))
        for rule in routing.get("rules", ()):
            names |= set(rule["next_nodes"])
    others = [{"id": name, "type": "task"} for name in sorted(names - {id})]
    edges = [{"from": name, "to": id} for name in sorted(mentioned(node))]
    return {"name": "w", "nodes": [node, *others], "edges": edges}


def compile_complete(name: str) -> Compiled:
    result = compile_text(json.dumps(complete(load(name))))
    assert result.ir is not None, result.problems
    return result


def test_all_definitions_of_the_documents_are_here():
    assert len(NODES) == 9
    assert len(CONDITIONS) == 10


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_the_documents_compiles_with_the_nodes_it_mentions(name):
    result = compile_complete(name)
    assert {p.code for p in result.problems} <= {"break_and_branch"}


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_the_documents_alone_says_which_nodes_are_missing(name):
    result = compile_definition({"name": "w", "nodes": [load(name)]})
    if name in ALONE_OK:
        assert result.problems == ()
    else:
        assert {p.code for p in result.problems} <= {"unknown_node", "break_and_branch"}
        assert result.ir is None


@pytest.mark.parametrize("name", [*NODES, *CONDITIONS, "loop_until_schema"])
def test_comments_as_the_documents_write_them_are_refused_clearly(name):
    lines = (FOLDER / f"{name}.json").read_text().splitlines()
    lines[1] += "  // says something"
    result = compile_text("\n".join(lines), format="json")
    assert "JSON has no comments" in message(result, "syntax")
    assert result.problems[0].line == 2


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_of_the_documents_compiles_in_a_loop_and_in_a_rule(name):
    condition = load(name)["condition"]
    routes = {
        "loop": again(condition=condition),
        "branch": {"type": "conditional", "rules": [{"condition": condition, "next_nodes": ["next"]}]},
    }
    for key, value in routes.items():
        data = complete({"node_id": "x", "type": "task", key: value})
        result = compile_definition(data)
        assert result.ir is not None, result.problems


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_is_no_workflow(name):
    result = compile_definition(load(name))
    assert "unknown key 'condition'" in message(result, "unknown_key")
    assert {p.code for p in result.problems} >= {"unknown_key", "empty_workflow"}


def test_a_loop_until_the_schema_holds():
    loop = by_id(compile_complete_node({"id": "x", "type": "task", **load("loop_until_schema")}), "x").loop
    assert loop is not None
    assert loop.condition.kind == "schema_validation"
    assert loop.condition.spec["invert"] is True
    assert loop.max_iterations == 3


def compile_complete_node(node):
    return compile_definition(complete(node)).get_ir()


def test_the_task_of_the_documents():
    node = by_id(compile_complete("node_validate_customer").get_ir(), "validate_customer")
    assert (node.config_ref, node.type_url) == (address("cfg001"), "svc.validate/Config@1")
    assert (node.timeout_seconds, node.max_hops, node.retry.max_attempts) == (30.0, 100, 3)


def test_the_loop_of_the_documents_leaves_by_its_two_paths():
    ir = compile_complete("node_call_external_api").get_ir()
    loop = by_id(ir, "call_external_api").loop
    assert loop is not None
    assert ids(ir, loop.break_path) == ["process_response"]
    assert ids(ir, loop.timeout_path) == ["error_dlq"]
    assert edge(ir, "call_external_api", "process_response").named
    assert loop.head == index(ir, "call_external_api")


def test_the_branches_of_the_documents_override_dependents():
    ir = compile_complete("node_score_customer").get_ir()
    branch = by_id(ir, "score_customer").branch
    assert branch is not None
    assert sorted(ids(ir, branch.rules[0].next_nodes)) == ["enterprise_sales", "send_gift"]
    assert all(e.named for e in ir.edges if e.source == index(ir, "score_customer"))
    agent = by_id(compile_complete("node_qualify_lead_agent").get_ir(), "qualify_lead_agent")
    assert agent.branch is not None
    assert (agent.branch.kind, len(agent.branch.available), agent.config["model"]) == ("agent_driven", 4, "gpt-4")


def test_the_approval_of_the_documents_says_when_it_times_out():
    node = by_id(compile_complete("node_manager_approval").get_ir(), "manager_approval")
    assert node.config["timeout_seconds"] == 48 * 3600
    assert node.config["on_timeout"] == "approve"
    assert node.config_ref == address("cfg004")
    assert "approval_ui_url" in node.config


def test_the_compensator_of_the_documents_is_a_task_with_an_action():
    compensator = by_id(compile_complete("node_charge_customer").get_ir(), "charge_customer").compensator
    assert compensator is not None
    assert (compensator.type, compensator.config) == ("task", {"action": "stripe.refund"})
    assert (compensator.timeout_seconds, compensator.retry.max_attempts) == (60.0, 3)


def test_the_patch_of_the_documents_makes_a_workflow_that_compiles():
    node, added = load("patch_send_email")
    data = {"name": "main", "nodes": [{"id": "process_data", "type": "task"}, node["value"]], "edges": [added["value"]]}
    ir = compile_definition(data).get_ir()
    assert edge(ir, "process_data", "send_email").kind == "inner"
