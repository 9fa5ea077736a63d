"""A run is taken away as one file and looked at elsewhere: the same run, and nothing of it is executed again."""

from urllib.parse import quote

import pytest

from perdure.doctor import examine
from perdure.doctor.repair import repair
from perdure.runtime.coordinator.requests import Request
from tests.api.helpers import bearer, serving
from tests.api.test_runs import SIGNALLED, until_node, until_state
from tests.attack.marks import attack
from tests.engine import tasks
from tests.engine.helpers import check, task, transform, workflow

LOOKED_AT = ("workflow", "version", "state", "inputs", "outputs", "error", "tags", "created_at", "ended_at", "nodes")


def looping():
    count = task("count", "count", args={"upto": 2})
    count["loop"] = {"condition": "!output.done", "max_iterations": 5, "loop_back_to": "count"}
    return workflow(
        count, transform("big", {"text": "z" * 50_000}, ["count"]), transform("end", "{{ count.at }}", ["big"])
    )


@pytest.mark.slow
async def test_a_run_is_the_same_elsewhere_and_nothing_is_executed(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    async with serving(tmp_path / "here") as here:
        run_id = (await here.start(looping(), tags={"a": "b"}))["run_id"]
        run = await here.ok(f"/runs/{run_id}")
        node = await here.ok(f"/runs/{run_id}/nodes/big")
        events = (await here.ok(f"/runs/{run_id}/events"))["items"]
        file = await here.ok(f"/runs/{run_id}/export")
    assert run["state"] == "completed"
    executed = len(tasks.seen)
    assert (file["format"], len(file["events"]), len(file["blobs"])) == (1, len(events), 1)
    async with serving(tmp_path / "there") as there:
        imported = await there.ok("/runs/import", file)
        assert (imported["imported_from"], imported["state"], imported["events"]) == (run_id, "completed", len(events))
        seen = await there.ok(f"/runs/{imported['run_id']}")
        assert {name: seen[name] for name in LOOKED_AT} == {name: run[name] for name in LOOKED_AT}
        assert seen["quarantined"].startswith(f"imported from {run_id}")
        assert (await there.ok(f"/runs/{imported['run_id']}/nodes/big"))["output"] == node["output"]
        path = (await there.ok(f"/runs/{imported['run_id']}/path"))["items"]
        assert [step["node"] for step in path] == ["count", "count", "big", "end"]
        assert (await there.ok(f"/runs/{imported['run_id']}/state?at=3"))["at"] == 3
        for action in ("retry", "rollback", "cancel", "rerun"):
            assert (await there.post(f"/runs/{imported['run_id']}/{action}")).status_code == 409, action
        again = await there.ok("/runs/import", file)
        assert again["run_id"] != imported["run_id"]
        assert len(tasks.seen) == executed


async def test_a_run_that_had_not_ended_stays_as_it_was(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    await until_node(server, run_id, "w", "waiting")
    file = await server.ok(f"/runs/{run_id}/export")
    imported = await server.ok("/runs/import", file)
    await server.ok(f"/runs/{run_id}/signal", {"name": "go"})
    await until_state(server, run_id, "completed")
    seen = await server.ok(f"/runs/{imported['run_id']}")
    assert (seen["state"], seen["nodes"]["w"]["state"]) == ("running", "waiting")
    assert (await server.post(f"/runs/{imported['run_id']}/signal", {"name": "go"})).status_code == 409
    await check(server.engine.journal, run_id)
    listed = [one["run_id"] for one in (await server.ok("/runs?state=running"))["items"]]
    assert listed == [imported["run_id"]]


async def test_an_imported_run_belongs_to_who_imported_it(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        run_id = (await server.start(workflow(transform("a", 1)), headers=bearer()))["run_id"]
        file = await server.ok(f"/runs/{run_id}/export", headers=bearer())
        theirs = bearer("eve", tenant="other")
        imported = await server.ok("/runs/import", file, headers=theirs)
        assert (await server.get(f"/runs/{imported['run_id']}", headers=bearer())).status_code == 404
        assert (await server.ok(f"/runs/{imported['run_id']}", headers=theirs))["outputs"] == {"a": 1}


@pytest.fixture
async def file(server):
    run_id = (await server.start(workflow(transform("a", {"text": "z" * 50_000}), transform("b", 1, ["a"]))))["run_id"]
    return await server.ok(f"/runs/{run_id}/export")


def _cut(file):
    del file["events"][2]


def _swap(file):
    file["events"][1], file["events"][2] = file["events"][2], file["events"][1]


def _other_definition(file):
    file["definitions"][0]["definition"]["nodes"][0]["config"]["value"] = 2


def _no_definition(file):
    file["definitions"] = []


def _other_blob(file):
    file["blobs"][0]["data"] = "eA=="


def _no_base64(file):
    file["blobs"][0]["data"] = "%"


def _odd_event(file):
    file["events"][1]["type"] = "run.exploded"


def _odd_node(file):
    file["events"][1]["node"] = "nope"


def _odd_count(file):
    file["events"][3]["counter"] = 77


def _later_format(file):
    file["format"] = 2


def _nothing(file):
    file.clear()


@pytest.mark.parametrize(
    "spoil",
    [
        _cut,
        _swap,
        _other_definition,
        _no_definition,
        _other_blob,
        _no_base64,
        _odd_event,
        _odd_node,
        _odd_count,
        _later_format,
        _nothing,
    ],
)
async def test_a_file_that_was_changed_is_refused_with_the_place(server, file, spoil):
    before = len((await server.ok("/runs"))["items"])
    spoil(file)
    response = await server.post("/runs/import", file)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request"), response.text
    assert response.json()["problems"][0]["message"]
    assert len((await server.ok("/runs"))["items"]) == before


@attack("S12", "an imported run that a repair sets going")
async def test_no_repair_lets_an_imported_run_go(tmp_path):
    """A file's word is all there is for it: what it says that people approved is never executed (X17)."""
    asked = {"id": "ask", "type": "human", "config": {}}
    definition = workflow(asked, task("pay", "echo", ["ask"]))
    async with serving(tmp_path) as server:
        run_id = (await server.start(definition, wait=0))["run_id"]
        await until_node(server, run_id, "ask", "waiting")
        approval = (await server.ok("/approvals"))["items"][0]["approval_id"]
        approver = {"decision": "approve", "approver": "clerk"}
        assert (await server.post(f"/approvals/{quote(approval, safe='')}/decide", approver)).status_code == 200
        await until_state(server, run_id, "completed")
        executed = len(tasks.seen)
        file = await server.ok(f"/runs/{run_id}/export")
        kept = [event["type"] for event in file["events"]].index("node.scheduled", 5) + 1
        file["events"] = file["events"][:kept]
        for event in file["events"]:
            event["data"] = {name: "CFO" if value == "clerk" else value for name, value in event["data"].items()}
            event["data"].pop("imported", None)
        imported = (await server.ok("/runs/import", file))["run_id"]
        engine = server.engine
        report = await examine(engine.journal, engine.library)
        assert report.sound, report
        mended = await repair(engine.journal, engine.library, engine.clock, report)
        assert (mended.released, (await engine.journal.get_run(imported)).quarantined is None) == ([], False)
        await engine.journal.unquarantine(imported)  # as a hand in the database would
        for request in (
            Request(kind="cancel", run_id=imported),
            Request(kind="rerun", run_id="again", source=imported, node="pay"),
        ):
            reply = await engine.runs.request(request)
            assert reply.code in ("quarantined", "imported"), reply
        coordinator = engine.coordinator
        assert coordinator is not None
        coordinator.resume(imported, frozenset())
        await coordinator.drained()
    async with serving(tmp_path) as server:
        again = await server.start(workflow(transform("a", 1)))
        assert again["state"] == "completed"
        assert (await server.ok(f"/runs/{imported}"))["nodes"]["pay"]["state"] == "queued"
    assert len(tasks.seen) == executed
