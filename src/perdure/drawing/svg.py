"""A picture as SVG: one file, no scripts, no fonts to load, light or dark as the reader's screen is.

Everything that comes from a workflow is text, and is escaped as text; nothing in the file can run or be fetched.
"""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

from perdure.drawing.cards import ICON, LABEL, PADDING, Card, Label, make_card, make_label
from perdure.drawing.curves import Point, Route
from perdure.drawing.icons import ICONS, OTHER
from perdure.drawing.layout import Direction, Layout, Place, lay_out
from perdure.drawing.layout_plan import Wire
from perdure.drawing.picture import Arrow, Box, Picture
from perdure.drawing.style import (
    FONT,
    PAPER,
    STYLE,
    draw_box,
    draw_label,
    draw_line,
    draw_mark,
    draw_sign,
    draw_text,
    state_group,
)

_HEAD = 8.0
_ROUND = {"input": 99.0, "output": 99.0, "trigger": 99.0}


def draw_svg(picture: Picture, *, direction: Direction | None = None) -> str:
    cards = [make_card(box) for box in picture.boxes]
    labels = [make_label(arrow) for arrow in picture.arrows]
    layout = lay_out([card.size for card in cards], _wires(picture, labels), direction=direction)
    title = f"{picture.name}: {picture.description}" if picture.description else picture.name
    width, height = _n(layout.width), _n(layout.height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="{FONT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="perdure" {size} role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="100%" height="100%" rx="10" fill="{PAPER}"/>',
    ]
    # Arrows that were taken are drawn last, over the rest.
    numbered = sorted(enumerate(picture.arrows), key=lambda pair: (pair[1].fate == "taken", pair[0]))
    parts += [_arrow(arrow, layout.routes[number], picture) for number, arrow in numbered]
    parts += [
        _label(arrow, label, place)
        for arrow, label, place in zip(picture.arrows, labels, layout.labels, strict=True)
        if label is not None and place is not None
    ]
    parts += [_box(*one) for one in zip(picture.boxes, cards, layout.boxes, strict=True)]
    return "\n".join([*parts, "</svg>", ""])


def plan_layout(picture: Picture, *, direction: Direction | None = None) -> Layout:
    """Only the places, for callers that draw themselves."""
    labels = [make_label(arrow) for arrow in picture.arrows]
    return lay_out([make_card(box).size for box in picture.boxes], _wires(picture, labels), direction=direction)


def _wires(picture: Picture, labels: list[Label | None]) -> list[Wire]:
    return [
        Wire(source=a.source, target=a.target, back=a.kind == "back", label=None if label is None else label.size)
        for a, label in zip(picture.arrows, labels, strict=True)
    ]


# -- arrows ------------------------------------------------------------------------------------------------------------


def _arrow(arrow: Arrow, route: Route, picture: Picture) -> str:
    style = " ".join(word for word in ("arrow", arrow.kind, arrow.fate) if word)
    ends = f"{picture.boxes[arrow.source].id} → {picture.boxes[arrow.target].id}"
    said = f"{ends}: {arrow.label.replace(chr(10), ', ')}" if arrow.label else ends
    line, head = _line(route)
    whole, of_line, of_head = draw_line(arrow.kind, arrow.fate)
    return (
        f'<g class="{style}"{whole}><title>{_text(said)}</title><path class="line" d="{line}"{of_line}/>'
        f'<path class="head" d="{head}"{of_head}/></g>'
    )


def _line(route: Route) -> tuple[str, str]:
    """The line up to the head, and the head."""
    before = next(point for point in reversed(route.points()[:-1]) if point != route.end)
    x, y = route.end
    length = math.hypot(x - before[0], y - before[1])
    along = ((x - before[0]) / length, (y - before[1]) / length)
    short = (x - along[0] * (_HEAD - 1), y - along[1] * (_HEAD - 1))
    parts, at = [f"M{_p(route.start)}"], route.start
    for number, (first, second, end) in enumerate(route.curves):
        last = number == len(route.curves) - 1
        straight = first == at and second == end
        if last:
            second, end = (short if second == route.end else second), short
        parts.append(f"L{_p(end)}" if straight else f"C{_p(first)} {_p(second)} {_p(end)}")
        at = end
    across = (-along[1] * _HEAD * 0.45, along[0] * _HEAD * 0.45)
    back = (x - along[0] * _HEAD, y - along[1] * _HEAD)
    corners = [route.end, (back[0] + across[0], back[1] + across[1]), (back[0] - across[0], back[1] - across[1])]
    return "".join(parts), f"M{_p(corners[0])}L{_p(corners[1])}L{_p(corners[2])}Z"


def _label(arrow: Arrow, label: Label, place: Place) -> str:
    x = place.x + place.width / 2
    height = (place.height - 6) / len(label.lines)
    ground, written = draw_label(arrow.kind, arrow.fate)
    texts = [
        f'<text x="{_n(x)}" y="{_n(place.y + 3 + height * (number + 0.5) + LABEL * 0.36)}"{written}>{_text(line)}</text>'
        for number, line in enumerate(label.lines)
    ]
    style = " ".join(word for word in ("label", arrow.kind, arrow.fate) if word)
    return f'<g class="{style}"><title>{_text(label.full)}</title>{_rect(place, 5, ground)}{"".join(texts)}</g>'


# -- boxes -------------------------------------------------------------------------------------------------------------


def _box(box: Box, card: Card, place: Place) -> str:
    kind = box.type if box.type in ICONS else "other"
    style = f"box t-{kind}" + (f" s-{state_group(box.state)}" if box.state else "")
    parts = [f'<g class="{style}"><title>{_text(card.full)}</title>']
    corner = min(_ROUND.get(box.type, 8.0), place.height / 2)
    ground = draw_box(kind, box.state)
    if box.type == "map":  # several of the same
        behind = [Place(place.x + step, place.y + step, place.width, place.height) for step in (6, 3)]
        parts += [_rect(one, corner, ground) for one in behind]
    parts.append(_rect(place, corner, ground))
    if box.type == "workflow":  # a box of boxes
        inner = Place(place.x + 3, place.y + 3, place.width - 6, place.height - 6)
        parts.append(_rect(inner, corner - 2, ground))
    parts.append(_icon(kind, place, faded=bool(box.state) and state_group(box.state) == "none"))
    x = place.x + PADDING + ICON + PADDING * 0.55
    y = place.y + (place.height - sum(line.height for line in card.lines)) / 2
    for line in card.lines:
        parts.append(
            f'<text class="{line.style}" x="{_n(x)}" y="{_n(y + line.size * 1.02)}" font-size="{_n(line.size)}"'
            f"{draw_text(line.style, box.state)}>{_text(line.text)}</text>"
        )
        y += line.height
    if box.compensated:
        parts.append(_mark(place))
    return "".join([*parts, "</g>"])


def _icon(kind: str, place: Place, *, faded: bool) -> str:
    x, y = place.x + PADDING * 0.9, place.y + (place.height - ICON) / 2
    tile, lines = draw_sign(kind)
    lines += ' opacity="0.6"' * faded
    return (
        f'<rect class="tile" x="{_n(x)}" y="{_n(y)}" width="{_n(ICON)}" height="{_n(ICON)}" rx="6"{tile}/>'
        f'<path class="icon" transform="translate({_n(x + 3)} {_n(y + 3)})" d="{ICONS.get(kind, OTHER)}"{lines}/>'
    )


def _mark(place: Place) -> str:
    """The mark of a node that can be undone."""
    x, y = place.x + place.width - 15, place.y + 4
    drawn = "M4 1 1 4l3 3M1 4h6a3 3 0 0 1 0 6H4"
    return f'<path class="mark" transform="translate({_n(x)} {_n(y)})" d="{drawn}"{draw_mark()}/>'


# -- text --------------------------------------------------------------------------------------------------------------


def _rect(place: Place, corner: float, drawn: str) -> str:
    return (
        f'<rect x="{_n(place.x)}" y="{_n(place.y)}" width="{_n(place.width)}" height="{_n(place.height)}" '
        f'rx="{_n(max(corner, 0))}"{drawn}/>'
    )


def _text(text: str) -> str:
    """Plain text: markup is escaped, and characters that XML has no place for are left out."""
    return escape("".join(char for char in text if char in "\t\n" or _is_xml(char)))


def _is_xml(char: str) -> bool:
    return " " <= char <= "\ud7ff" or "\ue000" <= char <= "\ufffd" or char >= "\U00010000"


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
