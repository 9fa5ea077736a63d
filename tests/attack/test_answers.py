"""Answers, references and patches have a size, over all their pieces (S13, S18, S19)."""

import base64
import json
import time

import pytest

from perdure.budget import ANSWER_BYTES, Budget
from perdure.contents import Contents, TooMuch
from perdure.kernel.segments import BlobRef
from perdure.service import diffs
from perdure.service.runs.patches import PatchInvalid, apply_patch
from tests.api.helpers import API, serving
from tests.attack.marks import attack
from tests.attack.watchdog import watching

MIB = 1024 * 1024


@pytest.mark.slow
@attack("S13", "a small definition whose answer is hundreds of megabytes")
async def test_an_answer_holds_so_much_and_refers_to_the_rest(tmp_path):
    definition = {
        "name": "w",
        "nodes": [{"id": "big", "type": "transform", "config": {"value": "{{ inputs.s ~ inputs.s }}"}}],
        "outputs": {f"o{number}": "{{ big }}" for number in range(100)},
    }
    inputs = {"s": "x" * 450_000}
    async with serving(tmp_path) as server:
        run = await server.start(definition, inputs)
        response = await server.get(f"/runs/{run['run_id']}")
        assert len(response.content) < ANSWER_BYTES + MIB
        outputs = response.json()["outputs"]
        whole = [value for value in outputs.values() if isinstance(value, str)]
        rest = [value for value in outputs.values() if isinstance(value, dict)]
        assert len(whole) == (ANSWER_BYTES - 450_008) // 900_002  # the inputs are in the answer too
        assert len(rest) == 100 - len(whole)
        assert rest[0]["size"] == 900_002
        found = await server.get(f"/blobs/{rest[0]['$ref'].removeprefix('cas://')}")
        assert found.status_code == 200, found.text[:200]


@attack("S13", "many nodes whose outputs add up")
async def test_outputs_of_many_nodes_are_left_out_behind_the_first_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr("perdure.budget.ANSWER_BYTES", 10_000)
    nodes = [{"id": f"n{number}", "type": "transform", "config": {"value": "x" * 1_000}} for number in range(50)]
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": nodes, "outputs": {}})
        view = await server.ok(f"/runs/{run['run_id']}")
        left_out = [one for one in view["nodes"].values() if one.get("omitted")]
        assert 35 < len(left_out) < 45
        assert all(one["output"] is None for one in left_out)
        assert (await server.ok(f"/runs/{run['run_id']}/nodes/{'n49'}"))["output"] == "x" * 1_000


@pytest.mark.slow
@attack("S18", "blobs that name each other twice, forty levels deep")
async def test_references_that_multiply_are_counted(tmp_path):
    from perdure.kernel import segments

    async with serving(tmp_path) as server:
        contents: Contents = server.engine.contents
        value: object = {"end": "x" * 50}
        for _ in range(40):
            data, refs = segments.encode([value, value])
            ref = await contents.blobs.put("default", data)
            value = BlobRef(f"{ref}+refs" if refs else ref)
        budget = Budget(references=2_000, partial=True)
        begun = time.thread_time()
        await contents.resolve("default", value, budget=budget)
        assert budget.references == 0
        assert time.thread_time() - begun < 5
        with pytest.raises(TooMuch, match="one by one"):
            await contents.resolve("default", value, budget=Budget(references=500))


LARGE = {
    "name": "w",
    "nodes": [{"id": f"n{number}", "type": "transform", "config": {"value": "x" * 300}} for number in range(2_000)],
}


@pytest.mark.slow
@attack("S19", "a patch of many operations on a large definition")
async def test_a_patch_copies_the_definition_once_and_holds_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        await server.ok("/workflows", LARGE)
        operations = [{"op": "test", "path": "/name", "value": "w"}] * 10_000
        with watching():
            await server.ok("/workflows/w/patch", {"patch": operations, "dry_run": True})
        begun = time.thread_time()
        assert apply_patch(LARGE, operations) == LARGE
        assert time.thread_time() - begun < 5


@attack("S19", "a patch that copies a definition into itself")
def test_what_a_patch_copies_is_counted():
    with pytest.raises(PatchInvalid, match="copy 2097152 bytes"):
        apply_patch(LARGE, [{"op": "copy", "from": "/nodes", "path": "/nodes/-"}] * 10_000)
    with pytest.raises(PatchInvalid, match="no such place"):
        apply_patch(LARGE, [{"op": "copy", "from": "/nope/1", "path": "/nodes/-"}])


def test_the_definition_that_is_patched_stays_as_it_is():
    given = {"a": {"b": [1, 2]}}
    assert apply_patch(given, [{"op": "add", "path": "/a/b/-", "value": 3}, {"op": "remove", "path": "/a/b/0"}]) == {
        "a": {"b": [2, 3]}
    }
    assert given == {"a": {"b": [1, 2]}}


@pytest.mark.slow
@attack("S13", "every way to look at runs whose outputs add up to hundreds of megabytes")
async def test_every_look_at_large_runs_is_bounded_and_holds_up_nobody(tmp_path):
    nodes = [
        {"id": "big", "type": "transform", "config": {"value": "{{ inputs.s ~ inputs.s ~ inputs.s ~ inputs.s }}"}},
        {
            "id": "again",
            "type": "transform",
            "config": {"value": "y" * 30_000},
            "loop": {"loop_back_to": "again", "condition": "loop.iteration < 400", "max_iterations": 400},
        },
    ]
    definition = {"name": "w", "nodes": nodes, "outputs": {f"o{number}": "{{ big }}" for number in range(60)}}
    async with serving(tmp_path) as server:
        first, second = [(await server.start(definition, {"s": one * 900_000}))["run_id"] for one in "xy"]
        paths = {route.path.removeprefix(API) for route in server.app.routes if "GET" in (route.methods or ())}
        # A stream and a file are sent piece by piece.
        paths = {path for path in paths if "{run_id}" in path and not path.endswith(("/stream", "/chunks", "/export"))}
        assert len(paths) >= 10
        asked = [path.format(run_id=first, node="again") + "?at=9" * path.endswith("/state") for path in paths]
        asked += [f"/runs/{first}/nodes/big", f"/runs/{first}?outputs=true", f"/runs/{first}/nodes?outputs=true"]
        asked += [f"/runs/{first}/diff?other={second}", f"/runs/{first}/diff?at=1"]
        for path in asked:
            with watching():
                response = await server.get(path)
            status = 409 if path.endswith("/what-if") else 200  # it is none, which is all that is said
            assert response.status_code == status, (path, response.text[:200])
            assert len(response.content) < ANSWER_BYTES + MIB, (path, len(response.content))
        visits = (await server.ok(f"/runs/{first}/nodes/again"))["visits"]
        assert len(visits) == 400
        assert visits[0]["output"] == "y" * 30_000
        assert (visits[-1]["output"], visits[-1]["omitted"]) == (None, True)
        run = (await server.ok(f"/runs/{first}/diff?other={second}"))["run"]
        assert {len(one["before"]) for one in run if isinstance(one.get("before"), str)} >= {900_000}
        assert any(one.get("omitted") or one["path"].endswith("/$ref") for one in run)  # what does not fit


def test_differences_are_listed_up_to_a_number_and_their_values_up_to_a_size(monkeypatch):
    monkeypatch.setattr(diffs, "MOST_OF_A_RUN", 25)
    nodes = {f"n{number}": {"output": ["x" * 100] * 10} for number in range(50)}
    before = {"run_id": "a", "state": "completed", "nodes": {}}
    after = {"run_id": "a", "state": "completed", "nodes": nodes}
    whole = diffs.diff_runs((1, before), (2, after))
    assert whole["nodes"]["n49"][0]["after"] == nodes["n49"]
    cut = diffs.diff_runs((1, before), (2, after), 5_000)
    assert len(cut["nodes"]) == 25
    assert "omitted" not in cut["nodes"]["n0"][0]
    assert cut["nodes"]["n24"] == [
        {"path": "", "change": "changed", "before": None, "after": None, "omitted": True},
    ]


@pytest.mark.slow
@attack("S13", "the export of a run with one large output")
async def test_a_large_output_is_exported_piece_by_piece_and_holds_up_nobody(tmp_path):
    config = {"function": "tests.runtime.functions:large", "args": {"size": 40 * MIB}}
    async with serving(tmp_path, real=True) as server:
        run = await server.start({"name": "w", "nodes": [{"id": "big", "type": "task", "config": config}]})
        pieces: list[bytes] = []
        with watching():
            async with server.client.stream("GET", f"{API}/runs/{run['run_id']}/export") as response:
                pieces.extend([piece async for piece in response.aiter_raw()])
        (blob,) = json.loads(b"".join(pieces))["blobs"]
        assert len(json.loads(base64.b64decode(blob["data"]))) == 40 * MIB
