"""What screen readers are told of the pages that matter most, as files that are read when they change.

`PERDURE_TEST_WRITE=1` writes them anew."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.web import samples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("run-page")]

FILES = Path(__file__).parent / "golden"
MOVING = (
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"\d\d:\d\d:\d\d\.\d{3}", "CLOCK"),
    (r"(\d+ min )?\d+(\.\d)? (s|min|ms)( ago)?\b|\bnow\b|< 1 ms", "TIME"),
    (r"(Approvals|Dead letters) \d+", r"\1 COUNT"),
    (r"local-[0-9a-f]+", "WORKER"),
)


def tidy(text):
    """Without what is another each time."""
    for pattern, word in MOVING:
        text = re.sub(pattern, word, text)
    return text + "\n"


def compare(name, text):
    file = FILES / f"{name}.txt"
    if os.environ.get("PERDURE_TEST_WRITE") == "1":
        file.write_text(text)
    assert text == file.read_text()


def test_a_run_its_outline_and_an_approval_are_told_as_they_were_read_last(site, page):
    run = site.start(samples.ORDER)
    page.goto(f"{site.url}/runs/{run}")
    expect(page.get_by_role("treeitem").filter(has_text="manager")).to_contain_text("waiting")
    expect(page.locator(".reason")).to_contain_text("ann and bob are asked")
    expect(page.locator(".live").first).to_have_text("live")
    expect(page.locator("canvas")).to_have_attribute("data-nodes", "8")
    expect(page.locator(".film-said")).to_contain_text("event 12 of 12, ")
    expect(page.get_by_role("status").filter(has_text="The run is")).to_have_count(1)
    compare("outline", tidy(page.get_by_role("tree").aria_snapshot()))
    compare("run", tidy(page.locator("main").aria_snapshot()))
    page.goto(f"{site.url}/approvals/{run}:manager:1")
    detail = page.locator(".pane-detail")
    expect(detail.get_by_role("button", name="Approve")).to_be_enabled()
    compare("approval", tidy(detail.aria_snapshot()))
    site.post(f"/runs/{run}/cancel", {"reason": "seen"})
