"""The part of a program that is the same for every subject: it obeys the driver, one line of JSON at a time.

Standard library only: it runs in the environment of each peer. A subject says how its runs are started, awaited and, after a crash,
resumed; here they are counted and timed, by one clock and in one way for all.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

TOGETHER = 20
"""At most so many runs are under way when everything is killed: how many steps are repeated depends on it."""
LAUNCHER = Path(__file__).parents[2] / "src" / "perdure" / "private_servers" / "launcher.py"


class Shape(NamedTuple):
    """A graph: `chain` of so many nodes, `diamond` (A→(B,C)→D), or `fan` (1→so many→1)."""

    kind: str
    size: int = 0


class Subject(Protocol):
    at_once: int
    """How many runs it is given at a time when throughput is measured: what suits it best here."""

    async def open(self, folder: Path) -> None:
        """Start all that it consists of, on the data in this folder."""

    async def prepare(self, shape: Shape) -> None:
        """Build and register the workflow of this shape. It is not timed."""

    async def run(self, shape: Shape, run: str) -> None:
        """Start a run of this id and wait for its end."""

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        """After a crash: do what the documentation says must be done, and wait until these runs have ended."""

    async def close(self) -> None: ...


def spawn(*command: str, log: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A server of the subject: a child that does not outlive this process, in the same process group."""
    launched = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getuid()), str(os.getgid()), *command]
    with log.open("ab") as file:
        return subprocess.Popen(
            launched, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ, **(environment or {})}
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a server to end; make it, when it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


class Harness:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._made = 0

    def _names(self, prefix: str, count: int) -> Iterator[str]:
        for _ in range(count):
            self._made += 1
            yield f"{prefix}-{self._made:06}"

    async def do(self, order: dict[str, Any]) -> dict[str, Any]:
        shape = Shape(order["shape"], order.get("size", 0))
        await self.subject.prepare(shape)
        match order["do"]:
            case "many":
                return await self.many(shape, order["prefix"], order["seconds"])
            case "each":
                return await self.each(shape, order)
            case "together":
                await self.together(shape, self._names(order["prefix"], order["runs"]))
                return {}
            case "resume":
                await self.subject.resume(shape, order["runs"])
                return {}
        raise ValueError(order)

    async def many(self, shape: Shape, prefix: str, seconds: float) -> dict[str, Any]:
        """As many runs as end within the time, `at_once` of them under way; the last ones are waited for and counted."""
        names = self._names(prefix, sys.maxsize)
        ended = 0
        start = time.perf_counter()

        async def lane() -> None:
            nonlocal ended
            while time.perf_counter() - start < seconds:
                await self.subject.run(shape, next(names))
                ended += 1

        await asyncio.gather(*(lane() for _ in range(self.subject.at_once)))
        return {"runs": ended, "seconds": time.perf_counter() - start}

    async def together(self, shape: Shape, names: Iterator[str]) -> None:
        async def lane() -> None:
            for name in names:
                await self.subject.run(shape, name)

        await asyncio.gather(*(lane() for _ in range(min(self.subject.at_once, TOGETHER))))

    async def each(self, shape: Shape, order: dict[str, Any]) -> dict[str, Any]:
        """Runs one after the other, at least `least` and at most `most`, until the time is over; seconds of each."""
        times: list[float] = []
        begin = time.perf_counter()
        for name in self._names(order["prefix"], order["most"]):
            start = time.perf_counter()
            await self.subject.run(shape, name)
            times.append(time.perf_counter() - start)
            if len(times) >= order["least"] and time.perf_counter() - begin > order["seconds"]:
                break
            await asyncio.sleep(order["pause"])
        return {"times": times}


async def _obey(subject: Subject, folder: Path, answers: int) -> None:
    def answer(value: dict[str, Any]) -> None:
        os.write(answers, json.dumps(value).encode() + b"\n")

    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(64))  # for subjects whose calls wait
    await subject.open(folder)
    harness = Harness(subject)
    answer({"ready": True})
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        if order["do"] == "close":
            break
        answer(await harness.do(order))
    await subject.close()
    answer({"closed": True})


def main(subject: Subject) -> None:
    """`python -m bench.peers.NAME FOLDER`. What libraries print goes to the log, not among the answers."""
    answers = os.dup(1)
    os.dup2(2, 1)
    asyncio.run(_obey(subject, Path(sys.argv[1]), answers))
    os._exit(0)  # all is closed; threads that a library left behind are not waited for
