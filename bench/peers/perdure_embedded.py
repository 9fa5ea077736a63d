"""Perdure in one process, on SQLite with `synchronous=FULL`: coordinator and worker are this process.

Written as docs/internals and `bench.scenarios` do: an `Engine` that holds its database. After a crash, `hold` resumes the open runs by itself.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.peers.program import Shape, main
from perdure.engine import Engine
from perdure.kernel.state import State
from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request


def _task(node: str, *dependencies: str) -> dict[str, Any]:
    config = {"function": "bench.peers.work:astep", "args": {"run": "{{ inputs.run }}", "node": node}}
    return {"id": node, "type": "task", "config": config, "dependencies": list(dependencies)}


def build(shape: Shape) -> dict[str, Any]:
    """The definition that the engine is given, embedded and distributed."""
    if shape.kind == "chain":
        names = [f"n{number:03}" for number in range(shape.size)]
        nodes = [_task(names[0]), *(_task(name, before) for before, name in pairwise(names))]
    elif shape.kind == "diamond":
        nodes = [_task("a"), _task("b", "a"), _task("c", "a"), _task("d", "b", "c")]
    else:
        middle = [f"m{number:05}" for number in range(shape.size)]
        nodes = [_task("first"), *(_task(name, "first") for name in middle), _task("last", *middle)]
    inputs = {"type": "object", "properties": {"run": {"type": "string"}}}
    return {"name": f"{shape.kind}-{shape.size}", "inputs": inputs, "nodes": nodes}


class PerdureEmbedded:
    at_once = 500

    async def open(self, folder: Path) -> None:
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._irs: dict[Shape, str] = {}
        self._engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
        self._engine.listen(self._listen)
        await self._engine.hold()

    def _listen(self, state: State, events: Any) -> None:
        if state.terminal and (end := self._ends.pop(state.run_id, None)) is not None and not end.done():
            end.set_result(None)

    async def prepare(self, shape: Shape) -> None:
        if shape not in self._irs:
            compiled = compile_definition(build(shape))
            await self._engine.workflows.register(compiled)
            self._irs[shape] = compiled.get_ir().hash

    async def run(self, shape: Shape, run: str) -> None:
        end = self._ends[run] = asyncio.get_running_loop().create_future()
        await self._engine.runs.request(Request(kind="start", run_id=run, ir=self._irs[shape], inputs={"run": run}))
        await end

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        ends = {run: self._ends.setdefault(run, asyncio.get_running_loop().create_future()) for run in runs}
        for run, end in ends.items():
            if not (await self._engine.runs.state(run)).terminal:
                await end

    async def close(self) -> None:
        await self._engine.close()


if __name__ == "__main__":
    main(PerdureEmbedded())
