"""The list of runs in a real browser: its filter as text, its bars, and many runs changed at once by a count that must be right."""

import re

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("many")]


def waiting(site, name, count=3, **more):
    definition = {**samples.ORDER, "name": name}
    found = [site.start(definition, **more) for _ in range(count)]

    def all_wait():
        return {site.get(f"/runs/{run}/nodes/manager")["state"] for run in found} == {"waiting"}

    wait_until(all_wait, "they wait")
    return found


def sheet(page, name):
    found = page.get_by_role("dialog", name=name)
    expect(found).to_have_attribute("data-ready", "true")
    return found


def test_some_are_selected_by_keyboard_and_paused_with_a_reason(site, page):
    runs = waiting(site, "held")
    page.goto(f"{site.url}/runs?workflow=held")
    expect(page.locator("tr.row")).to_have_count(3)
    pause = page.get_by_role("button", name="Pause", exact=True)
    expect(pause).to_have_attribute("aria-disabled", "true")
    expect(pause).to_have_attribute("title", "Select at least one run.")
    for key in "jxjx":
        page.keyboard.press(key)
    bar = page.get_by_role("toolbar", name="Change many runs")
    expect(bar).to_contain_text("2 runs selected")
    assert find_barriers(page) == []
    pause.click()
    asked = sheet(page, "Pause 2 runs")
    expect(asked.get_by_label("The first of them")).to_contain_text(runs[2])
    asked.get_by_label("Reason").fill("stocktaking")
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Pause", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("2 done.")
    page.keyboard.press("Escape")
    expect(page.locator("tr.row", has_text="paused")).to_have_count(2)
    assert [site.get(f"/runs/{run}")["state"] for run in runs] == ["running", "paused", "paused"]
    events = site.get(f"/runs/{runs[1]}/events?type=run.paused")["items"]
    assert events[0]["data"]["reason"] == "stocktaking"


def test_all_that_match_are_changed_only_if_their_count_is_still_right(site, page, watch):
    watch.allowed.append("409")
    runs = waiting(site, "crowded", 2)
    done = site.start(samples.definition_named("crowded", samples.value("a", 1)), wait=60)
    page.goto(f"{site.url}/runs?workflow=crowded")
    page.get_by_label("Select all shown").check()
    page.get_by_role("button", name="Select all that match").click()
    bar = page.get_by_role("toolbar", name="Change many runs")
    expect(bar).to_contain_text("All 3 that match selected")
    bar.get_by_role("button", name="Cancel").click()
    asked = sheet(page, "Cancel 3 runs")
    runs += waiting(site, "crowded", 1)
    asked.get_by_role("button", name="Cancel", exact=True).click()
    asked = page.get_by_role("dialog", name="Cancel 4 runs")
    expect(asked.get_by_role("alert")).to_contain_text("There were 3, and now there are 4. Nothing was done")
    assert {site.get(f"/runs/{run}")["state"] for run in runs} == {"running"}
    asked.get_by_role("button", name="Cancel", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("3 done.")
    expect(asked.get_by_role("status")).to_contain_text(done)  # it had ended, and refuses
    wait_until(lambda: {site.get(f"/runs/{run}")["state"] for run in runs} == {"cancelled"}, "they are cancelled")


def test_the_filter_is_typed_completed_and_explained(site, page):
    waiting(site, "typed", 1, tags={"team": "blue", "size": "l"})
    page.goto(f"{site.url}/runs")
    field = page.get_by_label("Filter", exact=True)
    expect(field).to_be_visible()
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.route("**/api/v1/workflows?q=ful*", lambda route: route.continue_())
    field.press_sequentially("state:running tag:team=blue tag:size=l workflow:typed")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"\?state=running&tag=team%3Dblue&tag=size%3Dl&workflow=typed$"))
    expect(page.locator("tr.row")).to_have_count(1)
    expect(page.get_by_role("button", name="running")).to_have_attribute("aria-pressed", "true")
    field.fill("colour:red")
    field.press("Enter")
    assert "There is no key colour" in field.evaluate("one => one.validationMessage")
    expect(page).to_have_url(re.compile("workflow=typed$"))
    page.get_by_role("button", name="Clear filters").click()
    expect(page).to_have_url(f"{site.url}/runs")
    samples_of = samples.versions_of(samples.FULFIL)[0]
    site.post("/workflows?reason=as+a+sample", {**samples_of, "name": "completed-by-name"})
    field.fill("workflow:completed-by")
    expect(page.locator("#filter-completion option").first).to_have_attribute("value", "workflow:completed-by-name")


def test_bars_are_dragged_over_to_set_the_times(site, page):
    waiting(site, "brushed", 1)
    page.goto(f"{site.url}/runs?workflow=brushed&since=1h")
    plot = page.locator(".plot.brush")
    expect(plot.locator(".pile")).to_have_count(1)
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20, steps=4)
    expect(plot.locator(".chosen").first).to_be_visible()
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"since=20\d\d-.*Z&until=20\d\d-.*Z$"))
    expect(page.locator("tr.row")).to_have_count(1)
    page.goto(f"{site.url}/runs?workflow=brushed&sort=oldest")
    expect(page.locator("tr.row")).to_have_count(1)
