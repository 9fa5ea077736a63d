"""Every operation on everything but runs, over a real connection, by both clients."""

import datetime

import pytest

import perdure
from perdure.archive.stored_lines import LogLine
from perdure.client import Conflict, Invalid, NotFound
from tests.client.helpers import DEADLINE, ONE

YAML = "name: written\nnodes:\n  - id: a\n    type: transform\n    config: {value: 1}\n"
ASKING = {"name": "asking", "nodes": [{"id": "ask", "type": "human", "config": {"approvers": ["anna", "ben"]}}]}
PARKING = {
    "name": "parking",
    "nodes": [
        {
            "id": name,
            "type": "transform",
            "config": {"jq": 'error("no")'},
            "retry": {"max_attempts": 1},
            "on_failure": "park",
        }
        for name in ("a", "b", "c")
    ],
}


@pytest.fixture
def name(clients, request):
    """A workflow of the test's own, since the tests share a server."""
    return f"{request.node.originalname}-{clients.kind}"[-60:].replace("[", "").lstrip("_")


def made(name, value):
    return {"name": name, "nodes": [{"id": "a", "type": "transform", "config": {"value": value}}]}


def until(client, run_id, kind, count=1):
    seen = 0
    for event in client.runs.stream(run_id):
        seen += event["type"] == kind
        if seen == count:
            return
    raise AssertionError(f"no {kind}")


@perdure.workflow
def client_child(day: datetime.date, number: int):
    return perdure.transform({"day": day, "number": number})


@perdure.workflow
def client_parent(day: datetime.date):
    return client_child(day, 1)


# -- workflows ---------------------------------------------------------------------------------------------------------


def test_a_workflow_written_in_python_is_registered_with_what_it_starts(client):
    assert client.workflows.register(client_parent)["name"] == "client_parent"
    assert client.workflows.validate(client_parent)["valid"]
    day = datetime.date(2026, 5, 17)
    for started in (
        client.runs.start("client_parent", {"day": day}, wait_seconds=DEADLINE),
        client.runs.start(client_parent, {"day": day}, wait_seconds=DEADLINE),
    ):
        assert started["state"] == "completed"
        assert started["outputs"] == {"result": {"day": "2026-05-17", "number": 1}}


def test_a_workflow_written_in_python_needs_no_registration_before_it_is_started(client):
    @perdure.workflow(name="client_fresh_child")
    def child(number: int):
        return perdure.transform(number)

    @perdure.workflow(name="client_fresh")
    def parent():
        return child(3)

    assert client.runs.start(parent, wait_seconds=DEADLINE)["outputs"] == {"result": 3}
    with pytest.raises(Invalid, match="not both"):
        client.runs.start(parent, definition=made("x", 1))


def test_what_is_no_json_is_not_sent(client):
    with pytest.raises(Invalid, match="cannot be written as JSON: something in it is of type object"):
        client.runs.start("client_parent", {"day": object()})


def test_a_changed_definition_is_the_next_version(client, name):
    definition = made(name, 1)
    first = client.workflows.register(definition, reason="the first")
    assert (first["name"], first["version"], first["created"]) == (name, 1, True)
    again = client.workflows.register(definition)
    assert (again["version"], again["created"]) == (1, False)
    assert client.workflows.register(made(name, 2))["version"] == 2
    assert [one["version"] for one in client.workflows.versions(name, limit=1)] == [2, 1]
    assert client.workflows.get(name, version=1)["reason"] == "the first"
    assert client.workflows.get(name)["definition"]["nodes"][0]["config"] == {"value": 2}
    assert name in [one["name"] for one in client.workflows.list(limit=2)]
    changed = client.workflows.diff(name, 1, 2)
    assert (changed["before"], changed["after"], [*changed["changed"]]) == (1, 2, ["a"])


def test_a_definition_may_be_text(client):
    assert client.workflows.register(YAML)["name"] == "written"
    assert client.workflows.validate(YAML.encode())["valid"]
    refused = client.workflows.validate("name: [", format="yaml")
    assert not refused["valid"]
    assert refused["problems"][0]["line"]
    with pytest.raises(Invalid) as caught:
        client.workflows.register({"name": "x", "nodes": [{"id": "a", "type": "wait", "config": {"secs": 1}}]})
    assert caught.value.code == "invalid_definition"


def test_an_alias_moves_is_shared_and_moves_back(client, name):
    for value in (1, 2):
        client.workflows.register(made(name, value))
    assert client.workflows.put_alias(name, "live", 1)["version"] == 1
    assert client.workflows.get(name, alias="live")["version"] == 1
    shared = client.workflows.put_alias(name, "live", {1: 75, 2: 25}, reason="try it", expected_revision=1)
    assert (shared["version"], [one["percent"] for one in shared["versions"]]) == (None, [75, 25])
    with pytest.raises(Conflict) as caught:
        client.workflows.put_alias(name, "live", 2, expected_revision=1)
    assert caught.value.code == "alias_moved"
    assert client.workflows.rollback_alias(name, "live")["version"] == 1
    assert [one["revision"] for one in client.workflows.alias_moves(name, "live")] == [3, 2, 1]
    assert [one["alias"] for one in client.workflows.aliases(name)] == ["live"]
    started = client.runs.start(f"{name}@live", wait_seconds=DEADLINE)
    assert started["version"] == 1
    assert client.workflows.delete_alias(name, "live")["alias"] == "live"
    with pytest.raises(NotFound):
        client.workflows.get(name, alias="live")


def test_a_workflow_is_patched_and_forgotten_when_nothing_needs_it(client, name):
    waiting = {"name": name, "nodes": [{"id": "w", "type": "wait", "config": {"signal": "go"}}]}
    client.workflows.register(waiting)
    more = {"id": "b", "type": "transform", "dependencies": ["w"], "config": {"value": 1}}
    operations = [{"op": "add", "path": "/nodes/-", "value": more}]
    assert client.workflows.patch(name, operations, dry_run=True)["changes"]["added"] == ["b"]
    assert client.workflows.patch(name, operations, base_version=1, reason="more")["version"] == 2
    with pytest.raises(Conflict):
        client.workflows.patch(name, operations, base_version=1)
    run_id = client.runs.start(f"{name}@1")["run_id"]
    assert [run["run_id"] for run in client.workflows.users(name, version=1)] == [run_id]
    with pytest.raises(Conflict) as caught:
        client.workflows.delete(name)
    assert caught.value.code == "workflow_in_use"
    client.runs.cancel(run_id, force=True)
    assert client.workflows.delete(name, version=1)["versions_deleted"] == 1
    assert client.workflows.delete(name)["versions_deleted"] == 1


# -- people ------------------------------------------------------------------------------------------------------------


def test_an_approval_is_found_and_decided(client):
    run_id = client.runs.start(definition=ASKING)["run_id"]
    until(client, run_id, "approval.requested")
    (asked,) = client.approvals.list(state="pending", run_id=run_id)
    approval = asked["approval_id"]
    assert client.approvals.get(approval)["approvers"] == ["anna", "ben"]
    links = client.approvals.make_links(approval, "ben", expires_seconds=60)
    assert links["approve"] != links["reject"]
    with pytest.raises(Conflict) as caught:
        client.approvals.decide(approval, "approve", by="eve")
    assert caught.value.code == "not_an_approver"
    handed = client.approvals.delegate(approval, "carl", comments="away", by="ben")
    assert handed["approvers"] == ["anna", "carl"]
    decided = client.approvals.decide(approval, "approve", comments="fine", data={"limit": 3}, by="anna")
    assert decided["state"] == "decided"
    output = client.runs.wait(run_id)["outputs"]["ask"]
    assert (output["decided_by"], output["comments"], output["data"]) == ("anna", "fine", {"limit": 3})
    assert list(client.approvals.list(state="pending", run_id=run_id)) == []


def test_dead_letters_are_requeued_and_discarded_one_by_one_and_many(client):
    run_id = client.runs.start(definition=PARKING)["run_id"]
    until(client, run_id, "node.parked", 3)
    letters = {one["node"]: one["dead_letter_id"] for one in client.dead_letters.list(state="pending", run_id=run_id)}
    assert client.dead_letters.get(letters["a"])["error"]["message"]
    assert client.dead_letters.requeue(letters["a"], config={"value": 1})["state"] == "requeued"
    assert client.dead_letters.discard(letters["b"], as_="skip")["state"] == "discarded"
    assert client.dead_letters.requeue_many(run_id=run_id) == {"matched": 1, "done": 0, "refused": []}
    with pytest.raises(Conflict):
        client.dead_letters.discard_many(run_id=run_id, node="c", expected=2)
    assert client.dead_letters.discard_many(run_id=run_id, node="c", expected=1, as_="skip")["done"] == 1
    assert client.runs.wait(run_id)["outputs"]["a"] == 1


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_content_goes_in_and_comes_out(client):
    data = bytes(range(256)) * 100
    put = client.blobs.put(data)
    assert put["size"] == len(data)
    assert client.blobs.get(put["ref"]) == data
    assert client.blobs.get(put["ref"].removeprefix("cas://")) == data
    assert client.blobs.stat(put["ref"])["size"] == len(data)
    for read in (client.blobs.get, client.blobs.stat):
        with pytest.raises(NotFound):
            read("sha256:" + "0" * 64)


def test_what_the_server_is_made_of_can_be_read(client):
    assert "human" in [one["name"] for one in client.system.node_types()]
    assert client.system.node_type("human")["config_schema"]
    (worker,) = client.system.workers()
    assert worker["slots"] > 0
    assert [one["queue"] for one in client.system.queues()] == ["default"]
    me = client.system.me()
    assert (me["tenant"], me["kind"], me["roles"]) == ("default", "local", ["admin"])


def test_keys_are_made_listed_and_revoked_and_all_of_it_is_audited(client, name):
    made = client.keys.create(name, ["viewer"], scopes=["runs:read"], expires_seconds=3600)
    assert made["key"].startswith("perdure_")
    assert made["key_id"] in [one["key_id"] for one in client.keys.list()]
    assert client.keys.revoke(made["key_id"])["revoked_at"] is not None
    entries = list(client.audit.list(object_=made["key_id"], since=0))
    assert len(entries) == 2
    assert client.audit.list(action="nosuch").first()["items"] == []
    assert client.audit.verify()["intact"]


def test_a_run_is_taken_elsewhere_as_a_file(client):
    run_id = client.runs.start(definition=ONE, inputs={"n": 5}, wait_seconds=DEADLINE)["run_id"]
    file = client.runs.export(run_id)
    assert (file["run"]["run_id"], file["run"]["outputs"]) == (run_id, {"a": 5})
    imported = client.runs.import_file(file)
    assert imported["imported_from"] == run_id
    assert client.runs.get(imported["run_id"])["outputs"] == {"a": 5}


def test_what_handlers_said_is_read_with_the_run(client, server):
    run_id = client.runs.start(definition=ONE, inputs={"n": 5}, wait_seconds=DEADLINE)["run_id"]
    lines = [LogLine(tenant="default", run_id=run_id, node="a", at=1.0, message=text) for text in ("one", "two")]
    server.do(server.archive.append_logs(lines))
    assert [line["message"] for line in client.runs.logs(run_id, limit=1)] == ["one", "two"]
    assert list(client.runs.logs(run_id, node="b")) == []
