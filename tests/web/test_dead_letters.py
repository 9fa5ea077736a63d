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


def test_an_item_of_a_trigger_is_called_what_it_is_and_leads_to_its_trigger(site, page):
    """What a trigger holds is kept by a run of the system, whose names say nothing to a reader."""
    site.post("/workflows", {**samples.FULFIL, "name": "deliver"})
    yearly = {"name": "picked-up", "workflow": "deliver", "schedule": {"cron": "0 0 1 1 *"}, "inputs": {"city": "Oslo"}}
    site.post("/triggers", yearly)
    site.post("/triggers/picked-up/fire", {"inputs": {"city": 7}})
    wait_until(lambda: site.get("/triggers/picked-up")["parked"] == 1, "the item is parked")
    page.goto(f"{site.url}/")
    expect(page.locator(".needs")).to_contain_text("items of triggers: invalid_inputs, 1")
    page.goto(f"{site.url}/dead-letters")
    page.get_by_role("link", name="items of triggers").click()
    expect(page.get_by_role("heading", name="items of triggers, invalid_inputs")).to_be_visible()
    page.get_by_role("link", name="picked-up").click()
    expect(page.get_by_role("heading", name="Item 1 of picked-up")).to_be_visible()
    expect(page.locator(".letter-detail")).to_contain_text('7 is not of type "string"')
    expect(page.locator("main")).not_to_contain_text("perdure:trigger")
    expect(page.get_by_text("Config that was tried")).to_have_count(0)
    link = page.get_by_role("link", name="trigger picked-up")
    expect(link).to_have_attribute("href", "/triggers/picked-up")
    assert find_barriers(page) == []
    page.get_by_role("button", name="Discard").click()
    asked = sheet(page, "Discard this dead letter")
    expect(asked.get_by_role("radio")).to_have_count(0)  # no node goes on or fails by it
    asked.get_by_role("button", name="Discard", exact=True).click()
    expect(asked.get_by_role("status")).to_have_text("Discarded.")
    assert site.get("/triggers/picked-up")["parked"] == 0


def test_a_group_is_listed_as_far_as_one_asks(site, page):
    """Pages of the server are put together: what is not shown yet is behind a button, and nothing is left out in silence."""
    run = park(site, "long-group")
    [one] = site.get("/dead-letters?workflow=long-group")["items"]

    def answer(route):
        first = 0 if "cursor=" not in route.request.url else int(route.request.url.split("cursor=")[1].split("&")[0])
        items = [{**one, "dead_letter_id": f"{run}:charge:{number}"} for number in range(first, min(first + 200, 450))]
        route.fulfill(json={"items": items, "next_cursor": str(first + 200) if first + 200 < 450 else None})

    page.route("**/api/v1/dead-letters?*", answer)
    page.goto(f"{site.url}/dead-letters?workflow=long-group&node=charge&code=error")
    rows = page.locator(".groups tbody tr")
    expect(rows).to_have_count(200)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(400)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(450)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
