"""The report of a history: a result small enough to send between processes, sums over many, and a readable trace."""

from __future__ import annotations

import gc
from collections import Counter

import msgspec

from perdure.kernel.events import TYPES
from perdure.kernel.lifecycle import RunState
from perdure.simulation import faults
from perdure.simulation.plan import Plan
from perdure.simulation.rules import EVIDENCE
from perdure.simulation.world import World
from perdure.simulation.worlds.stream_world import make_world

TRACE_LINES = 120


class Outcome(msgspec.Struct, kw_only=True):
    seed: int
    digest: str
    rule: str = ""
    """The rule that was broken; empty when none was."""
    message: str = ""
    steps: int = 0
    seconds: float = 0.0
    """Virtual time that passed."""
    runs: int = 0
    hit: dict[str, int] = {}
    events: dict[str, int] = {}
    transitions: dict[str, int] = {}
    rules: dict[int, int] = {}
    cancelled: dict[str, int] = {}


def simulate(plan: Plan) -> Outcome:
    """One history, and nothing of it is left in memory.

    A history is made of reference cycles, and none is collected while it runs. Afterwards all of it is young, so only
    the young generation is collected, and not whatever else this process holds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return outcome_of(make_world(plan).run())
    finally:
        gc.collect(0)
        if collecting:
            gc.enable()


def outcome_of(world: World) -> Outcome:
    failure = world.failures[0] if world.failures else None
    return Outcome(
        seed=world.plan.seed,
        digest=world.digest(),
        rule="" if failure is None else failure.rule,
        message="" if failure is None else str(failure),
        steps=world.loop.steps,
        seconds=world.loop.time(),
        runs=len(world.store.runs),
        hit=dict(world.chaos.hit),
        events=dict(world.checks.event_types),
        transitions={f"{before or 'new'} -> {after}": n for (before, after), n in world.checks.transitions.items()},
        rules=dict(world.checks.rules.hit),
        cancelled=dict(world.cancelled),
    )


class Summary:
    """Sums over histories."""

    def __init__(self) -> None:
        self.count = self.runs = self.steps = 0
        self.virtual_seconds = 0.0
        self.failures: list[Outcome] = []
        self.hit: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.transitions: Counter[str] = Counter()
        self.rules: Counter[int] = Counter()
        self.cancelled: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        self.count += 1
        self.runs += outcome.runs
        self.steps += outcome.steps
        self.virtual_seconds += outcome.seconds
        self.hit.update(outcome.hit)
        self.events.update(outcome.events)
        self.transitions.update(outcome.transitions)
        self.rules.update(outcome.rules)
        self.cancelled.update(outcome.cancelled)
        if outcome.rule:
            self.failures.append(outcome)

    def missed(self) -> dict[str, list[str]]:
        """What never happened in all these histories."""
        states = {str(state.value) for state in RunState}
        reached = {name.rpartition(" ")[2] for name in self.transitions}
        return {
            "faults and requests": [name for name in faults.ALL if not self.hit[name]],
            "event types": [name for name in sorted(TYPES) if not self.events[name]],
            "run states": sorted(states - reached),
            "rules": [f"{rule} ({what})" for rule, what in EVIDENCE.items() if not self.rules[rule]],
        }

    def lines(self) -> list[str]:
        days = self.virtual_seconds / 86400
        lines = [f"{self.count} histories, {self.runs} runs, {self.steps} steps, {days:.1f} days of virtual time"]
        lines.append("faults and requests: " + _counts(self.hit))
        lines.append("events: " + _counts(self.events))
        lines.append("run transitions: " + _counts(self.transitions))
        lines.append("rules: " + ", ".join(f"{rule}: {self.rules[rule]}" for rule in EVIDENCE if self.rules[rule]))
        lines.append("tasks cancelled: " + _counts(self.cancelled))
        lines += [f"never hit, {kind}: {', '.join(names)}" for kind, names in self.missed().items() if names]
        if not self.failures:
            lines.append("no promise was broken")
        return lines


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counter.most_common()) or "none"


def trace_lines(world: World, limit: int | None = TRACE_LINES) -> list[str]:
    """The trace of a history, line by line; only its end when it is long."""
    lines = [f"{at:12.3f}  {kind:8} {text}" for at, kind, text in world.lines or ()]
    if limit is not None and len(lines) > limit:
        return [f"… {len(lines) - limit} lines before (all of them with --trace)", *lines[-limit:]]
    return lines
