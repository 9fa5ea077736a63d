"""Workflows in the browser: found, started by a form, compared, and rolled out a percentage at a time."""

import re

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.web import samples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("workflows")]


def register(site, name):
    for definition in samples.versions_of({**samples.FULFIL, "name": name}):
        site.post("/workflows?reason=as+a+test", definition)
    return name


def test_a_run_is_started_by_the_form_and_seen_to_its_end(site, page, watch):
    watch.allowed.append("422")  # the first try is to be refused
    name = register(site, "by-form")
    page.goto(f"{site.url}/workflows?q=by-form")
    page.get_by_role("link", name=name).click()
    expect(page.locator("canvas")).to_have_attribute("data-nodes", "4")
    page.get_by_role("link", name="Start").click()
    expect(page.get_by_label("JSON")).to_have_value('{\n  "quantity": 1\n}')
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("city")
    page.get_by_label("City").fill("Delft")
    page.get_by_label("Quantity").fill("9223372036854775807")
    page.get_by_label("Size").select_option("large")
    page.get_by_role("button", name="Add").click()
    page.locator(".list-row input").fill("a lamp")
    expect(page.get_by_label("JSON")).to_have_value(re.compile(r"9223372036854775807"))
    page.get_by_label("Tags").fill("team=blue")
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile("/runs/[^/]+$"))
    expect(page.locator(".run-head .state")).to_have_text("completed")
    expect(page.get_by_role("treeitem").filter(has_text="completed")).to_have_count(4)
    run = site.get(f"/runs/{page.url.rsplit('/', 1)[1]}")
    assert run["inputs"] == {"city": "Delft", "quantity": 9223372036854775807, "size": "large", "lines": ["a lamp"]}
    assert run["tags"] == {"team": "blue"}
    page.goto(f"{site.url}/workflows/{name}/start")
    page.get_by_role("button", name="Take the inputs of the last run").click()
    expect(page.get_by_label("City")).to_have_value("Delft")
    page.get_by_label("JSON").fill('{"city": ')
    expect(page.get_by_role("alert")).to_contain_text("This is no JSON")
    expect(page.get_by_role("button", name="Start")).to_be_disabled()


def test_versions_are_compared_and_an_alias_is_rolled_out_and_back(site, page, watch):
    watch.allowed.append("409")  # the second of two moves at once is to be refused
    name = register(site, "rolled-out")
    alias = f"/workflows/{name}/aliases/live"
    site.client.put(alias, json={"version": 2})
    page.goto(f"{site.url}/workflows/{name}?tab=versions")
    page.get_by_label("Compare from version 1").check()
    page.get_by_role("link", name="Compare these").click()
    expect(page).to_have_url(re.compile(r"before=1&after=3$"))
    expect(page.locator(".changes")).to_contain_text("thank")
    expect(page.locator(".changes")).to_contain_text("charge")
    expect(page.locator("canvas")).to_have_count(2)
    page.goto(f"{site.url}/workflows/{name}?tab=aliases")
    card = page.locator(".alias")

    def raise_to(percent):
        card.get_by_label("Percentage of version 3").fill(str(percent))
        card.get_by_role("button", name="Save").click()
        expect(card.locator("h2").first).to_contain_text(f"version 3: {percent} %")

    def shares():
        moves = site.get(f"{alias}/moves")["items"]
        return {one["version"]: one["percent"] for one in moves[0]["versions"]}

    card.get_by_role("button", name="Move").click()
    card.get_by_label("Version", exact=True).select_option("3")
    card.get_by_role("button", name="Add a version").click()
    raise_to(10)
    assert shares() == {2: 90, 3: 10}
    for number in range(5):
        body = {"workflow": f"{name}@live", "inputs": {"city": "Delft"}, "rollout_key": f"c{number}"}
        site.post("/runs", {**body, "wait_seconds": 30})
    card.get_by_role("button", name="Move").click()
    card.get_by_label("Percentage of version 3").fill("25")
    expect(card).to_contain_text("version 3: 10 → 25 %: who has it keeps it.")
    site.client.put(alias, json={"version": 1, "reason": "meanwhile"})
    card.get_by_role("button", name="Save").click()
    expect(card).to_contain_text("Another move came meanwhile.")
    expect(card.locator("h2").first).to_contain_text("version 1: 100 %")  # as it is now; nothing was overwritten
    assert shares() == {1: 100}
    card.get_by_role("button", name="Roll back").click()
    expect(card.locator("h2").first).to_contain_text("version 3: 10 %")
    assert shares() == {2: 90, 3: 10}


def test_deleting_says_which_runs_prevent_it(site, page):
    human = {"id": "boss", "type": "human", "config": {"approvers": ["ann"]}}
    site.post("/workflows", {"name": "in-use", "nodes": [human]})
    run = site.post("/runs", {"workflow": "in-use"})["run_id"]
    page.goto(f"{site.url}/workflows/in-use")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(run)
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    site.post(f"/runs/{run}/cancel", {"force": True})
    wait_until(lambda: site.get(f"/runs/{run}")["state"] == "cancelled", "the run is cancelled")
    page.reload()
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page).to_have_url(f"{site.url}/workflows")
    assert site.client.get("/workflows/in-use").status_code == 404


def test_the_list_says_how_long_runs_take_and_when_they_began(site, page):
    name = register(site, "by-hour")
    page.goto(f"{site.url}/workflows?q={name}")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("never")
    assert page.locator(".spark").count() == 0
    run = site.post("/runs", {"workflow": name, "inputs": {"city": "Delft"}, "wait_seconds": 60})
    assert run["state"] == "completed"
    page.reload()
    expect(row.get_by_role("img")).to_have_accessible_name("1 started in the last 24 hours, at most 1 in an hour")
    expect(row.locator(".spark rect:not(.none)")).to_have_count(1)
    expect(row).to_contain_text(re.compile(r"\d ms|\d s"))
    expect(row).not_to_contain_text("none ended")
