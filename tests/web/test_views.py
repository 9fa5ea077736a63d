"""Filters of the list that were given a name: kept on the server, opened by their address, deleted after a question."""

import re

import pytest
from playwright.sync_api import expect

from tests.web import samples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("run-page")]


def test_a_filter_is_saved_under_a_name_opened_by_it_and_deleted(site, page, context):
    site.start(samples.definition_named("viewed", samples.value("a", 1)), wait=60)
    page.goto(f"{site.url}/runs?workflow=viewed")
    expect(page.locator("tr.row")).to_have_count(1)
    page.get_by_role("button", name="Save this filter").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("only <b>viewed")
    dialog.get_by_label("For everybody of this tenant").check()
    dialog.get_by_role("button", name="Save").click()
    views = page.get_by_role("navigation", name="Saved views")
    saved = views.get_by_role("link", name="only <b>viewed")
    expect(saved).to_have_attribute("aria-current", "true")
    [kept] = [one for one in site.get("/views")["items"] if "viewed" in one["name"]]
    assert (kept["query"], kept["shared"]) == ("workflow=viewed", True)

    other = context.new_page()
    other.goto(f"{site.url}/runs?view=only+%3Cb%3Eviewed")  # the name alone means its filter
    expect(other).to_have_url(re.compile(r"\?workflow=viewed&view=only"))
    expect(other.locator("tr.row")).to_have_count(1)
    other.close()

    page.locator(".chip").filter(has_text="completed").click()  # no longer as it was saved
    expect(saved).not_to_have_attribute("aria-current", "true")
    saved.click()
    page.get_by_role("button", name="Delete this view").click()
    expect(dialog).to_contain_text("for everybody of this tenant")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(saved).to_have_count(0)
    expect(page.locator("tr.row")).to_have_count(1)  # the filter stays
    assert [one for one in site.get("/views")["items"] if "viewed" in one["name"]] == []
