"""Two runs side by side, and a run on paper, in a real browser."""

import hashlib

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.pdf import readings_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("papers")]


def made(site, name, amount, *more):
    nodes = [samples.value("order", {"amount": amount, "item": "lamp"}), samples.value("ship", 1, "order"), *more]
    return site.start(samples.definition_named(name, *nodes), wait=60)


def test_two_selected_runs_are_compared_node_by_node_and_path_by_path(site, page):
    first = made(site, "paired", 7)
    second = made(site, "paired", 8, samples.value("thank", "yes", "ship"))
    page.goto(f"{site.url}/runs?workflow=paired")
    compare = page.get_by_role("button", name="Compare")
    page.get_by_label(f"Select run {first}").check()
    expect(compare).to_have_attribute("title", "Select exactly two runs.")
    page.get_by_label(f"Select run {second}").check()
    compare.click()
    expect(page).to_have_url(f"{site.url}/runs/{first}?compare={second}")
    expect(page.get_by_role("heading", name="2 nodes differ")).to_be_visible()
    changed = page.locator("tr", has_text="/output/amount")
    expect(changed.get_by_role("cell").nth(1)).to_have_text("7")
    expect(changed.get_by_role("cell").nth(2)).to_have_text("8")
    expect(page.locator("canvas").first).to_have_attribute("data-nodes", "2")
    expect(page.locator("canvas").last).to_have_attribute("data-nodes", "3")
    assert find_barriers(page) == []
    page.get_by_role("button", name="Swap").click()
    expect(page).to_have_url(f"{site.url}/runs/{second}?compare={first}")
    expect(changed.get_by_role("cell").nth(1)).to_have_text("8")
    page.goto(f"{site.url}/runs/{first}?compare={first}")
    expect(page.locator("main")).to_contain_text("do not differ")


def test_a_rerun_leads_to_the_comparison_with_its_origin(site, page, watch):
    watch.allowed.append("404")
    first = made(site, "again", 7)
    again = site.post(f"/runs/{first}/rerun", {})["run_id"]
    wait_until(lambda: site.get(f"/runs/{again}")["state"] == "completed", "it is done")
    page.goto(f"{site.url}/runs/{again}")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("link", name="Compare with the run it was made from").click()
    expect(page).to_have_url(f"{site.url}/runs/{first}?compare={again}")
    page.goto(f"{site.url}/runs/{first}?compare=nobody")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_paper_has_every_node_approval_error_and_the_hash_of_the_export(site, browser, watch, scheme, width):
    run = site.start(samples.ORDER, tags={"team": "blue"})
    wait_until(lambda: site.get(f"/runs/{run}/nodes/manager")["state"] == "waiting", "it waits")
    site.post(f"/approvals/{run}:manager:1/decide", {"decision": "approve", "approver": "ann", "comments": "go on"})
    wait_until(lambda: site.get(f"/runs/{run}")["state"] == "completed", "it is done")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.on("page", watch.follow)
    page = context.new_page()
    page.goto(f"{site.url}/runs/{run}/print")
    paper = page.locator(".paper")
    expect(paper).to_contain_text("order")
    for node in samples.ORDER["nodes"]:
        expect(paper.locator("table").first).to_contain_text(node["id"])
    expect(paper.locator("table").last.locator("tr", has_text="node.waiting")).to_contain_text("manager")
    expect(paper).to_contain_text("ann: approve")
    expect(paper).to_contain_text("go on")
    expect(paper).to_contain_text("9223372036854775807")
    wanted = hashlib.sha256(site.client.get(f"/runs/{run}/export").content).hexdigest()
    expect(paper.locator("footer")).to_contain_text(wanted)
    assert page.locator(".paper img").evaluate("one => one.decode().then(() => one.naturalWidth > 0)")
    assert find_barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.emulate_media(media="print")
    expect(page.locator(".top")).to_be_hidden()
    expect(page.locator(".no-paper")).to_be_hidden()
    readings = readings_of(page.pdf())
    wanted_words = [one["id"] for one in samples.ORDER["nodes"]] + ["ann:approve", "goon", "9223372036854775807"]
    assert [word for word in wanted_words if not any(word in one for one in readings)] == []
    context.close()


def test_the_past_is_printed_as_it_was(site, page):
    run = site.start(samples.ORDER)
    wait_until(lambda: site.get(f"/runs/{run}/nodes/manager")["state"] == "waiting", "it waits")
    page.goto(f"{site.url}/runs/{run}/print?at=2")
    expect(page.locator(".paper")).to_contain_text("As it was right after event 2.")
    expect(page.locator(".paper table").last.locator("tbody tr")).to_have_count(2)
