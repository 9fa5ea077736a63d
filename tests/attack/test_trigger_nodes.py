"""Triggers inside a run: their source is what the author wrote, and what comes is of the run's own tenant (rule 54)."""

from typing import Any

import pytest

from perdure.access import Permission
from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import DEADLINE, until_true

pytestmark = pytest.mark.slow
CANARY = "canary-of-acme"
ACME, OTHER = bearer("ann", "author"), bearer("eve", "author", tenant="other")


def taking(**config: Any) -> dict[str, Any]:
    return {"name": "takes", "nodes": [{"id": "take", "type": "trigger", "config": config}]}


SOURCES: dict[str, dict[str, Any]] = {
    "a folder that data names": {"folder": {"url": "file://{{ inputs.p }}", "every": "1s"}},
    "a folder outside of what workers may read": {"folder": {"url": "file:///etc", "every": "1s"}},
    "a folder by its way up": {"folder": {"url": "file:///tmp/../etc", "every": "1s"}},
    "a database that data names": {
        "table": {"database": "sqlite:///{{ inputs.p }}", "table": "runs", "cursor": "rowid"}
    },
    "the database of the server": {"table": {"database": "sqlite:///perdure.db", "table": "runs", "cursor": "rowid"}},
    "a server inside": {"table": {"database": "postgresql://u@127.0.0.1/d", "table": "t", "cursor": "id"}},
    "a Redis inside": {"stream": {"redis": "redis://127.0.0.1:6379/0", "stream": "s"}},
    "a bucket inside": {"folder": {"url": "s3://b/p?endpoint=http://169.254.169.254", "every": "1s"}},
    "a source that nobody registered": {"poll": {"type": "os:system", "every": "1s"}},
    "a webhook": {"webhook": {"scheme": "none"}},
    "a secret as the key of events": {"event": {"name": "order.paid", "key": "{{ secrets.MODEL_KEY }}"}},
    "a template in a filter": {"event": {"name": "order.paid"}, "filter": "{{ inputs.p }}"},
}


@attack("X33", "a trigger node that reads what its tenant may not, or what data names")
@pytest.mark.parametrize("what", SOURCES)
async def test_a_trigger_node_reads_no_other_source(tmp_path, what, monkeypatch):
    async with serving(tmp_path, tokens=True) as server:
        body = {"definition": taking(**SOURCES[what]), "inputs": {"p": "/etc/passwd"}, "wait_seconds": 0}
        answer = await server.post("/runs", body, headers=ACME)
        if answer.status_code == 422:
            return
        run_id = answer.json()["run_id"]

        async def refused() -> Any:
            run = await server.ok(f"/runs/{run_id}", headers=ACME)
            assert run["state"] != "completed", run
            node = run["nodes"]["take"]
            return run["state"] == "failed" or node.get("error") or node.get("problem") or node.get("detail")

        found = await until_true(refused, "it is refused", DEADLINE)
        assert "root:" not in str(found)
        await server.post(f"/runs/{run_id}/cancel", {}, headers=ACME)


@attack("X18", "events of another tenant, and its runs, for a trigger node")
async def test_a_trigger_node_hears_its_own_tenant_alone(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        run = await server.start(taking(event={"name": "order.paid", "key": "k"}), headers=ACME, wait=0)
        await until_state(server, run["run_id"], "running", ACME)
        for key in ("k", "*", ""):
            await server.ok("/events", {"name": "order.paid", "key": key, "payload": "theirs"}, headers=OTHER)
        await server.ok("/events", {"name": "order.paid", "key": "k", "payload": CANARY}, headers=ACME)
        done = await until_state(server, run["run_id"], "completed", ACME)
        assert done["outputs"]["take"]["payload"] == CANARY
        seen = await server.get(f"/runs/{run['run_id']}", headers=OTHER)
        assert seen.status_code == 404


@attack("S02", "the source of a trigger node, by who may only operate")
async def test_who_operates_gives_a_trigger_node_no_other_source(tmp_path):
    operator = bearer("bob", "operator")
    async with serving(tmp_path, tokens=True) as server:
        flow = taking(event={"name": "order.paid"}, filter="item.payload.n > 0")
        run = await server.start(flow, headers=ACME, wait=0)
        await until_state(server, run["run_id"], "running", ACME)
        await server.ok("/events", {"name": "order.paid", "payload": "odd"}, headers=ACME)
        letter = await until_some(server, "/dead-letters", ACME)
        path = f"/dead-letters/{letter['dead_letter_id']}/requeue"
        refused = await server.post(path, {"config": {"payload": {"n": 1}}}, headers=operator)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert str(Permission.WORKFLOWS_WRITE) in refused.text
        await server.ok(f"/runs/{run['run_id']}/cancel", {}, headers=ACME)


@attack("S05", "events of thousands of parts for a trigger node, more than it takes")
async def test_what_waits_for_a_trigger_node_holds_up_nobody(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        loop = {"condition": "output != 'stop'", "loop_back_to": "take", "endless": True}
        work = {
            "id": "work",
            "type": "transform",
            "config": {"value": "{{ take.id }}"},
            "dependencies": ["take"],
            "loop": loop,
        }
        flow = {"name": "takes", "nodes": [*taking(event={"name": "order.paid"})["nodes"], work]}
        payload: list[Any] = [[]] * 9_000
        with watching():
            run = await server.start(flow, headers=ACME, wait=0)
            for number in range(60):
                event = {"name": "order.paid", "payload": payload, "id": f"e{number}"}
                await server.ok("/events", event, headers=ACME)
            await server.ok("/events", {"name": "order.paid", "payload": 1, "id": "stop"}, headers=ACME)
            await until_state(server, run["run_id"], "completed", ACME)
