"""`make bench`: runs every scenario in a process of its own and prints a table. `make bench ARGS=chain` runs one.

With `JSON=1` it prints JSON and nothing else; with `KEEP=1` the figures are kept in `figures.json`. Otherwise it says
what became slower since those that are kept. `make bench ARGS=scaling` measures costs against sizes (`bench.scaling`).

`make bench ARGS="turns OTHER"` compares with another checkout by turns, on a machine that is not quiet (`bench.turns`).

`make bench ARGS=streams` measures chunks through one edge, and the stores alone (`bench.streams`).
`make bench ARGS=triggers` measures webhooks, schedules and idle triggers (`bench.triggers`).
`make bench ARGS=agents` measures agents beside their models, and `ARGS="agents peers"` LangGraph's, too (`bench.agents`).

`make bench ARGS=distributed` measures several processes on PostgreSQL and Valkey instead; see `bench.distributed`.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import figures, raw

TITLES = {
    "diamonds": "2,000 runs of A→(B,C)→D",
    "chain": "chain of 100, one run at a time",
    "fan-10000": "1→10,000→1",
    "fan-100000": "1→99,998→1",
    "waiting": "10,000 runs waiting for a person",
}


def show(values: dict[str, float]) -> str:
    parts = []
    for name, value in values.items():
        text = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
        parts.append(f"{text} {name}")
    return "   ".join(parts)


def main(arguments: list[str]) -> int:
    options = {"--json", "--keep"} & set(arguments)
    wanted = [name for name in arguments if name not in options]
    as_json = "--json" in options
    if wanted[:1] == ["distributed"]:
        from bench import distributed

        return distributed.main(wanted[1:])
    if wanted[:1] == ["http"]:
        from bench import http

        return http.main(wanted[1:])
    if wanted[:1] == ["streams"]:
        from bench import streams

        return streams.main(wanted[1:])
    if wanted[:1] == ["triggers"]:
        from bench import triggers

        return triggers.main(wanted[1:])
    if wanted[:1] == ["agents"]:
        from bench import agents

        return agents.main(wanted[1:])
    if wanted[:1] == ["turns"]:
        from bench import turns

        return turns.main(wanted[1:])
    if wanted[:1] == ["scaling"]:
        from bench import scaling

        return scaling.main(wanted[1:], as_json=as_json)
    if unknown := [name for name in wanted if name not in TITLES]:
        there = ", ".join(TITLES)
        print(
            f"unknown: {', '.join(unknown)}; there are {there}, scaling, turns, distributed, http, triggers, streams, agents",
            file=sys.stderr,
        )
        return 2
    measured = measure(wanted or list(TITLES), silent=as_json)
    if measured is None:
        return 1
    kept = figures.read()
    if as_json:
        slower = [] if kept is None else list(figures.find_slower(kept["figures"], measured))
        rounded = {name: figures.round_all(values) for name, values in measured.items()}
        print(json.dumps({**figures.describe_machine(), "figures": rounded, "slower": slower}, ensure_ascii=False))
    elif kept is not None:
        compare(kept, measured)
    if "--keep" in options:
        figures.keep(measured)
    return 0


def measure(wanted: list[str], *, silent: bool) -> dict[str, dict[str, float]] | None:
    """The figures of each scenario; None when one failed."""
    measured: dict[str, dict[str, float]] = {}
    if not silent:
        print(f"{platform.machine()}, Python {platform.python_version()}, embedded engine, SQLite synchronous=FULL\n")
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        commits, median = raw.commits_per_second(Path(folder))
        rows, calls = raw.rows_per_second(Path(folder)), raw.calls_per_second()
    measured["raw"] = {"µs a commit": median * 1e6, "events/s": rows, "coroutines/s": calls}
    if not silent:
        print(f"  raw: {commits:,.0f} commits/s of 3 events one by one ({median * 1e6:,.0f} µs each, median)")
        print(f"  raw: {rows:,.0f} events/s in commits of 3,000")
        print(f"  raw: {calls:,.0f} coroutines/s on a bare event loop\n")
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
            start = time.perf_counter()
            command = [sys.executable, "-m", "bench.scenarios", name, folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"  {TITLES[name]}: failed with exit {done.returncode}", file=sys.stderr)
                return None
            measured[name] = json.loads(done.stdout)
            took = time.perf_counter() - start
            if not silent:
                print(f"  {TITLES[name]:34} {show(measured[name])}   ({took:.0f} s in all)", flush=True)
    return measured


def compare(kept: dict[str, Any], measured: dict[str, dict[str, float]]) -> None:
    """Say what became slower since the figures that the repository keeps."""
    print(f"\nkept: {kept['commit']}, {kept['date']}, {kept['machine']}, Python {kept['python']}")
    if (here := figures.describe_machine()["machine"]) != kept["machine"]:
        print(f"this machine is another one, so the comparison says little: {here}")
    if not figures.is_as_fast(kept["figures"], measured):
        print("the raw limits differ from those of then, so only processor time and memory are compared")
    slower = list(figures.find_slower(kept["figures"], measured))
    for line in slower:
        print(f"  slower: {line}")
    if not slower:
        print(f"  nothing became slower by more than {figures.TOLERANCE:.0%}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
