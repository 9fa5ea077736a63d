"""`make stress`: the whole suite in random order beside processes that keep the machine busy, several times.

    python -m tests.stress [--rounds 3] [--busy 2] [--seed X] [arguments of pytest]

A test that needs luck fails here sooner or later. The order of a round is printed and can be had again with --seed. The load is
of use too: fresh simulated histories of every kind (`load.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator

from tests.load import KINDS, kind_of


class Load:
    """A process that simulates, and what it has said."""

    def __init__(self, number: int, loads: int) -> None:
        self.chunks: dict[int, int] = {}
        """Histories that ended, by the seed their chunk began with."""
        self.broken: list[int] = []
        self._start = 0
        command = [sys.executable, "-m", "tests.load", str(number), str(loads), str(os.getpid())]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.hear(line.rstrip("\n"))

    def hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "from":
            self._start = int(rest)
            self.chunks[self._start] = 0
            _say(f"histories {kind_of(self._start)} from seed {rest} on")
        elif word == "done":
            self.chunks[self._start] += 1
        elif word == "broken":
            seed, _, message = rest.partition(" ")
            self.broken.append(int(seed))
            _say(f"a history broke a promise: {message}; again with: make sim SEED={seed}")

    def end(self) -> bool:
        """False when it was over already: it keeps on as long as nobody ends it."""
        lived = self._process.poll() is None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        if not lived:
            _say("a load ended by itself; see above")
        return lived


@contextlib.contextmanager
def busy(number: int) -> Iterator[list[str]]:
    """Gives what was wrong with the load, when it has ended."""
    wrong: list[str] = []
    loads = [Load(one, number) for one in range(number)]
    try:
        yield wrong
    finally:
        for load in loads:
            if not load.end():
                wrong.append("a load")
            wrong += [f"make sim SEED={seed}" for seed in load.broken]
        _tell_histories({start: count for load in loads for start, count in load.chunks.items()})


def _tell_histories(chunks: dict[int, int]) -> None:
    for kind, seeds in KINDS.items():
        ran = {start: count for start, count in chunks.items() if start in seeds}
        if ran:
            said = ", ".join(f"{count} from {start}" for start, count in ran.items())
            _say(f"{sum(ran.values())} histories {kind}: {said}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", help="the order of a round that was printed; one round")
    options, more = parser.parse_known_args(arguments)
    failed = []
    with busy(options.busy) as wrong:
        for number in range(1 if options.seed else options.rounds):
            seed = options.seed or secrets.token_hex(4)
            _say(f"round {number + 1}, again with: make stress SEED={seed}")
            command = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs), "--dist", "loadgroup"]
            command += ["--max-worker-restart=0", "--shuffle", seed, *more]
            if subprocess.run(command, check=False).returncode:
                failed.append(f"make stress SEED={seed}")
    failed += wrong
    _say(f"failed: {', '.join(failed)}" if failed else "every round passed, and no history broke a promise")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"stress: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
