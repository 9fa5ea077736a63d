"""`make stress`: the whole suite in random order beside processes that keep the machine busy, several times.

    python -m tests.stress [--rounds 3] [--busy 2] [--seed X] [arguments of pytest]

A test that needs luck fails here sooner or later. The order of a round is printed and can be had again with --seed.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import subprocess
import sys
from collections.abc import Iterator

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
"""It ends with whoever started it, even if that is killed."""


@contextlib.contextmanager
def busy(number: int) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", help="the order of a round that was printed; one round")
    options, more = parser.parse_known_args(arguments)
    failed = []
    with busy(options.busy):
        for number in range(1 if options.seed else options.rounds):
            seed = options.seed or secrets.token_hex(4)
            sys.stdout.write(f"stress: round {number + 1}, again with: make stress SEED={seed}\n")
            sys.stdout.flush()
            command = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs), "--dist", "loadgroup"]
            command += ["--max-worker-restart=0", "--shuffle", seed, *more]
            if subprocess.run(command, check=False).returncode:
                failed.append(seed)
    sys.stdout.write(f"stress: failed with {', '.join(failed)}\n" if failed else "stress: every round passed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
