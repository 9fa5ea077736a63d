"""A process that passes a value of so many bytes through a run; prints what it took. Started by `test_memory.py`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure.engine import Engine
from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request


async def make(ctx: perdure.Context, size: int) -> Any:
    """Parts of different lengths, so that nothing is shared."""
    step = 1_000_000
    return {"parts": ["p" * step + str(number) for number in range(size // step)]}


async def passes(ctx: perdure.Context, value: Any) -> Any:
    value["seen"] = value.get("seen", 0) + 1
    return value


def passes_in_thread(ctx: perdure.Context, value: Any) -> Any:
    value["seen"] = value.get("seen", 0) + 1
    return value


def peak_mb() -> float:
    """Of this program alone: `ru_maxrss` also counts what the process was before it began to be this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


async def main(folder: Path, size: int, isolation: str) -> dict[str, Any]:
    def node(id: str, function: str, args: dict[str, Any], *needs: str) -> dict[str, Any]:
        config = {"function": f"tests.blobs.passing:{function}", "args": args}
        return {"id": id, "type": "task", "config": config, "dependencies": list(needs), "isolation": isolation}

    compiled = compile_definition(
        {
            "name": "passing",
            "nodes": [
                node("a", "make", {"size": size}),
                node("b", "passes", {"value": "{{ a.output }}"}, "a"),
                node("c", "passes_in_thread", {"value": "{{ b }}"}, "b"),
            ],
        }
    )
    assert compiled.ir is not None, compiled.problems
    before = peak_mb()
    engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
    await engine.hold()
    await engine.workflows.register(compiled)
    await engine.runs.request(Request(kind="start", run_id="r1", ir=compiled.ir.hash))
    async for event in engine.runs.follow("r1"):
        if event.type in ("run.completed", "run.failed"):
            break
    state = await engine.runs.state("r1")
    assert state.state.value == "completed", state.error
    peak = peak_mb()
    sizes = {node: state.find(node).size for node in ("a", "b", "c")}
    await engine.close()
    return {"before": before, "peak": peak, "sizes": sizes, "events": state.seq}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))))
