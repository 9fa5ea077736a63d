"""One turn of one subject: every measure, on data of its own, with nothing else of ours at work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.measures import Scale
from bench.peers.process import Failed, Process, TooSlow, memory_mb
from bench.peers.subjects import Subject

Figures = dict[str, float | str]
"""By measure: a figure, or why there is none."""
Say = Callable[[str, float | str], None]
PAUSE_SECONDS = "0.02"
KILLS = 5
"""How often an engine with one run under way may be killed between two, which says nothing of how it goes on."""


class Turn:
    def __init__(
        self,
        subject: Subject,
        folder: Path,
        environment: dict[str, str],
        server_pids: Callable[[], list[int]],
        scale: Scale,
        say: Say,
    ) -> None:
        self.subject, self.folder, self.environment = subject, folder, environment
        self.server_pids, self.scale, self._say = server_pids, scale, say
        self.figures: Figures = {}
        self._orders = 0

    def note(self, measure: str, value: float | str) -> None:
        self.figures[measure] = value
        self._say(measure, value)

    @contextmanager
    def running(self, **environment: str) -> Iterator[Process]:
        process = Process(self.subject, self.folder, self.environment | environment)
        try:
            process.ready()
            yield process
            process.close()
        finally:
            process.kill()

    def prefix(self) -> str:
        """Ids are new in each process: a run is never taken for an earlier one."""
        self._orders += 1
        return f"p{self._orders:03}"

    def one(self, process: Process, shape: str, size: int = 0, *, limit: float = 120.0) -> float:
        """Seconds of one run."""
        order = {"do": "each", "shape": shape, "size": size, "prefix": self.prefix(), "seconds": 0}
        answer = process.ask(limit, **order, least=1, most=1, pause=0)
        seconds: float = answer["times"][0]
        return seconds

    def take(self, *, with_long: bool) -> None:
        """`with_long`: also what takes long, or says the same each time. What is given up ends the turn, since its runs would
        be resumed beside whatever came after: so the fans are last."""
        with self.running() as process:  # makes its tables, its files
            self.one(process, "diamond")
        self.cold_and_idle()
        with self.running() as process:
            self.one(process, "diamond")
            self.throughput(process)
            self.hops(process)
            self.light(process)
        if with_long:
            self.killed()
        with self.running() as process:
            self.one(process, "diamond")
            self.fan(process, 1000)
            if with_long:
                self.fan(process, 10_000)

    def cold_and_idle(self) -> None:
        with self.running() as process:
            self.one(process, "diamond")
            self.note("cold", time.time() - process.launched)
            time.sleep(1)  # caches settle, pools close
            self.note("memory", memory_mb([*process.pids(), *self.server_pids()]))

    def throughput(self, process: Process) -> None:
        limit = self.scale.limit_seconds + self.scale.seconds
        order = {"do": "many", "shape": "diamond", "prefix": self.prefix(), "seconds": self.scale.seconds}
        answer = self.ask(process, ("diamonds",), limit, order)
        self.note("diamonds", answer["runs"] / answer["seconds"])

    def hops(self, process: Process) -> None:
        self.one(process, "chain", 100)
        order = {"do": "each", "shape": "chain", "size": 100, "prefix": self.prefix(), "seconds": self.scale.seconds}
        order |= {"least": 1, "most": 1000, "pause": 0}
        answer = self.ask(process, ("hop",), self.scale.limit_seconds, order)
        self.note("hop", statistics.median(answer["times"]) / 100 * 1e3)

    def light(self, process: Process) -> None:
        order = {"do": "each", "shape": "diamond", "prefix": self.prefix(), "seconds": self.scale.seconds * 3}
        order |= {"least": 10, "most": self.scale.light_runs, "pause": 0.02}
        answer = self.ask(process, ("light-p50", "light-p99"), self.scale.limit_seconds, order)
        times = sorted(answer["times"])
        self.note("light-p50", times[len(times) // 2] * 1e3)
        self.note("light-p99", times[min(len(times) - 1, int(len(times) * 0.99))] * 1e3)

    def fan(self, process: Process, width: int) -> None:
        order = {"do": "each", "shape": "fan", "size": width, "prefix": self.prefix(), "seconds": 0}
        order |= {"least": 1, "most": 1, "pause": 0}
        answer = self.ask(process, (f"fan-{width}",), self.scale.limit_seconds, order)
        self.note(f"fan-{width}", answer["times"][0])

    def ask(self, process: Process, measures: tuple[str, ...], limit: float, order: dict[str, Any]) -> dict[str, Any]:
        try:
            return process.ask(limit, **order)
        except TooSlow:
            for measure in measures:
                self.note(measure, f"> {limit:.0f} s")
            raise

    def killed(self) -> None:
        """Everything but PostgreSQL and Valkey is killed when two fifths of the steps are done; then it starts again."""
        for number in range(KILLS):
            record = self.folder / f"record-{number}"
            recorded = {"PEERS_RECORD": str(record), "PEERS_PAUSE_SECONDS": PAUSE_SECONDS}
            before = self._kill(record, recorded, f"k{number}")
            if before.interrupted:
                break
        else:
            raise Failed(f"it was killed {KILLS} times, and no run was under way")
        process = Process(self.subject, self.folder, self.environment | recorded)
        try:
            process.ready()
            process.order(do="resume", shape="diamond", runs=sorted(before.started))
            try:
                process.answer(self.scale.patience_seconds)
                process.close()
            except TooSlow:
                pass
        finally:
            process.kill()
        for measure, value in before.compare(
            read_record(record), process.launched, self.scale.patience_seconds
        ).items():
            self.note(measure, value)

    def _kill(self, record: Path, recorded: dict[str, str], prefix: str) -> Crash:
        runs = self.scale.kill_runs
        process = Process(self.subject, self.folder, self.environment | recorded)
        try:
            process.ready()
            process.order(do="together", shape="diamond", prefix=prefix, runs=runs)
            end = time.monotonic() + self.scale.limit_seconds
            while len(read_record(record)) < runs * 4 * 2 // 5 + 2:  # no multiple of four: in the middle of one
                if time.monotonic() > end:
                    raise Failed("it did too few steps to be killed in the middle")
                time.sleep(0.002)
        finally:
            process.kill()
        return Crash(read_record(record))


Step = tuple[str, str, float]
"""Run, node, and when."""


def read_record(record: Path) -> list[Step]:
    if not record.exists():
        return []
    lines = record.read_text().split("\n")[:-1]
    return [(run, node, float(when)) for run, node, when in map(str.split, lines)]


class Crash:
    """What was done before, and what must be done after."""

    def __init__(self, steps: list[Step]) -> None:
        self.started = {run for run, _, _ in steps}
        self.interrupted = self.started - {run for run, node, _ in steps if node == "d"}
        self._count = len(steps)

    def compare(self, steps: list[Step], restarted: float, patience: float) -> Figures:
        after = steps[self._count :]
        ends = {run: when for run, node, when in steps if node == "d"}
        lost = self.started - ends.keys()
        figures: Figures = {
            "resumed": min(when for _, _, when in after) - restarted if after else f"> {patience:.0f} s",
            "recovered": max((ends[run] for run in self.interrupted), default=restarted) - restarted
            if not lost
            else f"> {patience:.0f} s",
            "interrupted": float(len(self.interrupted)),
            "repeated": float(len(steps) - len({(run, node) for run, node, _ in steps})),
            "lost": float(len(lost)),
        }
        return figures
