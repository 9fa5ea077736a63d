"""A picture in the DOT language of Graphviz, for readers who want its layouts or already have its tools."""

from __future__ import annotations

from perdure.drawing.layout import Direction
from perdure.drawing.picture import Arrow, Box, Picture
from perdure.drawing.style import STATES, state_group
from perdure.drawing.text_width import cut

_SHAPES = {"input": "oval", "output": "oval", "trigger": "oval", "human": "house", "wait": "hexagon"}
_MANY = {"workflow", "map"}


def draw_dot(picture: Picture, *, direction: Direction | None = None) -> str:
    lines = [
        f"digraph {_quote(picture.name)} {{",
        f"  rankdir={'LR' if direction == 'right' else 'TB'};",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=9, color="#64748b"];',
    ]
    lines += [_box(box) for box in picture.boxes]
    lines += [_arrow(arrow, picture) for arrow in picture.arrows]
    return "\n".join([*lines, "}", ""])


def _box(box: Box) -> str:
    state = f"{box.state}{', ' + box.progress if box.progress else ''}" if box.state else ""
    second = state or (f"{box.type}: {box.detail}" if box.detail else box.type)
    rows = [
        box.id,
        cut(second, 48),
        *(cut(note, 48) for note in box.notes),
        *([cut(box.error, 48)] if box.error else []),
    ]
    attributes = [f"label={_quote(*rows)}"]
    if box.type in _SHAPES:
        attributes.append(f"shape={_SHAPES[box.type]}")
        attributes.append("style=filled")
    if box.type in _MANY:
        attributes.append("peripheries=2")
    if box.state:
        (border, ground, _), _ = STATES[state_group(box.state)]
        attributes.append(f'color="{border}", fillcolor="{ground}"')
    return f"  {_quote(box.id)} [{', '.join(attributes)}];"


def _arrow(arrow: Arrow, picture: Picture) -> str:
    attributes = []
    if arrow.label:
        attributes.append(f"label={_quote(*(cut(part, 60) for part in arrow.label.split(chr(10))))}")
    if arrow.kind == "back":
        attributes.append("style=dotted, constraint=false")
    if arrow.kind == "failure":
        attributes.append("style=dashed" if arrow.fate in ("skipped", "open") else 'style=dashed, color="#dc2626"')
    if arrow.fate == "taken":
        attributes.append("penwidth=2.5")
    if arrow.fate in ("skipped", "open"):
        attributes.append('color="#cbd5e1"')
    said = f" [{', '.join(attributes)}]" if attributes else ""
    return f"  {_quote(picture.boxes[arrow.source].id)} -> {_quote(picture.boxes[arrow.target].id)}{said};"


def _quote(*rows: str) -> str:
    """A string of DOT; several rows become lines."""
    texts = [cut(row, 10_000).replace("\\", "\\\\").replace('"', '\\"') for row in rows]
    return '"' + "\\n".join(texts) + '"'
