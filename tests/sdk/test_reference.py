"""The Python reference: every public name is on the page, and every line of it does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.runtime.worker.context import Context
from tests.documents import blocks, execute_python

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
TEXT = PAGE.read_text(encoding="utf-8")
INTERNAL = {"answers", "list_steps", "memory", "prepare_inputs", "terms"}


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_is_on_the_page(name):
    assert re.search(rf"perdure\.{re.escape(name)}\b", TEXT)


@pytest.mark.parametrize("name", [name for name in dir(Context) if not name.startswith("_") and name not in INTERNAL])
def test_every_member_of_the_context_is_on_the_page(name):
    assert re.search(rf"ctx\.{name}\b", TEXT)


def test_every_field_of_a_run_is_on_the_page():
    run = perdure.run(
        {"name": "one", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}, db=":memory:"
    )
    assert [name for name in vars(run) if not name.startswith("_") and f"`{name}`" not in TEXT] == []


@pytest.mark.slow
def test_every_line_gives_what_the_page_says(capsys):
    names: dict[str, Any] = {"__name__": "reference_page"}
    code = [text for language, _, text in blocks(TEXT) if language == "python"]
    assert sum(execute_python(text, names, PAGE) for text in code) >= 15
    assert capsys.readouterr().out == "failed\n"
