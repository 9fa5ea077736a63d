"""A process that runs an engine over a folder, for tests that kill it: `python -m tests.engine.runner FOLDER`.

`FOLDER/spec.json` says what to run: workflows, and runs that are started unless they exist. It says `ready` once it
holds the journal, `ended` when all runs have ended, `closed` when it is closed; `held PID` when somebody else holds it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.forking import Forked

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0


# -- the side of the test ----------------------------------------------------------------------------------------------


class Process(Forked):
    said: IO[str]


class Folder:
    """What a test and its processes share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec: dict[str, Any] = {"workflows": {}, "runs": {}, "options": {}}

    @property
    def effects_file(self) -> Path:
        return self.path / "effects"

    def add(self, run_id: str, definition: dict[str, Any], inputs: Any = None) -> None:
        self.spec["workflows"][definition["name"]] = definition
        self.spec["runs"][run_id] = [definition["name"], inputs]

    def effects(self) -> list[tuple[str, str, int, float, int]]:
        """(what, idempotency key, attempt, time, pid), in the order they happened."""
        if not self.effects_file.exists():
            return []
        lines = [line.split() for line in self.effects_file.read_text().splitlines()]
        return [(what, key, int(attempt), float(at), int(pid)) for what, key, attempt, at, pid in lines]

    @contextmanager
    def process(self, **environment: str) -> Iterator[Process]:
        (self.path / "spec.json").write_text(json.dumps(self.spec))
        words = ["-m", "tests.engine.runner", str(self.path)]
        settings = {**os.environ, "PERDURE_TEST_EFFECTS": str(self.effects_file), **environment}
        ours, theirs = os.pipe()
        with open(ours) as said, (self.path / "stderr").open("a") as errors:
            try:
                process = Process(words, cwd=ROOT, env=settings, python=True, stdout=theirs, stderr=errors.fileno())
            finally:
                os.close(theirs)
            process.said = said
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def say(self, process: Process, wanted: str) -> str:
        """Wait for a line of the process that begins so."""
        for line in process.said:
            if line.startswith(wanted):
                return line.strip()
        raise AssertionError(f"it ended with {process.wait()} before it said {wanted}: {self.errors()}")

    def errors(self) -> str:
        return (self.path / "stderr").read_text()[-4000:]

    def wait(self, process: Process, condition: Callable[[], Any], what: str) -> Any:
        """Until the condition holds, or the process has ended (None)."""
        deadline = time.monotonic() + DEADLINE
        pause = asyncio.new_event_loop()
        try:
            while not (found := condition()):
                if process.poll() is not None:
                    return condition() or None
                assert time.monotonic() < deadline, f"{what}: not in {DEADLINE} s; {self.errors()}"
                pause.run_until_complete(asyncio.sleep(0.0005))
        finally:
            pause.close()
        return found


# -- the process -------------------------------------------------------------------------------------------------------


def say(*words: object) -> None:
    print(*words, flush=True)


async def main(folder: Path) -> int:
    from perdure.engine import Engine
    from perdure.model import compile_definition
    from perdure.runtime.coordinator.requests import Request

    spec = json.loads((folder / "spec.json").read_text())
    if limit := os.environ.get("PERDURE_TEST_FILE_LIMIT"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    if word := os.environ.get("PERDURE_TEST_BOMB"):
        _plant_bomb(word)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}", **spec["options"])
    try:
        if not await engine.hold():
            assert engine.holder is not None
            say("held", engine.holder.pid)
            return 3
        say("ready")
        irs = {}
        for name, definition in spec["workflows"].items():
            irs[name] = (await engine.workflows.register(compile_definition(definition)))[0]
        for run_id, (name, inputs) in spec["runs"].items():
            if await engine.journal.find_run(run_id) is None:
                await engine.runs.request(Request(kind="start", run_id=run_id, ir=irs[name].hash, inputs=inputs))
        say("started")
        await until_ended(engine, spec["runs"], stop)
        if spec.get("stay"):
            await stop.wait()
    finally:
        await engine.close(spec.get("grace", 5.0))
        say("closed")
    return 0


def _plant_bomb(word: str) -> None:
    """Whatever has this word in it kills the process when it is looked at, as taking all memory would."""
    from perdure.runtime.coordinator.tasks import renderer

    def armed(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(what: Any, *more: Any) -> Any:
            if word in repr(what):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(what, *more)

        return call

    renderer.render = armed(renderer.render)
    renderer.evaluate = armed(renderer.evaluate)


async def until_ended(engine: Any, runs: dict[str, Any], stop: asyncio.Event) -> None:
    for run_id in runs:
        while (await engine.journal.get_run(run_id)).row.ended_at is None:
            engine.parts.check()
            if stop.is_set():
                return
            await asyncio.sleep(0.005)
    say("ended")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
