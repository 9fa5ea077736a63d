"""What is measured, in which unit, and which direction is better."""

from __future__ import annotations

from typing import NamedTuple


class Measure(NamedTuple):
    name: str
    title: str
    unit: str
    higher_is_better: bool = False
    has_ratio: bool = True


MEASURES = (
    Measure("diamonds", "runs of A→(B,C)→D", "runs/s", higher_is_better=True),
    Measure("hop", "chain of 100, one run at a time", "ms a hop"),
    Measure("fan-1000", "1→1,000→1", "s"),
    Measure("fan-10000", "1→10,000→1", "s"),
    Measure("light-p50", "one diamond at light load, p50", "ms"),
    Measure("light-p99", "one diamond at light load, p99", "ms"),
    Measure("cold", "cold start to the end of the first run", "s"),
    Measure("memory", "idle memory, all processes", "MB"),
    Measure("install", "installed, with servers", "MB"),
    Measure("resumed", "`kill -9`: first step after", "s"),
    Measure("recovered", "`kill -9`: all runs ended after", "s"),
    Measure("interrupted", "`kill -9`: runs interrupted", "runs", has_ratio=False),
    Measure("repeated", "`kill -9`: steps done twice", "steps", has_ratio=False),
    Measure("lost", "`kill -9`: runs lost, or not ended in time", "runs", has_ratio=False),
)
BY_NAME = {measure.name: measure for measure in MEASURES}


class Scale(NamedTuple):
    """How long everything may take."""

    rounds: int
    seconds: float
    """Of diamonds, of chains and of light load, in each turn."""
    light_runs: int
    limit_seconds: float
    """What takes longer is given up, and the table says so."""
    kill_runs: int
    patience_seconds: float
    """After a crash: what has not ended by then counts as lost."""


FULL = Scale(rounds=3, seconds=10.0, light_runs=300, limit_seconds=600.0, kill_runs=200, patience_seconds=120.0)
QUICK = Scale(rounds=1, seconds=3.0, light_runs=60, limit_seconds=60.0, kill_runs=60, patience_seconds=60.0)
