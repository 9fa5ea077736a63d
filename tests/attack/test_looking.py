"""What is asked about large things holds up nobody either (S03): differences, imports, tags, schemas."""

import json

import pytest

from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.attack.watchdog import LONGEST_SECONDS, watching

MANY = 220_000


def flow(value):
    return {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": value}}]}


@pytest.mark.slow
@attack("S03", "two versions with long lists that are almost equal")
async def test_a_difference_of_two_large_versions_holds_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        await server.ok("/workflows", flow([0] * MANY))
        await server.ok("/workflows", flow([*[0] * (MANY - 1), 1]))
        with watching(LONGEST_SECONDS / 2):
            found = await server.ok("/workflows/w/diff?before=1&after=2")
        assert [one["path"] for one in found["changed"]["a"]] == [f"/config/value/{MANY - 1}"]


@pytest.mark.slow
@attack("S03", "two runs with long outputs that are almost equal")
async def test_a_difference_of_two_large_runs_holds_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        runs = []
        for last in (0, 1):
            inputs = {"x": [*[0] * MANY, last]}
            runs.append((await server.start(flow("{{ inputs.x | length }}"), inputs))["run_id"])
        with watching(LONGEST_SECONDS / 2):
            found = await server.ok(f"/runs/{runs[0]}/diff?other={runs[1]}")
        assert [one["path"] for one in found["run"]] == [f"/inputs/x/{MANY}"]


@pytest.mark.slow
@attack("S03", "a file of thousands of small events")
async def test_an_import_of_many_events_holds_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        run = await server.start(flow(1))
        file = await server.ok(f"/runs/{run['run_id']}/export")
        last = file["events"][-1]["seq"]
        signal = {"type": "run.signalled", "at": file["events"][-1]["at"], "cause": "signal", "name": "x", "payload": 0}
        file["events"] += [{**signal, "seq": last + 1 + n, "id": f"{n}"} for n in range(7000)]
        content = json.dumps(file, separators=(",", ":"))
        with watching(LONGEST_SECONDS / 2):
            answer = await server.client.post(
                "/api/v1/runs/import", content=content, headers={"Content-Type": "application/json"}
            )
        assert answer.status_code == 201, answer.text[:500]


@attack("S03", "a hundred thousand tags")
async def test_a_run_has_so_many_tags(tmp_path):
    async with serving(tmp_path) as server:
        body = {"definition": flow(1), "tags": {f"t{n}": "" for n in range(101)}}
        answer = await server.post("/runs", body)
        assert (answer.status_code, answer.json()["problems"][0]["path"]) == (422, "tags"), answer.text[:500]
        body["tags"].popitem()
        assert (await server.post("/runs", body)).is_success


@pytest.mark.slow
@attack("S04", "a list of objects that are all to be different")
async def test_a_schema_that_compares_each_with_each_holds_up_nobody(tmp_path):
    definition = {**flow(1), "inputs": {"properties": {"x": {"type": "array", "uniqueItems": True}}}}
    async with serving(tmp_path) as server:
        with watching():
            await server.post("/runs", {"definition": definition, "inputs": {"x": [{"a": n} for n in range(60_000)]}})
