"""Definitions that keep configs as blobs, and dry runs: what is said before is what happens."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import human, task, workflow

SAMPLE = json.loads((Path(__file__).parent.parent / "model" / "reference" / "node_manager_approval.json").read_text())
ABSENT = "sha256:" + "0" * 64


def put(shell, value):
    text = value if isinstance(value, str) else json.dumps(value)
    return shell.run("blobs", "put", "-", input=text).stdout.strip()


def approval(tmp_path, ref, name="approval", **human_config):
    node = {**SAMPLE, "config_ref": {"type_url": "svc.human/Config@1", "cas_ref": ref}}
    node["human_config"] = {**SAMPLE["human_config"], **human_config}
    deal = {"id": "validate_high_value_deal", "type": "transform", "config": {"value": {"amount": 90000}}}
    account = {"id": "setup_enterprise_account", "type": "transform", "config": {"value": "made"}}
    return workflow(tmp_path, name, deal, node, account)


def codes(view):
    return [(problem["path"], problem["code"], problem["severity"]) for problem in view["problems"]]


# -- config beside config_ref ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_approval_beside_a_config_ref_asks_who_is_named_and_times_out(shell, tmp_path):
    file = approval(tmp_path, put(shell, {"show": "a deal of {{ validate_high_value_deal.amount }}"}))
    assert shell.json("validate", file)["problems"] == []
    shell.run("run", file, "--run-id", "deal", "--no-wait", code=3)
    (asked,) = shell.json("approvals", "list")["items"]
    assert asked["approvers"] == ["sales-manager@company.com"]
    assert asked["expires_at"] - asked["requested_at"] == 48 * 3600
    assert asked["on_timeout"] == "approve"
    assert asked["shown"]["show"] == "a deal of 90000"
    assert "mallory" in shell.error("approvals", "approve", asked["approval_id"], "--by", "mallory")
    shell.run("approvals", "approve", asked["approval_id"], "--by", "sales-manager@company.com")
    assert shell.json("run", file, "--run-id", "deal")["outputs"]["setup_enterprise_account"] == "made"


def test_restrictions_may_stand_in_the_blob_in_the_words_of_the_documents(shell, tmp_path):
    ref = put(shell, {"approvers": ["ann"], "timeout_hours": 2, "escalation_policy": "fail_after_timeout"})
    node = {"id": "ask", "type": "human", "config_ref": ref, "config": {"show": "please"}}
    shell.run("run", workflow(tmp_path, "kept", node), "--no-wait", code=3)
    (asked,) = shell.json("approvals", "list")["items"]
    assert (asked["approvers"], asked["on_timeout"]) == (["ann"], "fail")
    assert asked["expires_at"] - asked["requested_at"] == 7200


@pytest.mark.parametrize(
    ("blob", "key"),
    [
        ({"approvers": ["eve"]}, "approvers"),
        ({"timeout_seconds": 5}, "timeout_seconds"),
        ({"on_timeout": "reject"}, "on_timeout"),
    ],
)
def test_a_blob_that_says_otherwise_than_the_definition_is_refused_with_both_places(shell, tmp_path, blob, key):
    file = approval(tmp_path, put(shell, blob))
    told = shell.error("validate", file, code=2)
    assert f"'{key}' of node 'manager_approval'" in told
    assert "in the definition and" in told
    assert "in the content of its config_ref" in told
    assert "nothing was run" in shell.error("run", file, code=2)


def test_the_default_that_is_written_is_not_undone_by_the_blob(shell, tmp_path):
    """`reject` is what happens anyway, and still it is what was asked for."""
    file = approval(tmp_path, put(shell, {"on_timeout": "approve"}), escalation_policy="reject")
    assert "'on_timeout' of node 'manager_approval'" in shell.error("validate", file, code=2)


def test_config_and_human_config_that_disagree_about_a_default_are_refused(shell, tmp_path):
    node = {**human("ask", on_timeout="approve"), "human_config": {"escalation_policy": "reject"}}
    assert "keep one of them" in shell.error("validate", workflow(tmp_path, "both", node), code=2)


def test_the_joined_config_is_checked_by_its_type(shell, tmp_path):
    ref = put(shell, {"quorum": 2, "aprovers": ["ann"]})
    view = shell.json("validate", approval(tmp_path, ref), code=2)
    assert codes(view) == [("nodes[1].config_ref", "unknown_key", "error")]
    assert "did you mean 'approvers'" in view["problems"][0]["message"]
    ref = put(shell, {"quorum": 2})
    assert "2 of 1 approvers is impossible" in shell.error("validate", approval(tmp_path, ref, "two"), code=2)


def test_a_transform_that_takes_a_worker_by_its_blob_gets_one(shell, tmp_path):
    ref = put(shell, {"jq": ".n + 1"})
    node = {"id": "a", "type": "transform", "config_ref": ref, "config": {"input": {"n": "{{ inputs.n }}"}}}
    assert shell.json("run", workflow(tmp_path, "jq", node), "-i", "n=2")["outputs"] == {"a": 3}


@pytest.mark.slow
def test_the_item_of_a_map_may_have_its_config_in_a_blob(shell, tmp_path):
    def each(ref):
        item = {"type": "transform", "config_ref": ref}
        return {"id": "m", "type": "map", "config": {"over": [1, 2], "node": item}}

    ref = put(shell, {"value": "{{ item + 1 }}"})
    assert shell.json("run", workflow(tmp_path, "each", each(ref)))["outputs"] == {"m": [2, 3]}
    view = shell.json("validate", workflow(tmp_path, "gone", each(ABSENT)), code=2)
    assert codes(view) == [("nodes[0].config.node.config_ref", "missing_blob", "error")]


def test_a_map_itself_may_not(shell, tmp_path):
    node = {"id": "m", "type": "map", "config_ref": put(shell, {"over": [1], "workflow": "w"})}
    assert "write its config here" in shell.error("validate", workflow(tmp_path, "map", node), code=2)


# -- validate finds what run and push find -----------------------------------------------------------------------------

BAD: dict[str, Any] = {
    "short": ({"id": "a", "type": "transform", "config_ref": "sha256:cfg001"}, "invalid_reference"),
    "upper": ({"id": "a", "type": "transform", "config_ref": "sha256:" + "A" * 64}, "invalid_reference"),
    "absent": ({"id": "a", "type": "transform", "config_ref": ABSENT}, "missing_blob"),
    "no function": ({"id": "a", "type": "task", "config_ref": {"args": {}}}, "bad_config"),
    "bad template": ({"id": "a", "type": "transform", "config_ref": {"value": "{{ 1 + }}"}}, "bad_template"),
    "unknown node": ({"id": "a", "type": "transform", "config_ref": {"value": "{{ b.x }}"}}, "unknown_node"),
    "no mapping": ({"id": "a", "type": "transform", "config_ref": "text"}, "bad_config"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_validate_refuses_what_run_and_push_refuse(anywhere, tmp_path, name):
    node, code = BAD[name]
    ref = node["config_ref"]
    if name not in ("short", "upper", "absent"):
        ref = put(anywhere, ref)
    file = workflow(tmp_path, "bad", {**node, "config_ref": ref})
    put(anywhere, "so that there is a database")
    view = anywhere.json("validate", file, code=2)
    assert (view["valid"], view["problems"][0]["code"]) == (False, code)
    assert view["problems"][0]["path"].startswith("nodes[0].config_ref")
    assert view["problems"][0]["line"] == 7
    assert "nothing was" in anywhere.error("run", file, code=2)
    anywhere.error("workflows", "push", file, code=2)


def test_schemas_and_code_in_blobs_are_looked_into(shell, tmp_path):
    def branch(**condition):
        rules = [{"condition": condition, "next_nodes": ["b"]}]
        nodes = (task("a", "echo", branch={"rules": rules, "default": []}), task("b", "echo"))
        return workflow(tmp_path, "conditions", *nodes)

    schema = put(shell, {"type": "no type"})
    view = shell.json("validate", branch(type="schema_validation", schema_ref=schema), code=2)
    assert codes(view) == [("nodes[0].branch.rules[0].condition.schema_ref", "bad_condition", "error")]
    code = put(shell, "def evaluate(:")
    view = shell.json("validate", branch(type="python_sandbox", code_ref=code), code=2)
    assert codes(view) == [("nodes[0].branch.rules[0].condition.code_ref", "bad_condition", "error")]
    good = put(shell, {"type": "object"})
    assert shell.json("validate", branch(type="schema_validation", schema_ref=good))["problems"] == []


def test_without_a_database_blobs_are_not_looked_for_and_that_is_said(shell, tmp_path):
    view = shell.json("validate", workflow(tmp_path, "alone", BAD["absent"][0]))
    assert codes(view) == [("nodes[0].config_ref", "missing_blob", "warning")]
    assert not (tmp_path / ".perdure").exists()


def test_a_type_nobody_has_is_noticed_beside_a_config_ref(shell, tmp_path):
    node = {"id": "a", "type": "agnet", "config_ref": put(shell, {"x": 1})}
    view = shell.json("validate", workflow(tmp_path, "unknown", node))
    assert codes(view) == [("nodes[0].type", "unknown_type", "warning")]


# -- dry runs ----------------------------------------------------------------------------------------------------------

BROKEN = {
    "unknown key": {"id": "b", "type": "http", "config": {"url": "https://example.com", "to": "ann"}},
    "condition": {"id": "b", "type": "transform", "config": {"value": 1}, "when": "1 +"},
    "schema": {"id": "b", "type": "transform", "config": {"value": 1}, "output_schema": {"type": "no type"}},
    "blob": {"id": "b", "type": "transform", "config_ref": ABSENT},
    "graph": {"id": "b", "type": "transform", "config": {"value": 1}, "dependencies": ["nobody"]},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_dry_run_of_a_patch_of_a_workflow_says_what_the_patch_says(anywhere, tmp_path, name):
    anywhere.run("workflows", "push", workflow(tmp_path, "patched", task("a", "echo")))
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "add", "path": "/nodes/-", "value": BROKEN[name]}]))
    dry = anywhere.error("workflows", "patch", "patched", patch, "--dry-run", code=2)
    assert dry == anywhere.error("workflows", "patch", "patched", patch, code=2)
    assert "b" in dry


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_dry_run_of_a_patch_of_a_run_says_what_the_patch_says(anywhere, tmp_path, name):
    file = workflow(tmp_path, "live", human("ask"))
    anywhere.run("run", file, "--no-wait", code=0 if "PERDURE_SERVER_URL" in os.environ else 3)
    run_id = anywhere.json("runs", "list", "--workflow", "live")["items"][0]["run_id"]
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "add", "path": "/nodes/-", "value": BROKEN[name]}]))
    dry = anywhere.error("runs", "patch", run_id, patch, "--dry-run", code=2)
    assert dry == anywhere.error("runs", "patch", run_id, patch, code=2)
    whole = workflow(tmp_path, "live", human("ask"), BROKEN[name])
    dry = anywhere.error("runs", "patch", run_id, whole, "--dry-run", code=2)
    assert dry == anywhere.error("runs", "patch", run_id, whole, code=2)
