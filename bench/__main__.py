"""`make bench`: runs every scenario in a process of its own and prints a table. `make bench ARGS=chain` runs one.

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

from bench import raw

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


def main() -> int:
    if sys.argv[1:2] == ["distributed"]:
        from bench import distributed

        return distributed.main(sys.argv[2:])
    if sys.argv[1:2] == ["http"]:
        from bench import http

        return http.main(sys.argv[2:])
    wanted = sys.argv[1:] or list(TITLES)
    unknown = [name for name in wanted if name not in TITLES]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(TITLES)}, distributed, http", file=sys.stderr)
        return 2
    print(f"{platform.machine()}, Python {platform.python_version()}, embedded engine, SQLite synchronous=FULL\n")
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        commits, median = raw.commits_per_second(Path(folder))
        print(f"  raw: {commits:,.0f} commits/s of 3 events one by one ({median * 1e6:,.0f} µs each, median)")
        print(f"  raw: {raw.rows_per_second(Path(folder)):,.0f} events/s in commits of 3,000")
        print(f"  raw: {raw.calls_per_second():,.0f} coroutines/s on a bare event loop\n")
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
            start = time.perf_counter()
            command = [sys.executable, "-m", "bench.scenarios", name, folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"  {TITLES[name]}: failed with exit {done.returncode}")
                return 1
            took = time.perf_counter() - start
            print(f"  {TITLES[name]:34} {show(json.loads(done.stdout))}   ({took:.0f} s in all)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
