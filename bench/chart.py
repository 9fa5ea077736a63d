"""A picture of costs against sizes: one small panel for each subject, all in the same scale of growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, PANEL, GAP, TOP = 688, 92, 14, 64
LEFT, RIGHT = 352, 150
PAPER, TITLE, SOFT, GRID, LINE, HOT = "#ffffff", "#0f172a", "#64748b", "#e2e8f0", "#2563eb", "#dc2626"
FONT = "DejaVu Sans,Segoe UI,Roboto,Helvetica,Arial,sans-serif"
FLAT = 2.0
"""The ratio up to which a cost counts as flat."""


def draw(rows: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    height = TOP + len(rows) * (PANEL // 2 + GAP) + 10
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img">',
        "<title>What one item costs at three sizes, and the cost at the largest divided by that at the smallest</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
        _text(20, 28, "What one item costs, from few to many", TITLE, 15, weight=600),
        _text(20, 47, "processor time; a bar is as long as the cost is to that of the smallest size", SOFT, 11),
        _text(WIDTH - 20, 47, "largest ÷ smallest", SOFT, 11, anchor="end"),
    ]
    for number, (title, row) in enumerate(rows.items()):
        parts += _panel(TOP + number * (PANEL // 2 + GAP), title, row)
    return "\n".join([*parts, "</svg>", ""])


def _panel(top: int, title: str, row: Sequence[tuple[int, float]]) -> list[str]:
    first = row[0][1]
    ratio = row[-1][1] / first
    colour = LINE if ratio <= FLAT else HOT
    most = max(4.0, *(cost / first for _, cost in row))
    space = WIDTH - LEFT - RIGHT
    parts = [
        f'<line x1="20" y1="{top - 5}" x2="{WIDTH - 20}" y2="{top - 5}" stroke="{GRID}"/>',
        _text(20, top + 24, title, TITLE, 11.5),
    ]
    for line, (size, cost) in enumerate(row):
        y = top + 3 + line * 15
        length = max(2.0, cost / first / most * space)
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="11" rx="2" fill="{colour}" fill-opacity="0.8"/>'
        )
        parts.append(_text(LEFT - 6, y + 9, f"{size:,}", SOFT, 9, anchor="end"))
        parts.append(_text(LEFT + length + 5, y + 9, f"{cost:,.0f} µs", SOFT, 9))
    parts.append(_text(WIDTH - 20, top + 24, f"{ratio:.2f}", colour, 13, anchor="end", weight=600))
    return parts


def _text(x: float, y: float, text: str, colour: str, size: float, *, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" fill="{colour}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
