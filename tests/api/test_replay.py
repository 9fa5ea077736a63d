"""A run that was exported is played again with what was recorded: the same way, and nothing is executed."""

import copy

import pytest

from perdure.testing import ReplayInvalid, replay
from tests.api.helpers import API
from tests.api.test_people import place
from tests.api.test_runs import until_state
from tests.engine import tasks
from tests.engine.helpers import task, transform, until_true, workflow

ORDER = workflow(
    task("price", args={"value": 120}),
    {
        **task("pay", "fail", ["price"], args={"times": 2}, retry={"max_attempts": 5, "backoff_ms": 1}),
        "branch": {"rules": [{"condition": "output.attempt > 2", "next_nodes": ["ask"]}], "default": ["cheap"]},
    },
    {"id": "ask", "type": "human", "config": {"approvers": ["ann"]}},
    transform("cheap", "cheap"),
    {"id": "sent", "type": "wait", "dependencies": ["ask"], "config": {"signal": "sent"}},
    {
        "id": "each",
        "type": "map",
        "dependencies": ["sent"],
        "config": {"over": "{{ [1, 2, 3] }}", "node": task("x", args={"value": "{{ item }}"})},
    },
    transform("big", {"text": "z" * 40_000}, ["each"]),
    transform("end", "{{ ask.decided_by }}: {{ sent.by }}, {{ price.value }}", ["big"]),
)


@pytest.fixture
async def file(server):
    run_id = (await server.start(ORDER, wait=0))["run_id"]

    async def look():
        return (await server.ok(f"/approvals?run_id={run_id}"))["items"]

    (approval,) = await until_true(look, "ann is asked")
    body = {"decision": "approve", "approver": "ann", "comments": "yes"}
    await server.ok(f"{place(approval)}/decide", body)
    await server.ok(f"/runs/{run_id}/signal", {"name": "sent", "payload": {"by": "ship"}})
    await until_state(server, run_id, "completed")
    return (await server.client.get(f"{API}/runs/{run_id}/export")).json()


@pytest.mark.slow
async def test_a_run_goes_the_same_way_again_and_nothing_is_executed(file):
    executed = len(tasks.seen)
    again = replay(file)
    assert again.differences == ()
    assert again.run.outputs["end"] == "ann: ship, 120"
    assert len(again.run.calls_of("pay")) == 3
    assert len(tasks.seen) == executed


@pytest.mark.slow
async def test_another_definition_is_tried_on_what_really_happened(file):
    changed = copy.deepcopy(file["definitions"][0]["definition"])
    (end,) = [node for node in changed["nodes"] if node["id"] == "end"]
    end["config"]["value"] = "{{ price.value * 2 }}"
    again = replay(file, definition=changed)
    assert again.differences == ("end gives another output", "the run gives other outputs")
    assert again.run.outputs["end"] == 240
    (pay,) = [node for node in changed["nodes"] if node["id"] == "pay"]
    pay["branch"]["rules"][0]["condition"] = "output.attempt > 5"
    other = replay(file, definition=changed)
    assert "cheap was skipped and is completed" in other.differences
    assert not other.same


async def test_what_cannot_be_played_is_said(file, tmp_path):
    for bad in ({}, {**file, "format": 2}, {**file, "events": []}, {**file, "definitions": []}, tmp_path / "nope"):
        with pytest.raises(ReplayInvalid):
            replay(bad)
    with pytest.raises(ReplayInvalid, match="lacks the content"):
        replay(_without_blobs(file))


def _without_blobs(file):
    recorded = copy.deepcopy(file)
    (price,) = [one for one in recorded["events"] if one["type"] == "node.completed" and one["node"] == "price"]
    price["data"] = {"output_ref": "cas://sha256:" + "0" * 64, "size": 1}
    return {**recorded, "blobs": []}
