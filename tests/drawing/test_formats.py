"""SVG, Mermaid and DOT: every node and edge once, and whatever a workflow says stays text (X25)."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given

from perdure.drawing import FORMATS, Marks, draw
from perdure.drawing.dot import draw_dot
from perdure.drawing.mermaid import draw_mermaid
from perdure.drawing.picture import Arrow, Box, Picture
from perdure.drawing.svg import draw_svg
from perdure.drawing.text_width import cut, wrap
from perdure.model import compile_definition
from tests.drawing.pictures import WORDS, pictures

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "</title></text><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<foreignObject><body onload=alert(1)></foreignObject>",
    "]]><a href='javascript:alert(1)'>x</a>",
    '"]; click a "javascript:alert(1)"',
    '\\"]; evil [label="x',
    "&lt;script&gt;&#60;b&#62; #quot; #60;",
    "end\nsubgraph x\r\n  a --> b",
    "\x00\x08\x1b[31m\ud800 \u202e\ufffe",
    "}} {% x %} `|` %%{init: {'securityLevel':'loose'}}%%",
]


def parse(text):
    return ET.fromstring(text)


def groups(root, name):
    return [group for group in root.iter(f"{SVG}g") if name in group.get("class", "").split()]


@pytest.mark.slow
@given(pictures())
def test_svg_has_every_box_and_every_arrow_once(picture):
    root = parse(draw_svg(picture))
    titles = sorted(group.find(f"{SVG}title").text.split(" ")[0] for group in groups(root, "box"))
    assert titles == sorted(box.id for box in picture.boxes)
    ends = [group.find(f"{SVG}title").text.partition(":")[0] for group in groups(root, "arrow")]
    assert sorted(ends) == sorted(f"n{arrow.source} → n{arrow.target}" for arrow in picture.arrows)
    assert len(groups(root, "label")) == sum(bool(arrow.label) for arrow in picture.arrows)


@pytest.mark.slow
@given(pictures())
def test_mermaid_has_every_box_and_every_arrow_once(picture):
    lines = draw_mermaid(picture).splitlines()
    assert lines[0].startswith("flowchart ")
    text = "\n".join(lines)
    assert re.findall(r"^  (n\d+)[\[({]", text, re.MULTILINE) == [box.id for box in picture.boxes]
    arrow = r'^  (n\d+) -(?:-|\.-)>(?:\|"[^"|]*"\|)? (n\d+)$'
    assert re.findall(arrow, text, re.MULTILINE) == [(f"n{a.source}", f"n{a.target}") for a in picture.arrows]
    assert len(re.findall(r"^  n\d+ -", text, re.MULTILINE)) == len(picture.arrows)


@pytest.mark.slow
@given(pictures())
def test_dot_has_every_box_and_every_arrow_once(picture):
    text = draw_dot(picture)
    string = r'"(?:[^"\\]|\\.)*"'
    assert re.findall(r'^  "(n\d+)" \[', text, re.MULTILINE) == [box.id for box in picture.boxes]
    arrows = re.findall(rf'^  "(n\d+)" -> "(n\d+)"(?: \[(?:{string}|[^"\]])*\])?;$', text, re.MULTILINE)
    assert arrows == [(f"n{a.source}", f"n{a.target}") for a in picture.arrows]


# -- hostile words -----------------------------------------------------------------------------------------------------


def hostile(text):
    return Picture(
        name=text,
        description=text,
        boxes=(
            Box(id="a", type="task", detail=text, notes=(text,), state=text, progress=text, error=text),
            Box(id="b", type=text),
        ),
        arrows=(Arrow(source=0, target=1, label=text), Arrow(source=1, target=0, kind="back", label=text)),
    )


LOOKS = {
    *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin"),
    *("opacity", "font-family", "font-weight", "font-style", "text-anchor"),
}


@pytest.mark.parametrize("text", HOSTILE)
def test_svg_holds_text_and_shapes_only_whatever_is_said_in_it(text):
    drawn = draw_svg(hostile(text))
    root = parse(drawn)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "title",
        "style",
        "rect",
        "g",
        "path",
        "text",
    }
    known = {"class", "d", "x", "y", "width", "height", "rx", "viewBox", "role", "transform", "font-size", *LOOKS}
    assert {name for element in root.iter() for name in element.attrib} <= known
    assert "url(" not in drawn
    assert "@import" not in drawn


@pytest.mark.parametrize("text", HOSTILE)
def test_mermaid_stays_what_it_is_whatever_is_said_in_it(text):
    plain = draw_mermaid(hostile("x")).splitlines()
    lines = draw_mermaid(hostile(text)).splitlines()
    assert len(lines) == len(plain)
    for line in lines:
        said = "".join(re.findall(r'"([^"]*)"', line))
        assert set(re.findall(r"<[^>]*>", said)) <= {"<b>", "</b>", "<i>", "</i>", "<br/>"}
        assert line.count('"') in (0, 2)


@pytest.mark.parametrize("text", HOSTILE)
def test_dot_stays_what_it_is_whatever_is_said_in_it(text):
    strip = lambda drawn: re.sub(r'"(?:[^"\\]|\\.)*"', '""', drawn)  # noqa: E731
    same = [draw_dot(hostile(one)) for one in ("x", text)]
    assert strip(same[0]) == strip(same[1])


@pytest.mark.slow
@given(WORDS)
def test_any_text_can_be_drawn(text):
    for drawn in (draw_svg(hostile(text)), draw_mermaid(hostile(text)), draw_dot(hostile(text))):
        assert drawn.encode()
    parse(draw_svg(hostile(text)))


def test_words_that_mean_something_to_mermaid_can_be_names():
    nodes = [{"id": name, "type": "task"} for name in ("end", "graph", "x", "o1", "style", "a-b", "a_b")]
    ir = compile_definition({"name": "odd", "nodes": nodes}).get_ir()
    names = re.findall(r"^  (\w+)\[", draw(ir, "mermaid"), re.MULTILINE)
    assert len(set(names)) == len(nodes)
    assert not {"end", "graph", "style"} & set(names)


# -- looks -------------------------------------------------------------------------------------------------------------


def test_svg_is_light_or_dark_as_the_screen_is_and_leaks_no_style():
    text = draw_svg(hostile("x"))
    assert "prefers-color-scheme:dark" in text
    sheet = parse(text).find(f"{SVG}style").text
    selectors = re.findall(r"([^{}@]+)\{[^{}]*\}", sheet.replace("@media (prefers-color-scheme:dark){", ""))
    assert selectors
    assert all(one.strip().startswith(".perdure") for many in selectors for one in many.split(","))


@pytest.mark.parametrize("format", FORMATS)
def test_states_of_a_run_are_written_and_not_only_coloured(format):
    ir = compile_definition({"name": "x", "nodes": [{"id": "a", "type": "task"}]}).get_ir()
    drawn = draw(ir, format, marks=Marks(states={"a": "failed"}, progress={"a": "attempt 3"}))
    assert "failed, attempt 3" in drawn
    assert "#dc2626" in drawn
    assert "failed" not in draw(ir, format).replace("upstream_failed", "")


def draw_ended(format):
    """A run that failed at `a`, stopped `b`, and never came to `c`."""
    nodes = [
        {"id": "a", "type": "task"},
        {"id": "b", "type": "wait"},
        {"id": "c", "type": "http", "dependencies": ["a"]},
        {"id": "d", "type": "task", "dependencies": ["b"]},
    ]
    ir = compile_definition({"name": "x", "nodes": nodes}).get_ir()
    states = {"a": "failed", "b": "cancelled", "c": "upstream_failed", "d": "skipped"}
    marks = Marks(states=states, errors={"a": "the card was declined"}, skipped=[("b", "d")])
    return draw(ir, format, marks=marks)


@pytest.mark.parametrize("format", FORMATS)
def test_what_failed_what_was_stopped_and_what_was_not_reached_look_different(format):
    text = draw_ended(format)
    assert all(colour in text for colour in ("#dc2626", "#475569", "#64748b"))
    assert "the card was declined" in text


def test_svg_can_be_read_by_programs_that_know_no_variables():
    """Everything that is painted says how by itself: a style sheet whose colours are variables is dropped by librsvg and its kin."""
    root = parse(draw_ended("svg"))
    shapes = [one for one in root.iter() if one.tag.removeprefix(SVG) in ("rect", "path", "text")]
    assert len(shapes) > 15
    assert [one.attrib for one in shapes if "fill" not in one.attrib] == []
    assert not any("var(" in value for one in root.iter() for value in one.attrib.values())
    # What the sheet says without variables must not contradict them: `fill:none` for a line is not for its head.
    heads = [one for one in shapes if one.get("class") == "head"]
    assert heads
    assert all(one.get("fill") != "none" for one in heads)
    sheet = root.find(f"{SVG}style").text
    assert "fill:none" not in "".join(rule for rule in sheet.split("}") if ".line" not in rule and ".icon" not in rule)


@given(WORDS)
def test_text_is_cut_and_broken_to_fit(text):
    assert len(cut(text, 20)) <= 20
    lines = wrap(text, 12, 3)
    assert len(lines) <= 3
    assert all(len(line) <= 12 for line in lines)


def test_lines_break_at_spaces_where_they_can():
    assert wrap("again if output.open_points > 0", 30, 3) == ["again if", "output.open_points > 0"]
    assert wrap("a short one", 30, 3) == ["a short one"]
