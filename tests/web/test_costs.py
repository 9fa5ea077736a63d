"""What runs cost, and what is done about it: of one run, of all, budgets; and what was decided about calls of tools."""

import re

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.agents.test_transcripts import PRICE, READ, RULES, SEND, agent
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site
from tests.web.test_approvals import sheet

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("costs")]

DEAR = {"input": 1_000.0, "output": 2_000.0}
"""Dollars for a million tokens: a budget of some dollars is used up by one answer."""
ANSWERS = [{"say": "Dear.", "usage": {"input": 10_000, "output": 500}}]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server of its own: what its runs use is added up."""
    made = Site(tmp_path_factory.mktemp("costs"), Options(ui=True))
    yield made
    made.close()


def clerk(name, **more):
    node = {"id": "clerk", "type": "agent", "config": agent(READ, SEND, **more)}
    return samples.definition_named(name, node)


def asking(name, **more):
    node = {"id": "ask", "type": "llm", "config": {"model": "scripted", "prompt": "Say it."}}
    return {**samples.definition_named(name, node), **more}


def test_a_run_says_what_it_cost_and_what_was_decided_about_its_calls(site, page):
    with ScriptedModel(RULES, price=PRICE):
        run = site.start(clerk("clerks"))
        page.goto(f"{site.url}/runs/{run}")
        expect(page.locator("canvas")).to_have_attribute("data-nodes", "1")
        page.keyboard.press("7")
        expect(page).to_have_url(re.compile(r"\?tab=costs$"))
        guards = page.get_by_role("table", name="What was decided about calls of tools")
        expect(guards.locator("tbody tr")).to_have_count(3)
        expect(guards).to_contain_text("a person was asked")
        by_node = page.get_by_role("table", name="By node")
        expect(by_node.get_by_role("img", name="100 %")).to_be_visible()
        expect(page.get_by_role("table", name="By model")).to_contain_text("scripted")
        wanted = site.get(f"/runs/{run}/usage")["total"]
        figures = page.locator(".figures")
        expect(figures).to_contain_text(f"{wanted['input']:,}")
        expect(figures).to_contain_text(f"{wanted['calls']:,}")
        guards.get_by_role("button", name="Open the call of mail").click()
        expect(guards.locator(".opened")).to_contain_text("untrusted")
        expect(guards.locator(".opened").get_by_role("link", name="Look at the approval")).to_be_visible()
        page.evaluate("scrollTo(0, 0)")  # what is half below the top bar counts as small
        assert find_barriers(page) == []
        page.get_by_label("Decision").select_option("ask")
        expect(guards.locator("tbody tr")).to_have_count(1)
        by_node.get_by_role("button", name="Open node clerk").click()
        expect(page.locator("aside.drawer")).to_contain_text("Transcript")
        [approval] = site.get(f"/approvals?run_id={run}")["items"]
        site.post(f"/approvals/{approval['approval_id']}/decide", {"decision": "approve", "approver": "ann"})
        expect(page.locator(".run-head .state")).to_have_text("completed")
        expect(guards).to_contain_text("approve by ann")


def test_a_run_that_asked_no_model_says_so(site, page):
    run = site.start(samples.definition_named("free", samples.value("a", 1)), wait=60)
    page.goto(f"{site.url}/runs/{run}?tab=costs")
    expect(page.get_by_role("heading", name="Nothing was used")).to_be_visible()
    assert find_barriers(page) == []


def test_a_run_whose_budget_is_used_up_is_given_more_on_the_page(site, page):
    with ScriptedModel(ANSWERS, price=DEAR):
        run = site.start(asking("short", limits={"budget": {"usd": 0.001}}))
        page.goto(f"{site.url}/runs/{run}?tab=costs")
        line = page.locator(".reason")
        expect(line).to_contain_text("the budget of this run is used up")
        expect(page.locator(".limit")).to_contain_text("$0.001")
        line.get_by_role("button", name="Resume").click()
        asked = sheet(page, "Resume this run")
        expect(asked.locator("footer")).to_contain_text("give it a larger one")
        asked.get_by_label("Dollars").fill("much")
        expect(asked.locator("footer")).to_contain_text("this is not a number")
        asked.get_by_label("Dollars").fill("500")
        assert find_barriers(page) == []
        asked.get_by_role("button", name="Resume", exact=True).click()
        expect(asked).to_contain_text("resumed")
        page.keyboard.press("Escape")
        expect(page.locator(".run-head .state")).to_have_text("completed")
        expect(page.locator(".limit")).to_contain_text("of $500.00")


def test_usage_is_added_up_by_workflow_model_and_day(site, page):
    with ScriptedModel(ANSWERS, price=DEAR):
        for name in ("letters", "letters", "summaries"):
            site.start(asking(name), wait=60)
    total = site.get("/usage")["total"]
    page.goto(f"{site.url}/costs")
    table = page.get_by_role("table", name="Usage")
    expect(table.get_by_role("row", name="letters")).to_contain_text("20,000")
    expect(page.locator(".figures")).to_contain_text(f"{total['calls']:,}")
    page.get_by_role("radio", name="Model").check(force=True)
    expect(page).to_have_url(re.compile("by=model"))
    expect(table).to_contain_text("scripted")
    page.get_by_role("radio", name="Day").check(force=True)
    expect(table.locator("tbody tr").first).to_contain_text(re.compile(r"20\d\d-\d\d-\d\d"))
    assert find_barriers(page) == []
    page.get_by_label("Only workflow").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Nothing was used in this time")).to_be_visible()


def test_a_budget_is_set_changed_and_deleted_on_the_page(site, page):
    page.goto(f"{site.url}/costs?tab=budgets")
    page.get_by_role("button", name="Set a budget").click()
    asked = sheet(page, "Set a budget")
    expect(asked.locator("footer")).to_contain_text("Say at least one limit.")
    asked.get_by_label("Of what").select_option("workflow")
    asked.get_by_label("Workflow").fill("letters")
    asked.get_by_label("In", exact=True).select_option("day")
    asked.get_by_label("Dollars").fill("25")
    asked.get_by_label("Calls").fill("100")
    assert find_barriers(page) == []
    asked.get_by_text("Copy as command").click()
    expect(asked).to_contain_text("perdure budgets set workflow:letters --usd 25 --calls 100 --per day")
    asked.get_by_role("button", name="Save").click()
    table = page.get_by_role("table", name="Budgets")
    row = table.get_by_role("row", name="letters")
    expect(row).to_contain_text("$25.00")
    expect(row).to_contain_text("of 100")
    kept = site.get("/budgets/workflow:letters")
    assert (kept["usd"], kept["calls"], kept["per"]) == (25, 100, "day")
    row.get_by_role("button", name="Change").click()
    asked = sheet(page, "Set a budget")
    asked.get_by_label("Calls").fill("")
    asked.get_by_label("Dollars").fill("30")
    asked.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("$30.00")
    wait_until(lambda: site.get("/budgets/workflow:letters")["calls"] is None, "it takes the place of the one before")
    assert find_barriers(page) == []
    row.get_by_role("button", name="Delete").click()
    sheet(page, "Delete the budget of workflow:letters?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No budget is set")).to_be_visible()
    assert site.get("/budgets")["items"] == []
