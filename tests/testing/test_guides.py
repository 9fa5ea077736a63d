"""Every workflow that a page shows goes through `simulate`: whatever it ends in, Perdure breaks no rule of its own."""

from pathlib import Path

import pytest
import yaml

from perdure.model import compile_text
from perdure.testing import simulate
from tests.documents import blocks

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def definitions(page):
    """By file name, those that compile; some pages show one that does not."""
    named = [(name, text) for _, name, text in blocks(page.read_text(encoding="utf-8")) if name]
    found = {name: text for name, text in named if name.endswith((".yaml", ".yml", ".json"))}
    return {name: text for name, text in found.items() if "nodes" in (yaml.safe_load(text) or ())}


SHOWN = [(page, name) for page in PAGES for name in definitions(page)]


def test_the_guides_show_workflows():
    assert len(SHOWN) > 20


@pytest.mark.slow
@pytest.mark.parametrize(("page", "name"), SHOWN, ids=[f"{page.stem}-{name}" for page, name in SHOWN])
def test_a_workflow_of_a_page_breaks_no_rule_when_it_is_simulated(page, name):
    texts = definitions(page)
    if compile_text(texts[name]).ir is None:
        return  # shown because it is wrong
    others = [text for other, text in texts.items() if other != name and compile_text(text).ir is not None]
    report = simulate(texts[name], workflows=others, seeds=3)
    broken = [(end.state, end.reason) for end in report.ends if end.state == "broken"]
    assert broken == [], report
