"""The samples of the reference documents, as a user would try them: `perdure validate`, `perdure run`, `perdure … patch`."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.helpers import workflow
from tests.model.test_reference import CONDITIONS, FOLDER, NODES, complete

LATER = {"node_version_handover": {"unknown_type"}, "node_qualify_lead_agent": {"bad_config", "bad_call"}}
"""A type that comes later; a model that the operator has not named and functions that are not here. Warnings: a worker elsewhere may have them."""


def put(shell, value):
    text = value if isinstance(value, str) else json.dumps(value)
    return shell.run("blobs", "put", "-", input=text).stdout.strip().removeprefix("cas://")


def load(shell, name, content):
    """The sample with an address of real content for each of its placeholders."""
    text = (FOLDER / f"{name}.json").read_text()
    return json.loads(re.sub(r"sha256:\w+", lambda _: put(shell, content), text))


def passing(definition, **values):
    """The nodes that a sample only mentions, as transforms."""
    for node in definition["nodes"][1:]:
        node |= {"type": "transform", "config": {"value": values.get(node["id"], node["id"])}}
    return definition


def write(tmp_path, definition):
    return workflow(tmp_path, definition["name"], *definition["nodes"], edges=definition.get("edges", []))


def echo(value):
    return {"function": "tests.cli.work:echo", "args": {"value": value}}


CONTENT = {
    "node_manager_approval": {"show": "a deal"},
    "node_qualify_lead_agent": {"prompt": "qualify"},
    "node_version_handover": {},
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_the_documents_is_valid_with_the_nodes_it_mentions(shell, tmp_path, name):
    node = load(shell, name, CONTENT.get(name, echo(1)))
    view = shell.json("validate", write(tmp_path, passing(complete(node))))
    found = {problem["code"] for problem in view["problems"]}
    assert view["valid"]
    assert found - {"break_and_branch"} == LATER.get(name, set())


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_of_the_documents_is_valid_in_a_branch(shell, tmp_path, name):
    content = "def evaluate(output, context):\n    return True\n" if name == "condition_python" else {"type": "object"}
    condition = load(shell, name, content)["condition"]
    branch = {"type": "conditional", "rules": [{"condition": condition, "next_nodes": ["next"]}], "default": ["other"]}
    node = {"node_id": "x", "type": "task", "config": echo(1), "branch": branch}
    assert shell.json("validate", write(tmp_path, passing(complete(node))))["problems"] == []


def test_a_task_without_a_config_joins_what_leads_to_it(shell, tmp_path):
    definition = passing(complete(load(shell, "node_merge_data", {})), fetch_user={"id": 7}, fetch_orders=[1, 2])
    view = shell.json("run", write(tmp_path, definition))
    assert view["outputs"] == {"merge_data": {"fetch_user": {"id": 7}, "fetch_orders": [1, 2]}}


def test_a_task_without_a_config_that_joins_nothing_is_refused(shell, tmp_path):
    file = workflow(tmp_path, "alone", {"id": "a", "type": "task"})
    assert "a task needs config.function" in shell.error("validate", file, code=2)
    item = {"id": "m", "type": "map", "config": {"over": [1], "node": {"type": "task"}}}
    assert "the item of node 'm'" in shell.error("validate", workflow(tmp_path, "item", item), code=2)


@pytest.mark.parametrize(
    ("score", "ways"),
    [(85, {"enterprise_sales", "send_gift"}), (60, {"standard_sales"}), (20, {"nurture_campaign"})],
)
def test_the_branch_of_the_documents_goes_where_they_say(shell, tmp_path, score, ways):
    node = load(shell, "node_score_customer", echo({"score": score}))
    view = shell.json("run", write(tmp_path, passing(complete(node), enrich_data={"revenue": 200_000})))
    routes = {name for name, one in view["nodes"].items() if one["state"] == "completed"}
    assert routes & {"enterprise_sales", "send_gift", "standard_sales", "nurture_campaign"} == ways


def test_the_task_of_the_documents_runs_with_its_config_in_a_blob(shell, tmp_path):
    definition = passing(complete(load(shell, "node_validate_customer", echo("valid"))))
    view = shell.json("run", write(tmp_path, definition))
    assert (view["state"], view["nodes"]["validate_customer"]["output"]) == ("completed", "valid")


@pytest.mark.slow
def test_a_charge_of_the_documents_is_undone_by_its_compensator(shell, tmp_path, monkeypatch):
    (tmp_path / "stripe_here.py").write_text(
        "import pathlib\n\nimport perdure\n\n"
        "@perdure.task(name='stripe.charge')\ndef charge(**given):\n    return {'charge_id': 'c1', **given}\n\n"
        "@perdure.task(name='stripe.refund')\ndef refund(**given):\n"
        "    pathlib.Path('refunded.txt').write_text('yes')\n    return given\n"
    )
    file = write(tmp_path, complete(load(shell, "node_charge_customer", {})))
    shell.run("run", file, "--import", "stripe_here.py", "--run-id", "c1")
    shell.run("runs", "rollback", "c1")
    shell.run("run", file, "--import", "stripe_here.py", "--run-id", "c1", code=1)
    assert shell.json("runs", "show", "c1")["state"] == "rolled_back"
    assert Path("refunded.txt").read_text() == "yes"


@pytest.mark.slow
def test_the_patch_of_the_documents_is_a_version_and_a_change_of_a_live_run(shell, tmp_path):
    (tmp_path / "mail.py").write_text(
        "import perdure\n\n@perdure.task(name='email')\ndef email(to):\n    return f'sent to {to}'\n"
    )
    patch = str(FOLDER / "patch_send_email.json")
    ask = {"id": "process_data", "type": "human"}
    file = workflow(tmp_path, "main", ask)
    shell.run("workflows", "push", file)
    assert "added: send_email" in shell.run("workflows", "patch", "main", patch, "--dry-run").stdout
    assert "main is now version 2" in shell.run("workflows", "patch", "main", patch).stdout
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    shell.run("runs", "patch", "r1", patch)
    (asked,) = shell.json("approvals", "list")["items"]
    shell.run("approvals", "approve", asked["approval_id"])
    shell.run("run", file, "--run-id", "r1", "--import", "mail.py")
    assert shell.json("runs", "show", "r1")["nodes"]["send_email"]["output"] == "sent to ops@example.com"


def test_an_argument_beside_a_function_is_refused_with_the_way_out(shell, tmp_path):
    node = {"id": "a", "type": "task", "config": {"function": "m:f", "to": "ann"}}
    told = shell.error("validate", workflow(tmp_path, "beside", node), code=2)
    assert "unknown key 'to'" in told
    assert "put what the function is called with under args" in told
    typo = {"id": "a", "type": "task", "config": {"action": "email", "agrs": {"to": 1}}}
    assert "did you mean 'args'" in shell.error("validate", workflow(tmp_path, "typo", typo), code=2)
    both = {"id": "a", "type": "task", "config": {"action": "email", "to": 1, "args": {"to": 2}}}
    assert "keep one of them" in shell.error("validate", workflow(tmp_path, "both", both), code=2)
