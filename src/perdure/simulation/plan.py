"""The choices of a seed before anything runs: workflows, processes, latencies, rates. Data, so that it can be shrunk."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from perdure.simulation import faults, graphs

DIVIDED_FROM = 1_000_000
"""The first seed of histories in which several coordinators share the runs by leases."""
TRIGGERS_FROM = 2_000_000
"""Seeds from here on are those before once more, in a world with a trigger."""
POLLS_FROM = 4_000_000
"""Seeds from here on are the first ones once more, in a world with a trigger that polls."""
ASKS_FROM = 6_000_000
"""Seeds from here on are those below 2,000,000 once more, in a world whose handlers ask."""
SCHEDULES_FROM = 8_000_000
"""Seeds from here on are the first ones once more, in a world with a schedule, or with windows."""
MONEY_FROM = 10_000_000
"""Seeds from here on are those below 2,000,000 once more, in a world whose handlers ask and make calls under a budget."""
TOPICS_FROM = 12_000_000
"""Seeds from here on are the first ones once more, in a world with a trigger that listens."""

WAITS_FROM = 14_000_000
"""Seeds from here on are those from 1,000,000 on once more, in a world whose runs wait for events instead of signals."""

INNER_FROM = 16_000_000
"""Seeds from here on are those below 2,000,000 once more, in a world with a run that has a trigger inside."""

STREAMS_FROM = 18_000_000
"""Seeds from here on are those below 2,000,000 once more, in a world with a run whose nodes read what others yield."""


class Plan(msgspec.Struct, kw_only=True):
    seed: int
    shared: bool
    """Workers are processes of their own, on a transport that outlives coordinators; otherwise one does it all."""
    divided: bool = False
    """Several processes decide at the same time, each for the partitions it has leased; `shared` is then set too."""
    engines: int
    workers: int
    concurrency: int
    keep_idle: int
    runs: int
    workflows: list[dict[str, Any]]
    """The definitions: the first ones are children of those after them, and runs are started of the last."""
    inputs: list[dict[str, Any]]
    rates: dict[str, float]
    fault_seconds: float
    journal_seconds: float
    transport_seconds: float
    handler_seconds: float
    skews: list[float]
    poll_seconds: float
    snapshot_events: int = 1000
    """Events between snapshots of a run."""
    blob_seconds: float = 0.0
    large_share: float = 0.0
    """How often a handler returns, or keeps as a checkpoint, a value too large for an event."""
    long_journal: int = 10_000
    """Events after which an endless run goes on as a new one."""


def make_plan(seed: int, *, size: int = 9) -> Plan:
    if seed >= STREAMS_FROM:
        return msgspec.structs.replace(make_plan(seed - STREAMS_FROM, size=size), seed=seed)
    if seed >= INNER_FROM:
        return msgspec.structs.replace(make_plan(seed - INNER_FROM, size=size), seed=seed)
    if seed >= WAITS_FROM:
        return msgspec.structs.replace(make_plan(DIVIDED_FROM + seed - WAITS_FROM, size=size), seed=seed)
    if seed >= TOPICS_FROM:
        return msgspec.structs.replace(make_plan(seed - TOPICS_FROM, size=size), seed=seed)
    if seed >= MONEY_FROM:
        return msgspec.structs.replace(make_plan(seed - MONEY_FROM, size=size), seed=seed)
    if seed >= SCHEDULES_FROM:
        return msgspec.structs.replace(make_plan(seed - SCHEDULES_FROM, size=size), seed=seed)
    if seed >= ASKS_FROM:
        return msgspec.structs.replace(make_plan(seed - ASKS_FROM, size=size), seed=seed)
    if seed >= POLLS_FROM:
        return msgspec.structs.replace(make_plan(seed - POLLS_FROM, size=size), seed=seed)
    if seed >= TRIGGERS_FROM:
        return msgspec.structs.replace(make_plan(seed - TRIGGERS_FROM, size=size), seed=seed)
    if seed >= DIVIDED_FROM:
        return _divide(make_plan(seed - DIVIDED_FROM, size=size), seed)
    random = Random(f"plan {seed}")
    shared = random.random() < 0.4
    rates = faults.draw_rates(random)
    child = graphs.generate(random, 3, name="child")
    runs = random.choice((1, 1, 2, 3))
    parents = [
        graphs.generate(random, random.choice((3, size, size)), name=f"flow{number}", children=("child",))
        for number in range(random.choice((1, 1, 2)))
    ]
    skewed = random.random() < 0.4
    return Plan(
        seed=seed,
        shared=shared,
        engines=random.choice((1, 1, 2)),
        workers=random.choice((1, 2, 3)) if shared else 0,
        concurrency=random.choice((1, 2, 4, 8)),
        keep_idle=random.choice((0, 1, 1000)),
        runs=runs,
        workflows=[child, *parents],
        inputs=[{"flag": random.random() < 0.5, "list": list(range(random.choice((0, 1, 2, 4))))} for _ in range(runs)],
        rates=rates,
        fault_seconds=random.choice((10.0, 30.0, 120.0)),
        journal_seconds=random.choice((0.0, 0.0, 0.01, 0.2)),
        transport_seconds=random.choice((0.0, 0.01, 0.3)),
        handler_seconds=random.choice((0.0, 0.1, 2.0, 10.0)),
        skews=[round(random.uniform(-30, 30), 3) if skewed else 0.0 for _ in range(8)],
        poll_seconds=random.choice((0.5, 1.0, 3.0)),
        snapshot_events=random.choice((1, 7, 1000)),
        long_journal=random.choice((20, 60)),
        blob_seconds=random.choice((0.0, 0.05, 1.0)),
        large_share=random.choice((0.0, 0.0, 0.1, 0.5)),
    )


def _divide(plan: Plan, seed: int) -> Plan:
    """The plan with several coordinators, whose clocks agree: they use that of their database (`clock.OffsetClock`)."""
    random = Random(f"divided {seed}")
    rates = {name: rate for name, rate in plan.rates.items() if name != "clock_jump"}
    return msgspec.structs.replace(
        plan,
        seed=seed,
        shared=True,
        divided=True,
        engines=random.choice((1, 2, 2, 3)),
        workers=plan.workers or random.choice((1, 2, 3)),
        rates=rates,
        skews=[0.0] * len(plan.skews),
    )
