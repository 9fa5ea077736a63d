"""A picture as a Mermaid flowchart, which GitHub, GitLab and many editors draw by themselves."""

from __future__ import annotations

import re

from perdure.drawing.layout import Direction
from perdure.drawing.picture import Arrow, Box, Picture
from perdure.drawing.style import STATES, state_group
from perdure.drawing.text_width import cut

_SHAPES: dict[str, tuple[str, str]] = {
    "input": ("([", "])"),
    "output": ("([", "])"),
    "trigger": ("([", "])"),
    "human": ("[/", "/]"),
    "wait": ("{{", "}}"),
    "workflow": ("[[", "]]"),
    "map": ("[[", "]]"),
}
_LINES = {"plain": "-->", "choice": "-->", "failure": "-.->", "back": "-.->"}
_RESERVED = frozenset(
    "end default graph subgraph flowchart style classdef class click linkstyle direction href call".split()
)


def draw_mermaid(picture: Picture, *, direction: Direction | None = None) -> str:
    names = _name(picture.boxes)
    lines = [f"flowchart {'LR' if direction == 'right' else 'TD'}"]
    lines += [f"  {name}{_box(box)}" for name, box in zip(names, picture.boxes, strict=True)]
    lines += [_arrow(arrow, names) for arrow in picture.arrows]
    taken = [str(number) for number, arrow in enumerate(picture.arrows) if arrow.fate == "taken"]
    if taken:
        lines.append(f"  linkStyle {','.join(taken)} stroke-width:3px")
    lines += _states(picture, names)
    return "\n".join([*lines, ""])


def _name(boxes: tuple[Box, ...]) -> list[str]:
    """Names that Mermaid takes: word characters, none of its own words, each once."""
    names: list[str] = []
    used: set[str] = set()
    for box in boxes:
        name = re.sub(r"\W", "_", box.id, flags=re.ASCII)
        if name.lower() in _RESERVED:
            name = f"n_{name}"
        while name in used:
            name += "_"
        used.add(name)
        names.append(name)
    return names


def _box(box: Box) -> str:
    opened, closed = _SHAPES.get(box.type, ("[", "]"))
    state = f"{box.state}{', ' + box.progress if box.progress else ''}" if box.state else ""
    second = state or (f"{box.type}: {box.detail}" if box.detail else box.type)
    rows = [
        f"<b>{_text(box.id)}</b>",
        _text(cut(second, 48)),
        *(f"<i>{_text(cut(note, 48))}</i>" for note in box.notes),
        *([_text(cut(box.error, 48))] if box.error else []),
    ]
    return f'{opened}"{"<br/>".join(rows)}"{closed}'


def _arrow(arrow: Arrow, names: list[str]) -> str:
    label = "<br/>".join(_text(cut(part, 60)) for part in arrow.label.split("\n")) if arrow.label else ""
    said = f'|"{label}"|' if label else ""
    return f"  {names[arrow.source]} {_LINES[arrow.kind]}{said} {names[arrow.target]}"


def _states(picture: Picture, names: list[str]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for box, name in zip(picture.boxes, names, strict=True):
        if box.state:
            groups.setdefault(state_group(box.state), []).append(name)
    lines = []
    for group, members in sorted(groups.items()):
        (border, ground, _), _ = STATES[group]
        lines.append(f"  classDef {group} stroke:{border},fill:{ground},color:#0f172a")
        lines.append(f"  class {','.join(members)} {group}")
    return lines


def _text(text: str) -> str:
    """Plain text: every character that means something to Mermaid or HTML becomes an entity."""
    return "".join(char if char.isalnum() or char in " _.,:;=+-/()'!?→×" else f"#{ord(char)};" for char in text)
