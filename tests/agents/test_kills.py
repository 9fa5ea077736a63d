"""A real `kill -9` in the middle of an agent, again and again: nothing that was kept is asked or done again, and all is counted.

`make agent-kills` kills 200 times; here are KILLS=… of them, fewer.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.llms.scripted.script import load_script
from perdure.llms.scripted.scripted_server import ScriptedServer
from tests.agents.test_loop import call
from tests.waiting import until_true

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "2"))
TURNS = 8
TOOLS = '''
from pathlib import Path


def note(what: str) -> str:
    """Notes something."""
    with Path("notes").open("a") as notes:
        notes.write(what + "\\n")
    return what


def look(what: str) -> str:
    """Looks something up."""
    return note("look " + what)
'''
AGENTS = '[providers.here]\nkind = "openai_chat"\nbase_url = "http://127.0.0.1:{port}/v1"\n\n[models.fast]\nprovider = "here"\nmodel = "m-1"\n'
FLOW = {
    "name": "kills",
    "nodes": [
        {
            "id": "agent",
            "type": "agent",
            "config": {
                "model": "fast",
                "prompt": "Do it.",
                "max_turns": TURNS + 2,
                "tools": [
                    {"function": "desk:look", "effect": "read"},
                    {"function": "desk:note", "effect": "write", "idempotent": True},
                ],
            },
            "max_crashes": 1000,
        }
    ],
    "outputs": {"said": "{{ agent.result }}"},
}


def script() -> str:
    rules: list[dict[str, Any]] = [
        {
            "when": {"turn": turn},
            "calls": [call("look", what=f"{turn}a"), call("look", what=f"{turn}b"), call("note", what=f"{turn}")],
            "delay_ms": 20,
        }
        for turn in range(1, TURNS + 1)
    ]
    return json.dumps({"rules": [*rules, {"say": "all done", "delay_ms": 20}]})


@asynccontextmanager
async def desk_in(folder: Path, flow: Any, said: str) -> AsyncIterator[ScriptedServer]:
    """A folder with a workflow, the tools of its agent, and a model that says what the script says."""
    (folder / "script.json").write_text(said)
    (folder / "desk.py").write_text(TOOLS)
    (folder / "flow.json").write_text(json.dumps(flow))
    (folder / "perdure.toml").write_text('agents_file = "agents.toml"\n')
    server = ScriptedServer(load_script(str(folder / "script.json")))
    await server.start()
    try:
        (folder / "agents.toml").write_text(AGENTS.format(port=server.port))
        yield server
    finally:
        await server.close()


def run(folder: Path, run_id: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "perdure", "run", "flow.json", "--run-id", run_id]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


async def test_whenever_the_process_is_killed_the_agent_goes_on_and_repeats_only_what_was_under_way(tmp_path):
    chance, kills, runs = random.Random(KILLS), 0, 0
    async with desk_in(tmp_path, FLOW, script()) as server:
        while kills < KILLS:
            runs += 1
            kills += await _one(tmp_path, server, f"r{runs}", chance, KILLS - kills)
    print(f"{kills} kills in {runs} runs")
    assert kills == KILLS


async def _one(folder: Path, server: ScriptedServer, run_id: str, chance: random.Random, most: int) -> int:
    """One run, killed up to five times. Gives how often."""
    server.seen.clear()
    notes = folder / "notes"
    notes.unlink(missing_ok=True)
    kills = 0
    while kills < min(5, most):
        known, more = len(server.seen), chance.randint(1, 3)
        with run(folder, run_id) as process:
            await until_true(_is_far(server, process, known + more), "it asks its model", pause=chance.random() * 0.03)
            if process.poll() is not None:
                break
            process.kill()
        kills += 1
    with run(folder, run_id) as process:
        said = (await asyncio.to_thread(process.communicate, timeout=120))[0]
    assert (process.returncode, json.loads(said)) == (0, {"said": "all done"})
    asked = Counter(sum(one["role"] == "assistant" for one in seen.body["messages"]) for seen in server.seen)
    assert set(asked) == set(range(TURNS + 1))
    assert sum(asked.values()) <= TURNS + 1 + kills, f"{kills} kills, asked {asked}"
    done = Counter(notes.read_text().splitlines())
    wanted = {
        f"{what}{turn}{part}"
        for turn in range(1, TURNS + 1)
        for what, part in (("look ", "a"), ("look ", "b"), ("", ""))
    }
    assert set(done) == wanted
    assert sum(done.values()) <= len(wanted) + 3 * kills, f"{kills} kills, done {done}"
    return kills


def _is_far(server: ScriptedServer, process: subprocess.Popen[bytes], wanted: int) -> Any:
    return lambda: len(server.seen) >= wanted or process.poll() is not None
