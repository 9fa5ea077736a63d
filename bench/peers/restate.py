"""Restate: its server, and a service in a process of its own behind Hypercorn.

Written as its documentation does: "Durable Steps" (`ctx.run_typed`) and "Concurrent Tasks" (`restate.gather`) of the Python SDK,
docs.restate.dev/develop/python/durable-steps and …/concurrent-tasks, "Serving" with Hypercorn, and runs started by HTTP with an idempotency key. The server comes with
the npm package restate-server; its log is synced by default. After a crash, the server calls the service again by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx
import restate

from bench.peers.program import Shape, end, main, spawn
from bench.peers.work import astep

PORTS = [int(port) for port in os.environ.get("PEERS_PORTS", "0 0 0 0").split()]
SERVICE, INGRESS, ADMIN, NODE = PORTS
service = restate.Service("Peers")


@service.handler()
async def chain(ctx: restate.Context, given: list[str]) -> int:
    run, size = given
    for number in range(int(size)):
        await ctx.run_typed("node", astep, run=run, node=f"n{number}")
    return 1


@service.handler()
async def diamond(ctx: restate.Context, given: list[str]) -> int:
    run, _ = given
    await ctx.run_typed("a", astep, run=run, node="a")
    b = ctx.run_typed("b", astep, run=run, node="b")
    c = ctx.run_typed("c", astep, run=run, node="c")
    await restate.gather(b, c)
    await ctx.run_typed("d", astep, run=run, node="d")
    return 1


@service.handler()
async def fan(ctx: restate.Context, given: list[str]) -> int:
    run, size = given
    await ctx.run_typed("first", astep, run=run, node="first")
    await restate.gather(*(ctx.run_typed("item", astep, run=run, node=f"m{number}") for number in range(int(size))))
    await ctx.run_typed("last", astep, run=run, node="last")
    return 1


app = restate.app([service])


class Restate:
    at_once = 50

    async def open(self, folder: Path) -> None:
        serve = [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{SERVICE}", "bench.peers.restate:app"]
        self._service = spawn(*serve, log=folder / "service.log")
        settings = {
            "RESTATE_BASE_DIR": str(folder / "restate"),
            "RESTATE_NODE_NAME": "peers",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{NODE}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{NODE}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{INGRESS}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{ADMIN}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RUST_LOG": "error",
        }
        self._server = spawn(os.environ["PEERS_RESTATE_SERVER"], log=folder / "server.log", environment=settings)
        self._http = httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=200))
        register = {"uri": f"http://127.0.0.1:{SERVICE}", "force": True}
        while not await self._accepts(register):
            assert self._server.poll() is None, "the server of Restate ended"
            await asyncio.sleep(0.05)

    async def _accepts(self, register: dict[str, object]) -> bool:
        try:
            answer = await self._http.post(f"http://127.0.0.1:{ADMIN}/deployments", json=register)
            health = await self._http.get(f"http://127.0.0.1:{INGRESS}/restate/health")
        except httpx.TransportError:
            return False
        return answer.status_code < 300 and health.status_code == 200

    async def prepare(self, shape: Shape) -> None:
        """Handlers were registered with the deployment."""

    async def run(self, shape: Shape, run: str) -> None:
        answer = await self._http.post(
            f"http://127.0.0.1:{INGRESS}/Peers/{shape.kind}",
            json=[run, str(shape.size)],
            headers={"idempotency-key": run},
        )
        answer.raise_for_status()

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        await asyncio.gather(
            *(self.run(shape, run) for run in runs)
        )  # the same key: it waits for the run that there is

    async def close(self) -> None:
        await self._http.aclose()
        end(self._service)
        end(self._server)


if __name__ == "__main__":
    main(Restate())
