"""What-ifs over HTTP and on the command line: who may make one, what it says, and a process that is killed in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncClient
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.llms.scripted.scripted_server import ScriptedServer
from tests.agents.desk import tools
from tests.agents.test_kills import desk_in
from tests.agents.test_loop import call
from tests.api.helpers import bearer, serving
from tests.engine.helpers import DEADLINE, ended, workflow
from tests.waiting import until_true

pytestmark = pytest.mark.slow


def lookup(id: int) -> dict[str, Any]:
    return {"id": id}


[LOOKUP] = tools(lookup)
RULES: list[dict[str, Any]] = [{"when": {"turn": 1}, "calls": [call("lookup", id=1)]}, {"say": "Done."}]
AGENT = {
    "id": "agent",
    "type": "agent",
    "config": {"model": "scripted", "prompt": "Do it.", "tools": [{"function": LOOKUP, "effect": "read"}]},
}


async def test_who_makes_a_what_if_over_http_and_what_it_says(tmp_path):
    admin, operator = bearer("ann", "admin"), bearer("bob", "operator")
    async with serving(tmp_path, tokens=True, real=True) as server:
        with ScriptedModel(RULES):
            run = await server.start(workflow(AGENT), headers=admin)
            path = f"/runs/{run['run_id']}/what-if"
            assert (await server.post(path, {"budget": {"calls": 9}}, headers=operator)).status_code == 403
            stranger = bearer("eve", "admin", tenant="other")
            assert (await server.post(path, {"budget": {"calls": 9}}, headers=stranger)).status_code == 404
            none = await server.post(path, {}, headers=admin)
            assert (none.status_code, none.json()["problems"][0]["path"]) == (422, "budget")
            unfit = await server.post(path, {"tools": "all", "budget": {"calls": 9}}, headers=admin)
            assert unfit.status_code == 422
            keyed = {**admin, "Idempotency-Key": "what-if-1"}
            first = await server.post(path, {"budget": {"calls": 9}}, headers=keyed)
            made = first.json()
            assert (first.status_code, made["origin"], made["budget"]) == (
                201,
                run["run_id"],
                {"calls": 9, "on_exceed": "fail"},
            )
            assert made["conversations"] == [{"node": "agent", "visit": 1, "item": None, "type": "agent"}]
            await ended(server.engine, made["run_id"])
            again = await server.post(path, {"budget": {"calls": 9}}, headers=keyed)
            assert (again.status_code, again.json()["run_id"]) == (200, made["run_id"])
            report = await server.ok(f"/runs/{made['run_id']}/what-if", headers=operator)
            assert (report["totals"]["equal"], report["totals"]["diverged"]) == (1, 0)
            assert (await server.post(f"/runs/{made['run_id']}/rerun", {}, headers=admin)).json()[
                "code"
            ] == "rerun_refused"
            actions = await server.ok(f"/runs/{made['run_id']}/actions", headers=admin)
            assert actions["actions"]["rerun"]["code"] == "rerun_refused"
            noted = (await server.ok("/audit", headers=admin))["items"]
            assert [one["object"] for one in noted if one["action"] == "runs.what_if"] == [run["run_id"]] * 2
            async with AsyncClient(server.url, api_key=admin["Authorization"].removeprefix("Bearer ")) as client:
                other = await client.runs.what_if(run["run_id"], budget={"calls": 9}, idempotency_key="what-if-2")
                assert (await client.runs.wait(other["run_id"]))["state"] == "completed"
                told = await client.runs.what_if_report(other["run_id"])
                assert told["conversations"] == report["conversations"]


# -- the command line --------------------------------------------------------------------------------------------------

TURNS = 6
FLOW = {
    "name": "triage",
    "limits": {"budget": {"calls": 50}},
    "nodes": [
        {
            "id": "agent",
            "type": "agent",
            "config": {
                "model": "fast",
                "prompt": "Do it.",
                "tools": [
                    {"function": "desk:look", "effect": "read"},
                    {"function": "desk:note", "effect": "write", "idempotent": True},
                ],
            },
        }
    ],
    "outputs": {"said": "{{ agent.result }}"},
}


def script() -> str:
    rules: list[dict[str, Any]] = [
        {"when": {"turn": turn}, "calls": [call("look", what=f"{turn}a"), call("note", what=f"{turn}")], "delay_ms": 20}
        for turn in range(1, TURNS + 1)
    ]
    return json.dumps({"rules": [*rules, {"say": "all done", "delay_ms": 20}]})


def perdure(folder: Path, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "perdure", *args]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def printed(folder: Path, *args: str, code: int = 0) -> str:
    with perdure(folder, *args) as process:
        out, error = await asyncio.to_thread(process.communicate, timeout=120)
    assert process.returncode == code, error.decode()
    return out.decode()


async def test_a_what_if_that_is_killed_goes_on_and_asks_for_no_answer_that_was_kept(tmp_path):
    async with desk_in(tmp_path, FLOW, script()) as server:
        await printed(tmp_path, "run", "flow.json", "--run-id", "r1")
        done = (tmp_path / "notes").read_text()
        server.seen.clear()
        with perdure(tmp_path, "runs", "whatif", "r1", "--json") as process:
            await until_true(lambda: len(server.seen) >= 3 or process.poll() is not None, "it asks its model")
            assert process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
        asked = len(server.seen)
        assert asked < TURNS
        [known] = json.loads(await printed(tmp_path, "runs", "list", "--tag", "what_if=r1", "--json"))["items"]
        assert known["state"] == "running"
        # Any process that works on the database goes on with it: here one that makes another what-if.
        over = json.loads(await printed(tmp_path, "runs", "whatif", "--workflow", "triage", "--since", "1d", "--json"))
        assert over["totals"] == {
            "conversations": 1,
            "done": 1,
            "diverged": 0,
            "equal": 1,
            "guard": 0,
            "not_recorded": 0,
        }
        with perdure(tmp_path, "serve", "--port", "0") as process:
            try:
                async with asyncio.timeout(DEADLINE):
                    while (view := await show(tmp_path, known["run_id"]))["state"] == "running":
                        assert process.poll() is None
            finally:
                process.terminate()
        [said] = view["outputs"].values()
        assert (view["state"], said["equal"], said["diverges"]) == ("completed", True, None)
        assert (tmp_path / "notes").read_text() == done
        turns = count_by_turn(server)
        assert set(turns) == set(range(TURNS + 1))
        assert sum(turns.values()) <= 2 * (TURNS + 1) + 1, turns  # two what-ifs, and the answer that was under way


async def show(folder: Path, run_id: str) -> Any:
    return json.loads(await printed(folder, "runs", "show", run_id, "--json"))


def count_by_turn(server: ScriptedServer) -> Counter[int]:
    return Counter(sum(one["role"] == "assistant" for one in seen.body["messages"]) for seen in server.seen)


async def test_what_the_command_shows(tmp_path):
    async with desk_in(tmp_path, FLOW, script()):
        await printed(tmp_path, "run", "flow.json", "--run-id", "r1")
        shown = await printed(tmp_path, "runs", "whatif", "r1", "--instructions", "@flow.json")
        assert "diverges  nowhere" in shown
        assert "answer    equal: all done" in shown
        assert f"calls     {2 * TURNS} from history" in shown
        table = await printed(tmp_path, "runs", "whatif", "--workflow", "triage")
        assert "equal" in table.splitlines()[1]
        assert table.splitlines()[-1].startswith("1 conversation: 1 answered the same, 0 diverged")
        used_up = await printed(tmp_path, "runs", "whatif", "r1", "--calls", "1", code=1)
        assert "failed" in used_up
        await printed(tmp_path, "runs", "whatif", "r1", "--workflow", "triage", code=2)
        await printed(tmp_path, "runs", "whatif", code=2)
        await printed(tmp_path, "runs", "whatif", "r1", "--instructions", "@nowhere", code=2)
