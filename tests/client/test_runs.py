"""Every operation on runs, over a real connection, by both clients."""

import pytest

from perdure import errors
from perdure.client import Conflict, Invalid, NotFound
from perdure.clock import system
from tests.client.helpers import DEADLINE, ONE, SIGNALLED, TWO

PARKING = {
    "name": "undone",
    "nodes": [
        {
            "id": "a",
            "type": "transform",
            "config": {"value": 1},
            "compensator": {"type": "transform", "config": {"value": 0}},
        }
    ],
}
BROKEN = {
    "name": "broken",
    "nodes": [
        {"id": "a", "type": "transform", "config": {"value": 1}},
        {
            "id": "b",
            "type": "transform",
            "dependencies": ["a"],
            "config": {"jq": 'error("no")'},
            "retry": {"max_attempts": 1},
        },
    ],
}


def start(client, definition, inputs=None, **more):
    return client.runs.start(definition=definition, inputs=inputs, **{"wait_seconds": DEADLINE, **more})


def waiting(client):
    run_id = start(client, SIGNALLED, wait_seconds=0)["run_id"]
    for event in client.runs.stream(run_id):
        if event["type"] == "node.waiting":
            break
    return run_id


def test_a_run_is_started_and_its_outputs_come_back(client):
    started = start(client, TWO, {"n": 7})
    assert (started["state"], started["outputs"]) == ("completed", {"b": [7]})
    run = client.runs.get(started["run_id"])
    assert {name: node["output"] for name, node in run["nodes"].items()} == {"a": 7, "b": [7]}
    assert (run["workflow"], run["version"], run["inputs"]) == ("two", 0, {"n": 7})


def test_a_start_without_waiting_returns_when_it_is_durable(client):
    started = start(client, SIGNALLED, wait_seconds=0)
    assert started["state"] == "running"
    assert client.runs.get(started["run_id"])["state"] == "running"


def test_the_same_idempotency_key_gives_the_same_run_and_each_call_has_its_own(client):
    key = f"order-{client.runs.start(definition=ONE)['run_id']}"
    first = client.runs.start(definition=ONE, idempotency_key=key)
    assert client.runs.start(definition=ONE, idempotency_key=key)["run_id"] == first["run_id"]
    assert client.runs.start(definition=ONE)["run_id"] != first["run_id"]
    with pytest.raises(Conflict) as caught:
        client.runs.start(definition=TWO, inputs={"n": 1}, idempotency_key=key)
    assert caught.value.code == "idempotency_conflict"


def test_a_list_is_read_page_by_page_to_its_end(client):
    tag = ("batch", system.new_id())
    made = [start(client, ONE, {"n": n}, tags=dict([tag]))["run_id"] for n in range(5)]
    assert [run["run_id"] for run in client.runs.list(tag=tag, limit=2)] == made[::-1]
    page = client.runs.list(tag=tag, limit=2).first()
    assert [run["run_id"] for run in page["items"]] == made[:2:-1]
    rest = client.runs.list(tag=tag, limit=100, cursor=page["next_cursor"]).first()
    assert (len(rest["items"]), rest["next_cursor"]) == (3, None)
    assert [len(page["items"]) for page in client.runs.list(tag=tag, limit=2).pages()] == [2, 2, 1]


def test_a_list_is_filtered_by_what_the_server_knows(client):
    run_id = waiting(client)
    listed = client.runs.list(state=["running", "paused"], workflow="signalled", since=0, until="2999-01-01")
    assert run_id in [run["run_id"] for run in listed]
    assert run_id not in [run["run_id"] for run in client.runs.list(state="completed")]
    assert list(client.runs.list(parent=run_id)) == []


def test_nodes_come_in_pages_with_sizes_or_outputs(client):
    run_id = start(client, TWO, {"n": 7})["run_id"]
    assert [(node["node"], node["size"]) for node in client.runs.nodes(run_id, limit=1)] == [("a", 1), ("b", 3)]
    assert [node["output"] for node in client.runs.nodes(run_id, outputs=True)] == [7, [7]]
    assert "output" not in client.runs.get(run_id, outputs=False)["nodes"]["a"]


def test_one_node_has_every_visit_and_its_output(client):
    run_id = start(client, TWO, {"n": 7})["run_id"]
    node = client.runs.node(run_id, "b")
    assert (node["type"], node["output"], len(node["visits"])) == ("transform", [7], 1)
    assert client.runs.node(run_id, "b", at=1)["state"] == "pending"


def test_events_and_the_stream_say_the_same(client):
    run_id = start(client, TWO, {"n": 7})["run_id"]
    events = list(client.runs.events(run_id, limit=2))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert list(client.runs.stream(run_id)) == events
    assert list(client.runs.stream(run_id, after=2)) == events[2:] == list(client.runs.events(run_id, after=2))
    assert list(client.runs.stream(run_id, after=events[-1]["seq"])) == []


def test_waiting_for_a_run_gives_it_as_it_ended(client):
    run_id = waiting(client)
    client.runs.signal(run_id, "go", {"by": "anna"})
    run = client.runs.wait(run_id)
    assert (run["state"], run["outputs"]) == ("completed", {"wait": {"by": "anna"}})


def test_the_past_the_path_and_the_reasons_can_be_read(client):
    run_id = start(client, TWO, {"n": 7})["run_id"]
    past = client.runs.state_at(run_id, 1)
    assert (past["state"], past["at"], past["nodes"]["a"]["state"]) == ("running", 1, "pending")
    assert [(step["node"], step["taken"]) for step in client.runs.path(run_id)] == [("a", ["b"]), ("b", [])]
    assert client.runs.explain(run_id, "b")["nodes"].keys() == {"b"}
    assert "signal" in client.runs.explain(waiting(client))["nodes"]["wait"]


def test_two_runs_and_two_points_can_be_compared(client):
    one, other = (start(client, TWO, {"n": n})["run_id"] for n in (1, 2))
    assert client.runs.diff(one, other=other)["nodes"].keys() == {"a", "b"}
    assert client.runs.diff(one, at=1)["before"]["seq"] == 1


def test_a_run_is_paused_resumed_and_cancelled(client):
    run_id = waiting(client)
    assert client.runs.pause(run_id, reason="lunch")["state"] == "paused"
    assert client.runs.resume(run_id)["state"] == "running"
    assert client.runs.cancel(run_id, reason="enough", force=True)["state"] == "cancelled"
    with pytest.raises(Conflict) as caught:
        client.runs.pause(run_id)
    assert isinstance(caught.value, errors.Refused)
    assert caught.value.http_status == 409


def test_a_failed_run_is_retried_and_one_that_ended_is_rolled_back(client):
    run_id = start(client, BROKEN)["run_id"]
    assert client.runs.retry(run_id)["generation"] == 2
    assert client.runs.wait(run_id)["state"] == "failed"
    run_id = start(client, PARKING)["run_id"]
    assert client.runs.rollback(run_id)["run_id"] == run_id
    assert client.runs.wait(run_id)["state"] == "rolled_back"


def test_a_new_run_is_made_out_of_an_old_one(client):
    run_id = start(client, TWO, {"n": 7})["run_id"]
    again = client.runs.rerun(run_id, inputs={"n": 8})
    assert again["origin"] == run_id
    assert client.runs.wait(again["run_id"])["outputs"] == {"b": [8]}
    part = client.runs.rerun(run_id, from_node="b", inputs={"a": 9})
    assert client.runs.wait(part["run_id"])["outputs"] == {"b": [9]}


def test_a_run_under_way_is_given_another_definition(client):
    run_id = waiting(client)
    more = {"id": "after", "type": "transform", "dependencies": ["wait"], "config": {"value": 1}}
    operations = [{"op": "add", "path": "/nodes/-", "value": more}]
    tried = client.runs.patch(run_id, operations, dry_run=True)
    assert (tried["possible"], tried["applied"], tried["added"]) == (True, False, ["after"])
    definition = {**SIGNALLED, "nodes": [*SIGNALLED["nodes"], more]}
    assert client.runs.patch(run_id, definition=definition, reason="more to do")["applied"]
    client.runs.signal(run_id, "go")
    assert client.runs.wait(run_id)["outputs"] == {"after": 1}


def test_the_same_signal_twice_counts_once(client):
    run_id = waiting(client)
    client.runs.signal(run_id, "other", 1, signal_id="s1")
    client.runs.signal(run_id, "other", 1, signal_id="s1")
    assert [event["type"] for event in client.runs.events(run_id)].count("run.signalled") == 1


def test_what_is_not_there_is_not_found(client):
    with pytest.raises(NotFound, match="there is no run nobody knows it") as caught:
        client.runs.get("nobody knows it")
    assert isinstance(caught.value, errors.NotFound)
    assert (caught.value.code, caught.value.http_status) == ("not_found", 404)
    assert caught.value.request_id
    with pytest.raises(NotFound):
        list(client.runs.stream("nobody"))


def test_what_does_not_fit_comes_back_with_every_problem(client):
    with pytest.raises(Invalid) as caught:
        client.runs.start(
            definition={"name": "x", "nodes": [{"id": "a", "tpye": "input"}, {"id": "b", "type": "nope"}]}
        )
    assert len(caught.value.problems) >= 2
    assert all(problem["path"] and problem["message"] for problem in caught.value.problems)
    assert caught.value.problems[0]["message"] in str(caught.value)
    with pytest.raises(Invalid) as caught:
        client.runs.start(definition=TWO, inputs={"n": "seven"})
    assert caught.value.code == "invalid_inputs"
