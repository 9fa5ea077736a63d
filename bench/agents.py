"""`make bench ARGS=agents`: what an agent costs beside the model: its turns and calls, durable, on a scripted model that answers at once.

Perdure embedded (SQLite, synchronous=FULL) and, with `ARGS="agents peers"`, LangGraph with its SQLite checkpointer (`durability="sync"`), each in a
process of its own, by turns. Processor time means more than seconds on a machine that others use; the least of all turns counts.

    50x1      50 turns with one tool call each: ms a call, with the turn it is in
    10x10     ten turns with ten calls each, side by side
    25x1 …    the same at other lengths: neither a call nor a byte that was said should cost more in a long conversation
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SAID = 2_000
"""How many bytes each answer of the model, and each result of a tool has."""
TIMES = 3
SHAPES = {"50x1": (50, 1), "10x10": (10, 10), "25x1": (25, 1), "100x1": (100, 1), "200x1": (200, 1)}
"""Turns with calls, and calls in each, side by side."""


def main(arguments: list[str]) -> int:
    unknown = [one for one in arguments if one not in ("peers", *SHAPES)]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are peers, {', '.join(SHAPES)}", file=sys.stderr)
        return 2
    programs = {"perdure": [sys.executable, "-m", "bench.agents", "--one"]}
    if "peers" in arguments:
        from bench.peers.environments import Unavailable, install, python_of
        from bench.peers.subjects import SUBJECTS

        [subject] = [one for one in SUBJECTS if one.name == "langgraph"]
        try:
            install(subject)
        except Unavailable as error:
            print(f"LangGraph cannot be had here: {error}", file=sys.stderr)
            return 1
        programs["langgraph"] = [str(python_of(subject)), "-P", str(Path(__file__).with_name("agents_langgraph.py"))]
    shapes = [one for one in arguments if one in SHAPES] or list(SHAPES)
    print(f"{'turns x calls':14}{'':>12}{'ms a call':>12}{'processor':>12}{'bytes kept a byte said':>26}")
    for shape in shapes:
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
        for _ in range(TIMES):
            for name, command in programs.items():
                found[name].append(_run(command, *SHAPES[shape]))
        for name, rows in found.items():
            wall, cpu = (min(row[key] for row in rows) for key in ("wall_ms", "cpu_ms"))
            size = statistics.median(row["bytes"] for row in rows) / rows[0]["said"]
            print(f"{shape:14}{name:>12}{wall:12.2f}{cpu:12.2f}{size:26.1f}")
    return 0


def _run(command: list[str], turns: int, calls: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([os.getcwd(), str(Path("src").resolve())])
        environment = {**os.environ, "PYTHONPATH": path} if command[1:2] == ["-m"] else os.environ
        given = [*command, folder, str(turns), str(calls), str(SAID)]
        done = subprocess.run(given, capture_output=True, text=True, check=False, env=environment, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(given)}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- Perdure -----------------------------------------------------------------------------------------------------------


def look(key: str) -> str:
    """A tool that gives as much as everybody says."""
    return f"{key} ".ljust(SAID, "r")


async def run_one(folder: Path, turns: int, calls: int) -> dict[str, Any]:
    """One agent in one run, after one that warms everything up."""
    import time

    from perdure import llms
    from perdure.engine import Engine
    from perdure.llms.operator_file import Model, Models, Provider
    from perdure.llms.port import Call, Message, Response, Text, Usage
    from perdure.llms.port import Request as Asked
    from perdure.model import compile_definition
    from perdure.runtime.coordinator.requests import Request

    async def speak(request: Asked) -> Response:
        """A model that answers at once: so many turns with calls, then an answer."""
        turn = sum(one.role == "assistant" for one in request.messages)
        parts: list[Any] = [Text(f"turn {turn} ".ljust(SAID, "m"))]
        if turn < int(request.messages[0].text):
            parts += [Call(f"c{turn}_{number}", "look", {"key": f"{turn}.{number}"}) for number in range(calls)]
        finish: Any = "calls" if len(parts) > 1 else "stop"
        return Response(
            message=Message("assistant", tuple(parts)),
            finish=finish,
            usage=Usage(input=1, output=1, calls=1),
            model="fast",
        )

    provider = Provider(kind="openai_chat", base_url="http://127.0.0.1:9/v1")
    llms.configure(Models({"p": provider}, {"fast": Model(provider="p", model="fast")}, {}, speak))
    config = {
        "model": "fast",
        "prompt": "{{ inputs.turns }}",
        "tools": [{"function": "bench.agents:look", "effect": "read"}],
        "max_turns": 1_000,
        "parallel": 16,
    }
    workflow = {"name": "agents", "nodes": [{"id": "a", "type": "agent", "config": config}]}
    compiled = compile_definition(workflow)
    assert compiled.ir is not None, compiled.problems
    took: dict[str, Any] = {}
    for name, many in (("warm", 3), ("measured", turns)):
        before = _bytes_in(folder)
        engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
        try:
            await engine.hold()
            await engine.workflows.register(compiled)
            began, cpu = time.perf_counter(), time.process_time()
            start = Request(kind="start", run_id=name, ir=compiled.ir.hash, inputs={"turns": str(many)})
            await engine.runs.request(start)
            async for event in engine.runs.follow(name):
                assert event.type != "run.failed", event
            took = {
                "wall_ms": (time.perf_counter() - began) * 1000 / (many * calls),
                "cpu_ms": (time.process_time() - cpu) * 1000 / (many * calls),
                "said": SAID * many * (calls + 1),
            }
        finally:
            await engine.close()
        took["bytes"] = _bytes_in(folder) - before  # without what SQLite writes ahead
    return took


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    import asyncio

    where, turns_, calls_, _ = sys.argv[2:]
    print(json.dumps(asyncio.run(run_one(Path(where), int(turns_), int(calls_)))))
