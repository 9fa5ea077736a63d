"""The pictures of the documents are what is drawn today, apart from times."""

import re
import xml.etree.ElementTree as ET

import pytest

from examples.pictures import PICTURES, draw_order

pytestmark = pytest.mark.slow
SVG = "{http://www.w3.org/2000/svg}"
TIMES = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s)\b")


def read(file):
    """What it says, part by part: its style, and the class and words of each group. Where things stand depends on times."""
    root = ET.parse(file).getroot()
    groups = [
        (group.get("class"), tuple(TIMES.sub("TIME", text) for text in group.itertext()))
        for group in root.iter(f"{SVG}g")
    ]
    return root.find(f"{SVG}style").text, groups


def test_the_picture_of_the_order_is_up_to_date(tmp_path):
    drawn = tmp_path / "a folder" / "order.svg"
    drawn.parent.mkdir()
    draw_order(drawn)
    assert read(PICTURES / "order.svg") == read(drawn), "draw it again: python -m examples.pictures"
    texts = [text for _, texts in read(drawn)[1] for text in texts]
    assert "completed, TIME, attempt 3" in texts  # the flaky bureau
    assert "completed, TIME, attempt 2" in texts  # the crash


def test_every_picture_is_shown_somewhere(documents):
    shown = "\n".join(document.read_text(encoding="utf-8") for document in documents)
    assert [file.name for file in PICTURES.iterdir() if f"pictures/{file.name}" not in shown] == []
