"""Figures of all turns as tables: medians, and ratios to the best peer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from bench.peers.measures import MEASURES, Measure
from bench.peers.subjects import PEERS, SUBJECTS

NOTHING = "–"
Taken = Mapping[str, Mapping[str, Sequence[float | str]]]
"""By subject and measure: what each turn gave."""


def settle(values: Sequence[float | str]) -> float | str:
    """The median of the turns; a word, when a turn gave no figure."""
    words = [value for value in values if isinstance(value, str)]
    if words or not values:
        return words[0] if words else NOTHING
    return statistics.median([value for value in values if not isinstance(value, str)])


def settle_all(taken: Taken) -> dict[str, dict[str, float | str]]:
    return {
        subject.name: {measure.name: settle(taken.get(subject.name, {}).get(measure.name, [])) for measure in MEASURES}
        for subject in SUBJECTS
    }


def find_best_peer(figures: Mapping[str, Mapping[str, float | str]], measure: Measure) -> tuple[str, float] | None:
    """Which peer, and its figure. Who gave no figure cannot be the best."""
    found = [(value, peer.name) for peer in PEERS if isinstance(value := figures[peer.name][measure.name], float | int)]
    if not found or not measure.has_ratio:
        return None
    value, name = max(found) if measure.higher_is_better else min(found)
    return name, value


def ratio(value: float | str, best: float, measure: Measure) -> float | None:
    """How many times as good as the best peer; below 1 is worse."""
    if isinstance(value, str) or not value or not best:
        return None
    return value / best if measure.higher_is_better else best / value


def show(value: float | str, measure: Measure) -> str:
    if isinstance(value, str):
        return value
    if not measure.has_ratio or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def show_ratio(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f} ×" if value >= 10 else f"{value:.1f} ×" if value >= 1 else f"{value:.2f} ×"


def table_of_figures(figures: Mapping[str, Mapping[str, float | str]]) -> list[list[str]]:
    """A row for each measure, a column for each subject."""
    rows = [["", *(subject.title for subject in SUBJECTS)]]
    for measure in MEASURES:
        shown = [show(figures[subject.name][measure.name], measure) for subject in SUBJECTS]
        rows.append([f"{measure.title}, {measure.unit}", *shown])
    return rows


def table_of_ratios(figures: Mapping[str, Mapping[str, float | str]]) -> list[list[str]]:
    """Times as good as the best peer in each measure; the best peer is 1."""
    rows = [["", "best peer", *(subject.title for subject in SUBJECTS)]]
    titles = {subject.name: subject.title for subject in SUBJECTS}
    for measure in MEASURES:
        best = find_best_peer(figures, measure)
        if best is None:
            continue
        ratios = [show_ratio(ratio(figures[one.name][measure.name], best[1], measure)) for one in SUBJECTS]
        rows.append([measure.title, f"{titles[best[0]]}, {show(best[1], measure)} {measure.unit}", *ratios])
    return rows


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def as_text(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
