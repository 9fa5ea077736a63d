"""Pictures of workflows: what to draw, where to put it, and the formats SVG, Mermaid and DOT.

It knows the model, and in `marks.py` the state of a run; no files, no processes, no terminal. Most callers need `draw`;
`make_picture` and `plan_layout` give the parts to callers that draw themselves.
"""

from __future__ import annotations

from typing import Literal

from perdure.drawing.dot import draw_dot
from perdure.drawing.layout import Direction, Layout
from perdure.drawing.mermaid import draw_mermaid
from perdure.drawing.picture import Marks, Picture, make_picture
from perdure.drawing.svg import draw_svg, plan_layout
from perdure.model.ir import IR

__all__ = ["FORMATS", "Direction", "Format", "Layout", "Marks", "Picture", "draw", "make_picture", "plan_layout"]

Format = Literal["mermaid", "dot", "svg"]
FORMATS: tuple[Format, ...] = ("mermaid", "dot", "svg")
_DRAW = {"mermaid": draw_mermaid, "dot": draw_dot, "svg": draw_svg}


def draw(ir: IR, format: Format = "svg", *, marks: Marks | None = None, direction: Direction | None = None) -> str:
    """The workflow in this format; with marks, it shows how far a run is."""
    return _DRAW[format](make_picture(ir, marks), direction=direction)
