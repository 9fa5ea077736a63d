"""Runs and values as large as they may be: no turn of the loop grows with them (S05)."""

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import weight
from perdure.capacity import MAX_NODES
from perdure.deployment import bounds_of
from perdure.kernel import reruns
from perdure.kernel.decide import advance
from perdure.kernel.segments import BlobRef
from perdure.limits import Bounds
from perdure.nodes.http import read_body
from perdure.outcomes import Failure
from perdure.runtime.coordinator import loaded, projections, rulings
from perdure.runtime.coordinator.ownership import listener
from perdure.runtime.worker import handler_inputs
from perdure.sandbox import jq
from perdure.settings import Settings
from tests.api.helpers import mounted, serving
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import DEADLINE, compiled, open_engine, until_true

MIB = 1024 * 1024
COUNT = 2_000


def heavy() -> bytes:
    return b"[" + b"[]," * (10 * MIB) + b"0]"


def mapping(value: Any) -> dict[str, Any]:
    config = {"over": "{{ inputs.x }}", "node": {"type": "transform", "config": {"value": value}}}
    return {"name": "w", "nodes": [{"id": "m", "type": "map", "config": config}]}


@pytest.mark.slow
@attack("S05", "a map whose outputs together are large")
async def test_what_many_items_gave_is_gathered_beside_the_loop(tmp_path):
    async with serving(tmp_path) as server:
        with watching():
            inputs = {"x": [0] * 3_000, "t": "x" * 30_000}
            run = await server.start(mapping("{{ inputs.t }}"), inputs, wait=DEADLINE)
        assert (run["state"], run["outputs"]["m"]["size"]) == ("completed", 3_000 * 30_003 + 1), run


async def test_what_is_gathered_beside_the_loop_is_what_each_item_gave(tmp_path):
    """Some of it is stored elsewhere, and some looks like a reference and is none."""
    large, marked = "x" * 40_000, {"$perdure:blob": "cas://sha256:0"}
    values = [large if n == 250 else marked if n == 1 else n for n in range(300)]
    async with serving(tmp_path) as server:
        run = await server.start(mapping("{{ item }}"), {"x": values})
        assert run["outputs"]["m"] == values


@pytest.mark.slow
@attack("S05", "a map of many items beside a node that is parked")
async def test_what_is_parked_costs_no_look_at_all_that_is_not(tmp_path, monkeypatch):
    """Or every commit takes as long as its run is large: a tenth of a second with 60,000 items."""
    named, real = 0, projections.letter_id

    def letter_id(*one: Any) -> str:
        nonlocal named
        named += 1
        return real(*one)

    for module in (loaded, projections):
        monkeypatch.setattr(module, "letter_id", letter_id)
    definition = mapping("{{ item }}")
    parked = {"id": "p", "type": "transform", "config": {"value": "{{ inputs.x[0].a }}"}, "on_failure": "park"}
    definition["nodes"].append(parked)
    async with serving(tmp_path) as server:
        run = await server.start(definition, {"x": [0] * COUNT}, wait=0)
        await until_true(lambda: _is_done(server, run["run_id"]), "the map is done")
        assert [one["node"] for one in (await server.ok("/dead-letters"))["items"]] == ["p"]
    assert 0 < named < COUNT


async def _is_done(server: Any, run_id: str) -> bool:
    found = await server.engine.journal.find_run(run_id)
    return bool(found.seq > COUNT and found.row.counter == 1)


@pytest.mark.slow
@attack("S03", "a blob of millions of empty lists, which a template looks into")
async def test_a_value_of_too_many_parts_is_not_looked_into(tmp_path):
    async with serving(tmp_path) as server:
        # As many bytes as a definition may name, and still too many parts.
        small = b'{"value":[' + b"[]," * 345_000 + b"0]}"
        ref = await server.engine.blobs.put("default", small)  # type: ignore[union-attr]
        definition = {"name": "w", "nodes": [{"id": "a", "type": "transform", "config_ref": ref}]}
        with watching():
            answer = await server.post("/runs", {"definition": definition, "wait_seconds": 5})
        assert "more parts than one process reads at once" in answer.text, answer.text[:500]


@pytest.mark.slow
def test_text_weighs_nothing_however_much_it_looks_like_lists():
    assert weight.is_heavy(heavy())
    assert not weight.is_heavy(b'"' + b"a,[{" * (7 * MIB) + b'"')
    assert weight.is_heavy(b"[" + b'"a",' * (weight.MOST + 1) + b"0]")
    assert not weight.is_heavy(b"[" + b"1," * (weight.MOST - 10) + b"0]")


@pytest.mark.slow
def test_an_answer_of_too_many_parts_is_no_output():
    answer = SimpleNamespace(
        body=heavy(), header=lambda name: "application/json", url=SimpleNamespace(shown="http://somewhere/")
    )
    with pytest.raises(Failure, match="more parts than one process reads"):
        read_body(answer, "auto")  # type: ignore[arg-type]
    with pytest.raises(jq.JqError, match="more parts than one process reads"):
        jq._read(b'{"value":' + heavy() + b"}")


def test_only_a_process_of_its_own_reads_too_many_parts_for_a_handler():
    ref = BlobRef("cas://sha256:" + "0" * 64)
    steps = handler_inputs.loading(ref, lambda name: None)
    next(steps)
    heavy = b"[" + b"1," * (weight.MOST + 1) + b"0]"
    with pytest.raises(Failure, match="isolation: process") as failed:
        steps.send(heavy)
    assert (failed.value.code, failed.value.not_done) == ("blob_too_large", True)
    assert len(handler_inputs.load(ref, lambda name: heavy)) == weight.MOST + 2


@pytest.mark.slow
@attack("S03", "an approval of a large document that was changed everywhere")
async def test_what_a_person_changed_of_a_large_document_is_compared_beside_the_loop(tmp_path):
    document: Any = ["xx"] * 150_000
    changed: Any = [*document[1:], "y"]
    for _ in range(50):  # at each level all that is below is compared
        document, changed = {"a": document}, {"a": changed}
    ask = {"id": "ask", "type": "human", "config": {"approvers": ["local"], "show": "{{ inputs.d }}"}}
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": [ask]}, {"d": document}, wait=0)
        found = await until_some(server, f"/approvals?run_id={run['run_id']}", {})
        with watching():
            body = {"decision": "approve", "data": changed, "approver": "local"}
            await server.ok(f"/approvals/{found['approval_id']}/decide", body)
            shown = await server.ok(f"/approvals/{found['approval_id']}")
        assert shown["changes"]


MANY = 5_000
"""Half of what takes as long as a turn may take, so that a busy machine changes nothing."""


@pytest.mark.slow
@attack("S05", "a signal that frees thousands of nodes at once, and a rerun that keeps them all")
async def test_a_decision_about_many_nodes_holds_up_nobody(tmp_path):
    config = {"type": "transform", "config": {"value": 1}}
    names = [f"n{number}" for number in range(MANY)]
    nodes = [
        {"id": "first", "type": "wait", "config": {"signal": "go"}},
        *({"id": name, **config, "dependencies": ["first"]} for name in names),
        {"id": "last", **config, "dependencies": names},
    ]
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": nodes}, wait=0)
        with watching():
            await server.ok(f"/runs/{run['run_id']}/signal", {"name": "go"})
            await until_true(lambda: _is_completed(server, run["run_id"]), "the run is done")
        with watching():
            again = await server.ok(f"/runs/{run['run_id']}/rerun", {"from_node": "last"})
            await until_true(lambda: _is_completed(server, again["run_id"]), "the rerun is done")
        found = await server.engine.journal.find_run(again["run_id"])
        assert found is not None
        assert found.seq > MANY


async def test_a_decision_about_many_nodes_is_the_whole_of_its_turn(tmp_path, monkeypatch):
    """No garbage is collected in it, none of the nodes is executed, and what a rerun keeps is found in a thread."""
    collected: list[bool] = []
    answered: list[int] = []
    threads: list[threading.Thread] = []
    answer, adopt = rulings.Rulings.answer_inline, reruns.adopt

    def decided(*about: Any) -> Any:
        collected.append(gc.isenabled())
        return advance(*about)

    def answering(self: Any, one: Any, waiting: Any, origin: Any = None) -> None:
        if origin is None:
            answered.append(len(waiting))
        answer(self, one, waiting, origin)

    def adopted(*about: Any) -> Any:
        threads.append(threading.current_thread())
        return adopt(*about)

    for module in (rulings, listener):
        monkeypatch.setattr(module, "MANY_NODES", 5)
    monkeypatch.setattr(rulings, "advance", decided)
    monkeypatch.setattr(rulings.Rulings, "answer_inline", answering)
    monkeypatch.setattr(reruns, "adopt", adopted)
    nodes = [{"id": f"n{number}", "type": "transform", "config": {"value": 1}} for number in range(6)]
    last = {**nodes[0], "id": "last", "dependencies": [node["id"] for node in nodes]}
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": [*nodes, last]})
        assert run["outputs"] == {"last": 1}
        assert max(answered, default=0) < 5
        again = await server.ok(f"/runs/{run['run_id']}/rerun", {"from_node": "last"})
        await until_true(lambda: _is_completed(server, again["run_id"]), "the rerun is done")
    assert not collected[0]
    assert threads
    assert threading.main_thread() not in threads


async def _is_completed(server: Any, run_id: str) -> bool:
    return bool((await server.engine.journal.find_run(run_id)).row.state == "completed")


# -- definitions as large as they may be -------------------------------------------------------------------------------


@asynccontextmanager
async def bounded(path: Any, **settings: Any) -> AsyncIterator[Any]:
    """A server over an engine with these settings; it asks for nobody's name."""
    engine = await open_engine(f"sqlite:///{path / 'perdure.db'}", **settings)
    try:
        await engine.hold()
        async with mounted(engine) as server:
            yield server
    finally:
        await engine.close(0.5)


def flat(count: int, **more: Any) -> dict[str, Any]:
    nodes = [{"id": f"n{number}", "type": "transform", "config": {"value": 1}} for number in range(count)]
    return {"name": "w", "nodes": nodes, **more}


@pytest.mark.slow
@attack("S05", "as many of the smallest nodes as a body can hold, all ready at once")
async def test_a_definition_that_would_hold_the_loop_is_refused(tmp_path):
    body = {"definition": {"name": "w", "nodes": [{"id": f"n{n:x}", "type": "input"} for n in range(28_000)]}}
    async with bounded(tmp_path, auth="keys") as server:
        with watching():
            answer = await server.post("/runs", {**body, "wait_seconds": 0})
        assert answer.status_code == 422
        assert "max_nodes is 5,000" in answer.text


@pytest.mark.slow
@attack("S05", "the largest definition that a server takes, and its largest decisions")
async def test_the_largest_definition_that_is_taken_holds_up_nobody(tmp_path):
    """All nodes are ready at once, are skipped at once over as many edges as count as so many nodes, or replaced at once."""
    sides = 190, 190  # with their edges they count nearly 5,000
    first = {"id": "first", "type": "transform", "config": {"value": 1}, "when": "false"}
    left = [
        {"id": f"l{n}", "type": "transform", "config": {"value": 1}, "dependencies": ["first"]} for n in range(sides[0])
    ]
    names = [node["id"] for node in left]
    right = [
        {"id": f"r{n}", "type": "transform", "config": {"value": 1}, "dependencies": names} for n in range(sides[1])
    ]
    async with bounded(tmp_path, auth="keys") as server:
        for definition in (flat(MAX_NODES), {"name": "w", "nodes": [first, *left, *right]}):
            assert not server.engine._bounds.find_excess(compiled(definition).ir)
            with watching():
                run = await server.start(definition, wait=0)
                await until_true(partial(_is_completed, server, run["run_id"]), "the run is done")


SMALL = 5


@pytest.mark.parametrize("how", ["register", "validate", "start", "retry", "patch"])
async def test_what_is_larger_than_max_nodes_is_refused_wherever_it_comes_in(tmp_path, how):
    async with bounded(tmp_path, max_nodes=SMALL) as server:
        waiting = flat(SMALL)
        waiting["nodes"][0] |= {"type": "wait", "config": {"signal": "go"}}
        run = await server.start(waiting, wait=0)
        larger = flat(SMALL + 1)
        match how:
            case "register":
                answer = await server.post("/workflows", larger)
            case "validate":
                answer = await server.post("/workflows/validate", larger)
            case "start":
                answer = await server.post("/runs", {"definition": larger})
            case "retry":
                answer = await server.post(f"/runs/{run['run_id']}/retry", {"definition": larger})
            case _:
                node = {"op": "add", "path": "/nodes/-", "value": {"id": "more", "type": "input"}}
                answer = await server.post(f"/runs/{run['run_id']}/patch", {"patch": [node]})
        assert f"max_nodes is {SMALL}" in answer.text, answer.text
        assert how == "validate" or answer.status_code == 422


async def test_all_else_that_is_wrong_is_said_beside_it(tmp_path):
    async with bounded(tmp_path, max_nodes=SMALL) as server:
        larger = flat(SMALL + 1)
        larger["nodes"][0]["type"] = "transfrom"
        answer = (await server.post("/runs", {"definition": larger})).json()
        assert {problem["code"] for problem in answer["problems"]} >= {"too_large", "unknown_type"}


async def test_what_was_kept_when_more_was_allowed_begins_neither_alone_nor_as_a_child(tmp_path):
    parent = {"name": "p", "nodes": [{"id": "c", "type": "workflow", "config": {"workflow": "w"}}]}
    async with bounded(tmp_path) as server:
        await server.ok("/workflows", flat(SMALL + 1))
        done = await server.ok("/runs", {"workflow": "w", "wait_seconds": DEADLINE})
    async with bounded(tmp_path, max_nodes=SMALL) as server:
        for path, body in (("/runs", {"workflow": "w"}), (f"/runs/{done['run_id']}/rerun", {})):
            answer = await server.post(path, body)
            assert (answer.status_code, answer.json()["code"]) == (409, "limit_exceeded")
        run = await server.start(parent)
        assert (run["state"], f"max_nodes is {SMALL}" in run["error"]["message"]) == ("failed", True)


def test_edges_and_items_of_maps_count():
    bounds = Bounds(max_nodes=SMALL)
    assert bounds.find_excess(compiled(flat(SMALL)).ir) is None
    assert Bounds().find_excess(compiled(flat(SMALL + 1)).ir) is None
    assert "6 nodes and 0 edges" in (bounds.find_excess(compiled(flat(SMALL + 1)).ir) or "")
    chain = flat(SMALL)
    for before, after in pairwise(chain["nodes"]):
        after["dependencies"] = [before["id"]]
    assert bounds.find_excess(compiled(chain).ir) is None
    for number, node in enumerate(chain["nodes"]):
        node["dependencies"] = [one["id"] for one in chain["nodes"][:number]]
    assert "5 nodes and 10 edges" in (bounds.find_excess(compiled(chain).ir) or "")
    maps = [{**mapping(1)["nodes"][0], "id": f"m{number}"} for number in range(3)]
    assert "6 nodes and 0 edges" in (bounds.find_excess(compiled({"name": "w", "nodes": maps}).ir) or "")


@pytest.mark.parametrize(
    ("settings", "most"),
    [({}, None), ({"auth": "keys"}, 5_000), ({"auth": "jwt", "max_nodes": 9}, 9), ({"max_nodes": 9}, 9)],
)
def test_only_a_server_that_is_open_takes_any_number_by_itself(settings, most):
    assert bounds_of(Settings(**settings)).max_nodes == most


@pytest.mark.slow
@attack("S05", "pictures of a run with as many nodes as it may have")
async def test_pictures_of_the_largest_run_are_drawn_beside_the_loop(tmp_path):
    """The client decodes nothing: it shares the loop with the server."""
    nodes = [{"id": f"n{n}", "type": "transform", "config": {"value": n}} for n in range(MAX_NODES)]
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": nodes}, {}, wait=DEADLINE)
        for path in ("graph", "graph?open=*", "graph.svg"):
            with watching():
                answer = await server.get(f"/runs/{run['run_id']}/{path}")
            assert answer.status_code == 200
