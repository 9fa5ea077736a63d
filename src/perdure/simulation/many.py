"""Many histories, in several operating system processes."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Iterator

from perdure.simulation.plan import make_plan
from perdure.simulation.report import Outcome, simulate

CHUNK = 10


def run_seed(seed: int) -> Outcome:
    return simulate(make_plan(seed))


def run_chunk(seeds: list[int]) -> list[Outcome]:
    return [run_seed(seed) for seed in seeds]


def run_seeds(seeds: range, jobs: int) -> Iterator[Outcome]:
    """The outcomes, in order of the seeds."""
    chunks = [list(seeds[first : first + CHUNK]) for first in range(0, len(seeds), CHUNK)]
    if jobs <= 1:
        yield from itertools.chain.from_iterable(map(run_chunk, chunks))
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from itertools.chain.from_iterable(pool.imap(run_chunk, chunks))
