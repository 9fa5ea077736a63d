"""Boxes and labels as lines of text of known sizes: what a drawing has to make room for."""

from __future__ import annotations

import msgspec

from perdure.drawing.icons import ICONS
from perdure.drawing.layout_plan import Size
from perdure.drawing.picture import Arrow, Box
from perdure.drawing.text_width import cut, measure, measure_code, wrap

TITLE, DETAIL, NOTE, LABEL = 13.0, 11.0, 10.5, 10.5
"""Font sizes."""
ICON = 22.0
PADDING = 12.0
_LINE = 1.34
_LONGEST = {"title": 30, "detail": 30, "state": 34, "note": 34, "error": 34}
_ERROR_LINES = 3
_LEAST_WIDTH = 92.0
_BOLD = ("title", "state")


class Line(msgspec.Struct, frozen=True):
    text: str
    style: str
    size: float

    @property
    def height(self) -> float:
        return self.size * _LINE


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a box."""

    lines: tuple[Line, ...]
    size: Size
    full: str
    """The whole text, nothing cut."""


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The text at an arrow."""

    lines: tuple[str, ...]
    size: Size
    full: str


def make_card(box: Box) -> Card:
    wanted = [(box.id, "title", TITLE), (box.detail, "detail", DETAIL)]
    if box.state:
        wanted.insert(1, (f"{box.state}{', ' + box.progress if box.progress else ''}", "state", DETAIL))
    wanted += [(note, "note", NOTE) for note in box.notes]
    if box.error:
        wanted += [(line, "error", NOTE) for line in wrap(box.error, _LONGEST["error"], _ERROR_LINES)]
    if not box.detail and (not (box.state or box.notes) or box.type not in ICONS):
        wanted.insert(1, (box.type, "detail", DETAIL))
    lines = tuple(Line(cut(text, _LONGEST[style]), style, size) for text, style, size in wanted if text)
    text_width = max(measure(line.text, line.size * (1.08 if line.style in _BOLD else 1)) for line in lines)
    width = max(text_width + ICON + 2.6 * PADDING, _LEAST_WIDTH)
    height = sum(line.height for line in lines) + 1.5 * PADDING
    parts = [
        f"{box.id} ({box.type})",
        box.state and f"{box.state} {box.progress}".strip(),
        box.detail,
        *box.notes,
        box.error,
    ]
    if box.compensated:
        parts.append("has a compensator")
    return Card(lines=lines, size=(_even(width), _even(height)), full="\n".join(part for part in parts if part))


def make_label(arrow: Arrow) -> Label | None:
    if not arrow.label:
        return None
    lines = tuple(line for part in arrow.label.split("\n") for line in wrap(part, 30, 3))
    width = max(measure_code(line, LABEL) for line in lines) + 12
    return Label(
        lines=lines, size=(_even(width), _even(len(lines) * LABEL * _LINE + 6)), full=arrow.label.replace("\n", ", ")
    )


def _even(size: float) -> float:
    """The size rounded up to a whole, even number, so that lines fall on pixels."""
    return 2.0 * -(-size // 2)
