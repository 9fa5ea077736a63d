"""Text of others that comes while a page is open stays text as well: progress, chunks, and views that colleagues saved (X25)."""

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.attack.marks import attack
from tests.web import samples
from tests.web.test_hostile import MARKUP, REPORTS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]
TEXTS = [text for text in MARKUP if text.isprintable() and len(text) < 90][:25]


def open_page(context: Any) -> Any:
    context.add_init_script(REPORTS)
    return context.new_page()


def is_only_text(page: Any) -> None:
    assert page.evaluate("window.__faults") == []
    assert page.evaluate("({}).polluted") is None
    own = ":not(.run-so-far img)"  # the picture of the run, in which no script runs
    assert page.locator(f"main script, main iframe, main img{own}, main object, main embed, main base").count() == 0


@attack("X25", "markup in what a handler says of how far it is, seen while it works")
@pytest.mark.parametrize("form", ["text", "object"])
def test_progress_stays_text(site, context, tmp_path, form):
    said: Any = " ".join(TEXTS) if form == "text" else {"texts": TEXTS, "__proto__": {"polluted": True}, TEXTS[1]: 1}
    config = {
        "function": "tests.cli.work:tell_until",
        "args": {"path": str(tmp_path / "go"), "progress": "{{ inputs.said }}"},
    }
    node = {"id": "slow", "type": "task", "config": config}
    run = site.start(samples.definition_named(f"telling-{form}", node), inputs={"said": said})
    try:
        page = open_page(context)
        page.goto(f"{site.url}/runs/{run}?node=slow")
        expect(page.locator("aside.drawer")).to_contain_text(TEXTS[1])
        shown = page.locator("aside.drawer").inner_text()
        assert [text for text in TEXTS if text not in shown] == []
        is_only_text(page)
    finally:
        (tmp_path / "go").touch()


@attack("X25", "markup in the name of a view that everybody of a tenant has")
def test_the_name_of_a_view_stays_text(site, context):
    names = [text for text in TEXTS if "/" not in text][:10]
    for text in names:
        answer = site.client.put(f"/views/{quote(text, safe='')}", json={"query": "state=failed"})
        assert answer.is_success, answer.text
    try:
        page = open_page(context)
        page.goto(f"{site.url}/runs")
        expect(page.locator("main")).to_contain_text(names[0])
        shown = page.locator("main").inner_text()
        assert [text for text in names if text not in shown] == []
        is_only_text(page)
    finally:
        for text in names:  # other tests look at the same server
            site.client.delete(f"/views/{quote(text, safe='')}")
