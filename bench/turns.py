"""`make bench ARGS="turns OTHER"`: this tree beside another checkout of Perdure, by turns, on a machine that other work shares.

Each tree has one process with an engine on a database of its own. They take turns, a few hundred nodes at a time, so that whatever
else the machine does hits both alike, and what counts is processor time, of all threads. The table has the least of each and the
middle of the ratios, pair by pair. Two runs of one tree differ by up to 8 %: a change of less than that needs more turns.

Both run in this environment, and so must need the same packages. `OTHER` may be any commit since d6becf2: what older ones spell `_open` is
`open_engine` here, and so on.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

AT_ONCE = 500
TURNS = 10
KINDS = {"diamond": ("µs a node of A→(B,C)→D", 1), "chain": ("µs a hop of a chain of 100", 3)}
"""What is measured, and how often in each turn."""


def main(arguments: list[str]) -> int:
    if not arguments or not (Path(arguments[0]) / "bench" / "scenarios.py").is_file():
        print("say which tree to compare with: the folder of another checkout", file=sys.stderr)
        return 2
    trees = [Path(arguments[0]).resolve(), Path.cwd()]
    turns = int(arguments[1]) if len(arguments) > 1 else TURNS
    others = [_start(tree) for tree in trees]
    found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for turn in range(turns):
        for kind in [kind for kind, (_, times) in KINDS.items() for _ in range(times)]:
            order = others if turn % 2 else others[::-1]
            took = {id(one): _ask(one, kind) for one in order}
            found[kind].append([took[id(one)] for one in others])
    for one in others:
        one.communicate()
    print(f"{'processor time, least of all turns':40} {'other':>8} {'here':>8}   here/other, median of {turns} turns")
    for kind, pairs in found.items():
        ratio = statistics.median(here / other for other, here in pairs)
        print(f"{KINDS[kind][0]:40} {min(a for a, _ in pairs):8.1f} {min(b for _, b in pairs):8.1f}   {ratio:.2f}")
    return 0


def _start(tree: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(tree), str(tree / "src")])
    command = [sys.executable, str(Path(__file__).resolve())]
    return subprocess.Popen(
        command,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(other: subprocess.Popen[str], kind: str) -> float:
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write(f"{kind}\n")
    other.stdin.flush()
    return float(json.loads(other.stdout.readline()))


def find_function(module: object, name: str) -> Any:
    """A function of a tree's `bench/scenarios.py`, as this commit spells it or as d6becf2 did."""
    spellings = ("open_engine" if name == "open" else name, f"_{name}")
    return next(found for one in spellings if (found := getattr(module, one, None)) is not None)


async def take_turns() -> None:
    """One tree: measure what each line of the input names, and answer with processor time in µs."""
    from bench import scenarios  # of the tree that this process is about
    from bench.work import task

    with tempfile.TemporaryDirectory(prefix="perdure-turns-") as folder:
        open_engine, register, run_all = (find_function(scenarios, name) for name in ("open", "register", "run_all"))
        engine = await open_engine(Path(folder))
        diamond = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]
        chain = [task("n000")] + [task(f"n{i:03}", f"n{i - 1:03}") for i in range(1, 100)]
        work = {
            "diamond": (await register(engine, "diamond", diamond), AT_ONCE, 4),
            "chain": (await register(engine, "chain", chain), 1, 100),
        }
        for kind, (ir, _, _) in work.items():  # what is made once is not counted
            await run_all(engine, ir, 1, f"first-{kind}-")
        for number, line in enumerate(sys.stdin):  # it waits without taking processor time from the other
            ir, count, nodes = work[line.strip()]
            gc.collect()
            before = time.process_time()
            await run_all(engine, ir, count, f"{number}-")
            print(json.dumps((time.process_time() - before) / count / nodes * 1e6), flush=True)
        await engine.close()


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: `bench` is that of the tree
    asyncio.run(take_turns())
