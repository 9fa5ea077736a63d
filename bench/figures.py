"""The figures kept in the repository (`figures.json`), and what became slower since.

A figure that ends in `/s` is better when it is higher, any other when it is lower.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure.clock import system

FILE = Path(__file__).parent / "figures.json"
TOLERANCE = 0.25
"""How much worse a figure may be and still count as the same: two runs on a machine that others use differ by so much."""

ALIKE = 1.5
"""How much the raw limits of the machine may differ."""

Figures = Mapping[str, Mapping[str, float]]


def describe_machine() -> dict[str, Any]:
    """Where and when figures are measured."""
    command = ["git", "-C", str(FILE.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    machine = f"{platform.system()} {platform.machine()}, {len(models)} × {models[0] if models else 'processor'}"
    day = datetime.fromtimestamp(system.now(), UTC).date().isoformat()
    return {"commit": commit, "machine": machine, "python": platform.python_version(), "date": day}


def read() -> dict[str, Any] | None:
    """What was kept, if anything was."""
    if not FILE.exists():
        return None
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def keep(figures: Figures) -> None:
    """Keep these figures; those of scenarios that were not measured now stay."""
    before = read() or {}
    kept = {**before.get("figures", {}), **{name: round_all(values) for name, values in figures.items()}}
    FILE.write_text(json.dumps({**describe_machine(), "figures": kept}, indent=2, ensure_ascii=False) + "\n")


def round_all(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def is_as_fast(kept: Figures, now: Figures) -> bool:
    """Whether the machine gives by itself about what it gave then: otherwise only processor time and memory compare."""
    pairs = [(kept.get("raw", {}).get(name), value) for name, value in now.get("raw", {}).items()]
    return all(before is None or 1 / ALIKE < value / before < ALIKE for before, value in pairs)


def find_slower(kept: Figures, now: Figures) -> Iterator[str]:
    """What became worse by more than the tolerance, one sentence each."""
    everything = is_as_fast(kept, now)
    for scenario, values in now.items():
        for name, value in values.items():
            before = kept.get(scenario, {}).get(name)
            if before is None or before <= 0 or value <= 0 or scenario == "raw":
                continue
            if not (everything or name.startswith("processor") or name.endswith("MB")):
                continue
            change = before / value if name.endswith("/s") else value / before
            if change > 1 + TOLERANCE:
                yield f"{scenario}: {value:,.4g} {name}, was {before:,.4g} ({change:.2f} times as much)"
