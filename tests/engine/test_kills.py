"""`kill -9` at any moment: the next start goes on by itself, no completed node runs again, no run is stuck."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from typing import Any

import pytest

from tests.engine.helpers import check, opened, task, workflow
from tests.engine.runner import Folder

pytestmark = pytest.mark.slow

KILLS = 10
WIDTH = 20
PER_RUN = 1 + WIDTH + 1 + 3 + 1


def wide_join_loop_and_wait() -> dict[str, Any]:
    more = {"max_crashes": 1000}
    wide = [f"n{number}" for number in range(WIDTH)]
    return workflow(
        task("begin", "slowly", **more),
        *[task(name, "slowly", ["begin"], **more) for name in wide],
        task("join", "slowly", wide, **more),
        task("again", "slowly", ["join"], loop={"condition": "!output.done", "max_iterations": 5}, **more),
        {"id": "pause", "type": "wait", "config": {"seconds": 0.05}, "dependencies": ["again"]},
        task("end", "slowly", ["pause"], **more),
    )


@pytest.mark.parametrize("seed", range(3))
def test_ten_kills_at_random_moments_lose_nothing_and_repeat_nothing_that_had_completed(tmp_path, seed):
    rng = random.Random(seed)
    folder = Folder(tmp_path)
    folder.spec["options"] = {"concurrency": 5}
    definition = wide_join_loop_and_wait()
    for number in range(3):
        folder.add(f"r{number}", definition)
    kills = 0
    while True:
        with folder.process() as process:
            if kills == KILLS:
                assert process.wait(30) == 0, folder.errors()
                break
            _kill_somewhere(folder, process, rng, KILLS - kills)
            if process.wait(30) == -signal.SIGKILL:
                kills += 1
            else:
                assert process.returncode == 0, folder.errors()
                folder.add(f"r{len(folder.spec['runs'])}", definition)  # all done too early: something new to kill
    asyncio.run(_check(folder))


def _kill_somewhere(folder: Folder, process: Any, rng: random.Random, left: int) -> None:
    """After so many more effects and a moment: while it starts, in the middle of a batch, in a wait, at the end."""
    done = {key for _, key, *_ in folder.effects()}
    missing = PER_RUN * len(folder.spec["runs"]) - len(done)
    wanted = len(folder.effects()) + rng.randint(0, max(missing // left, 1))
    if rng.random() < 0.8:
        folder.say(process, "ready")
    folder.wait(process, lambda: len(folder.effects()) >= wanted, "effects")
    # A moment, not a wait: where in the engine's work the kill comes is what the seed decides.
    looks = iter(range(rng.choice((0, 0, 1, 2, 5, 10))))
    folder.wait(process, lambda: next(looks, None) is None, "a moment")
    process.kill()


async def _check(folder: Folder) -> None:
    engine = await opened(folder.path)
    try:
        effects = folder.effects()
        keys = Counter(key for _, key, *_ in effects)
        assert len(keys) == PER_RUN * len(folder.spec["runs"]), "an effect is missing, or has two keys"
        for run_id in folder.spec["runs"]:
            found = await check(engine.journal, run_id)
            assert found[-1].type == "run.completed"
            last = {}
            for _, key, _, at, _ in effects:
                if key.startswith(f"{run_id}/"):
                    last[key] = max(at, last.get(key, 0.0))
            completed = {
                _place(event.node, event.scope): event.at
                for event in found
                if event.type == "node.completed" and event.node != "pause"
            }
            assert len(completed) == PER_RUN
            for key, at in last.items():
                place = key.removeprefix(f"{run_id}/").removesuffix("/do")
                assert at <= completed[place], f"{key} ran again after it had completed"
        assert await engine.journal.list_active_runs() == []
        assert await engine.journal.next_timer() is None
        assert await engine.hold(), "somebody still holds the journal"
        assert await engine.journal.list_active_runs() == []
    finally:
        await engine.close()


def _place(node: str, scope: tuple[int, ...]) -> str:
    return node + (f"[{'.'.join(map(str, scope))}]" if scope else "")
