"""Dead letters in a real browser: groups, one of them with another config, and many by a count that must still be right."""

import re

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("letters")]


def park(site, name):
    failing = {**samples.task("charge", "fail"), "on_failure": "park", "retry": 1}
    run = site.start(samples.definition_named(name, failing, samples.value("ship", 1, "charge")))
    wait_until(lambda: site.get(f"/runs/{run}/nodes/charge")["state"] == "parked", "charge is parked")
    return run


def sheet(page, name):
    found = page.get_by_role("dialog", name=name)
    expect(found).to_have_attribute("data-ready", "true")
    return found


def test_one_is_requeued_with_another_config_and_the_run_goes_on(site, page):
    run = park(site, "mend")
    page.goto(f"{site.url}/dead-letters?workflow=mend")
    page.get_by_role("link", name="charge").click()
    page.get_by_role("link", name=run).click()
    expect(page.get_by_role("heading", name="charge")).to_be_visible()
    page.get_by_text("Run so far").click()
    expect(page.get_by_role("img", name="Run so far")).to_have_js_property("complete", True)
    expect(page.get_by_role("img", name="Run so far")).not_to_have_js_property("naturalWidth", 0)
    assert find_barriers(page) == []
    page.get_by_role("button", name="Requeue").click()
    asked = sheet(page, "Requeue this dead letter")
    asked.get_by_label("Config").fill('{"function": "tests.engine.tasks:echo", "args": {"value": 5}}')
    expect(asked.get_by_role("table", name="What you change")).to_contain_text("tests.engine.tasks:echo")
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Requeue", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("Requeued")
    page.keyboard.press("Escape")
    expect(page.locator(".head")).to_contain_text("Requeued by local.")
    wait_until(lambda: site.get(f"/runs/{run}")["state"] == "completed", "the run goes on")
    assert site.get(f"/runs/{run}/nodes/charge")["output"]["value"] == 5


def test_one_is_discarded_after_it_was_said_what_follows(site, page):
    run = park(site, "give-up")
    page.goto(f"{site.url}/dead-letters/{run}:charge")
    page.get_by_role("button", name="Discard").click()
    asked = sheet(page, "Discard this dead letter")
    asked.get_by_label(re.compile("^failed: the run fails")).check()
    expect(asked.get_by_label("What happens next")).to_contain_text("the run is then failed")
    asked.get_by_label(re.compile("the run goes on")).check()
    expect(asked.get_by_label("What happens next")).to_contain_text("begins: ship")
    asked.get_by_role("button", name="Discard", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("Discarded.")
    wait_until(lambda: site.get(f"/runs/{run}")["state"] == "completed", "the run goes on")


def test_many_are_changed_only_if_their_count_is_still_right(site, page, watch):
    watch.allowed.append("409")
    for _ in range(2):
        park(site, "crowd")
    page.goto(f"{site.url}/dead-letters?workflow=crowd&node=charge&code=error")
    expect(page.locator(".groups tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Discard").click()
    asked = sheet(page, "Discard 2 of charge, error")
    park(site, "crowd")
    asked.get_by_role("button", name="Discard", exact=True).click()
    asked = page.get_by_role("dialog", name="Discard 3 of charge, error")
    expect(asked.get_by_role("alert")).to_contain_text("There were 2, and now there are 3. Nothing was done")
    assert site.get("/dead-letters/counts?workflow=crowd")["total"] == 3
    asked.get_by_role("button", name="Discard", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("3 done.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="No dead letter fits this filter")).to_be_visible()
    assert site.get("/dead-letters/counts?workflow=crowd")["total"] == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_screen_of_them_has_a_barrier(site, browser, watch, scheme, width):
    run = park(site, f"seen-{scheme}")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.on("page", watch.follow)
    page = context.new_page()
    for path in ("", f"?workflow=seen-{scheme}&node=charge&code=error", f"/{run}:charge", "?workflow=nothing"):
        page.goto(f"{site.url}/dead-letters{path}")
        expect(page.locator(".groups, .letter-detail, .empty").first).to_be_visible()
        assert find_barriers(page) == [], path
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path
    context.close()
