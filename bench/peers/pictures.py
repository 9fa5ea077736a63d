"""Bars of one measure, as an SVG whose colours are written out: it looks the same wherever it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from bench.peers.measures import BY_NAME
from bench.peers.subjects import SUBJECTS
from bench.peers.table import show

PICTURES = {
    "diamonds": "Runs of A→(B,C)→D a second (more is better)",
    "hop": "A hop in a chain of 100, ms (less is better)",
    "light-p50": "One diamond at light load, median, ms (less is better)",
    "fan-1000": "1→1,000→1, seconds (less is better)",
}
WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 720, 170, 110, 48, 30, 18
PAPER, TITLE, TEXT, OWN, PEER, LINE = "#ffffff", "#0f172a", "#475569", "#2563eb", "#94a3b8", "#cbd5e1"
FONT = "DejaVu Sans,Segoe UI,Roboto,Helvetica,Arial,sans-serif"


def draw(measure: str, figures: Mapping[str, Mapping[str, float | str]]) -> str:
    values = {subject.name: figures[subject.name][measure] for subject in SUBJECTS}
    longest = max((value for value in values.values() if not isinstance(value, str)), default=1.0) or 1.0
    height = TOP + ROW * len(SUBJECTS) + 12
    title = escape(PICTURES[measure])
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
        f'<text x="16" y="28" font-size="15" font-weight="600" fill="{TITLE}">{title}</text>',
        f'<line x1="{LEFT}" y1="{TOP - 6}" x2="{LEFT}" y2="{height - 10}" stroke="{LINE}"/>',
    ]
    for number, subject in enumerate(SUBJECTS):
        y = TOP + number * ROW
        value = values[subject.name]
        length = 0.0 if isinstance(value, str) else max(1.5, value / longest * (WIDTH - LEFT - RIGHT))
        text = f'y="{y + 14}" font-size="13" fill="{TEXT}"'
        parts.append(f'<text x="{LEFT - 10}" {text} text-anchor="end">{escape(subject.title)}</text>')
        colour = OWN if subject.is_own else PEER
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + length + 8:.1f}" {text}>{escape(show(value, BY_NAME[measure]))}</text>')
    return "\n".join([*parts, "</svg>", ""])


def draw_all(folder: Path, figures: Mapping[str, Mapping[str, float | str]]) -> None:
    for measure in PICTURES:
        (folder / f"peers-{measure}.svg").write_text(draw(measure, figures), encoding="utf-8")
