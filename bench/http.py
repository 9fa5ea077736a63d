"""`python -m bench.http [--seconds 5] [--connections 32]`: starts over HTTP, embedded and durable (SQLite synchronous=FULL).

The server is a process of its own with uvicorn, a coordinator and a worker, as `perdure dev` is. Each start is one POST /runs of a
workflow with one node, answered when it is durable; the run itself goes on beside it. A delivery to a webhook is answered when it and the
start of its run are durable in the journal of the one trigger. Beside starts a second stand the processor
time of the server for each, which means more on a shared machine, and the same for GET /healthz: what HTTP alone costs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perdure.api import Options, create_app
from perdure.api.server import loop_factory, serve
from perdure.engine import Engine
from perdure.model import compile_definition
from perdure.service import Service

QUICK = {"name": "quick", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}
SECRET = "a secret of measurements"
HOOK = {
    "name": "quick",
    "workflow": "quick",
    "webhook": {"verify": {"scheme": "bearer", "secret": "BENCH"}},
    "overlap": "allow",
    "limits": {"buffer": 10_000},
}
HEAD = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"


async def serve_until_told(folder: Path) -> None:
    engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}")
    try:
        await engine.hold()
        await engine.workflows.register(compile_definition(QUICK))
        hook = (await Service.of_owner(engine).triggers.apply(HOOK))["hook"]
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        app = create_app(engine, options=Options(hook_rate=0))
        await serve(app, "127.0.0.1", 0, lambda port: print(port, hook, flush=True), stop)
    finally:
        await engine.close(5.0)


async def ask(port: int, request: bytes, status: bytes, until: float, times: list[float]) -> None:
    """One connection, one request after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if status not in head[:20]:
            raise RuntimeError(f"unexpected answer: {head[:200]!r}")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        times.append(time.perf_counter() - begun)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def measure(port: int, pid: int, request: bytes, status: bytes, seconds: float, connections: int) -> str:
    times: list[float] = []
    used = cpu_seconds(pid)
    begun = time.perf_counter()
    await asyncio.gather(*(ask(port, request, status, begun + seconds, times) for _ in range(connections)))
    took, used = time.perf_counter() - begun, cpu_seconds(pid) - used
    times.sort()
    median, late = times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000
    rate, each = len(times) / took, used / len(times) * 1e6
    return f"{rate:8,.0f} a second   {each:6,.0f} µs of the server each   median {median:.1f} ms   99% {late:.1f} ms"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve_until_told(options.serve))
        return 0
    print(f"{platform.machine()}, Python {platform.python_version()}, {options.connections} connections\n")
    body = b'{"workflow": "quick"}'
    start = f"POST /api/v1/runs HTTP/1.1\r\n{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body
    health = f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n".encode()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        command = [sys.executable, "-m", "bench.http", "--serve", folder]
        environment = {**os.environ, "PERDURE_SECRET_BENCH": SECRET}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert process.stdout is not None
            port, hook = process.stdout.readline().split()
            sent = (
                f"POST {hook} HTTP/1.1\r\n{HEAD}Authorization: Bearer {SECRET}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            for name, request, status in (
                ("GET /healthz", health, b" 200 "),
                ("POST /api/v1/runs", start, b" 201 "),
                ("POST /api/v1/hooks", sent.encode() + body, b" 202 "),
            ):
                figures = measure(int(port), process.pid, request, status, options.seconds, options.connections)
                print(f"  {name:20} {asyncio.run(figures)}", flush=True)
        finally:
            process.terminate()
            process.wait()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\n  peak memory of the server {peak:,.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
