"""Agents in a real browser: what is said to one at work, the tools they find, and the sessions in which they remember."""

import re
import threading

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.agents.test_loop import call
from tests.agents.test_sessions import PIPELINE, piped
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import PATIENCE_SECONDS, Site
from tests.web.test_approvals import sheet

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("agents")]

begun, go_on = threading.Event(), threading.Event()


def search(year: int) -> str:
    """Looks for invoices."""
    begun.set()
    assert go_on.wait(PATIENCE_SECONDS)
    return f"invoices of {year}"


def agent(*tools, **more):
    config = {"model": "scripted", "prompt": "Do it.", "tools": list(tools), **more}
    return {"id": "clerk", "type": "agent", "config": config}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("agents"), Options(ui=True))
    yield made
    made.close()


def test_something_is_said_to_an_agent_at_work_and_it_reads_it_before_its_next_turn(site, page):
    begun.clear()
    go_on.clear()
    with ScriptedModel([{"calls": [call("search", year=2020)], "times": 1}, {"say": "Done."}]) as model:
        tool = {"function": "tests.web.test_agents:search", "effect": "read"}
        run = site.start(samples.definition_named("mailed", agent(tool)))
        assert begun.wait(PATIENCE_SECONDS)
        page.goto(f"{site.url}/runs/{run}?node=clerk")
        page.get_by_role("button", name="Tell").click()
        asked = sheet(page, "Tell clerk")
        expect(asked.locator("footer")).to_contain_text("Write what it is told.")
        asked.get_by_label("Message").fill("Only of <b>this</b> year.")
        assert find_barriers(page) == []
        asked.get_by_role("button", name="Tell", exact=True).click()
        expect(asked).to_contain_text("The agent reads it before its next turn.")
        go_on.set()
        page.keyboard.press("Escape")
        expect(page.locator(".run-head .state")).to_have_text("completed")
        expect(page.get_by_role("button", name="Tell")).to_have_count(0)
        said = [part.text for message in model.seen[-1].messages for part in message.parts if hasattr(part, "text")]
        assert said[-1] == "Only of <b>this</b> year."


def test_a_pipeline_is_promoted_and_retired_by_a_person(site, page):
    for number in range(2):
        with ScriptedModel(piped(10 + number)):
            site.start(samples.definition_named("pipes", agent("execute_pipeline")), wait=60)
    page.goto(f"{site.url}/agents")
    row = page.get_by_role("table", name="Tools").locator("tbody tr").first
    expect(row).to_contain_text("candidate")
    expect(row).to_contain_text("used in 2 runs")
    row.get_by_role("button", name="Promote").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_have_attribute("data-ready", "true")
    expect(asked).to_contain_text(PIPELINE[1]["step"])
    asked.get_by_label("Though the runs of one person alone have used it").check()
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Promote", exact=True).click()
    expect(asked).to_contain_text("Agents find it now.")
    page.keyboard.press("Escape")
    expect(row).to_contain_text("live")
    [tool] = site.get("/tools?state=live")["items"]
    row.get_by_role("button", name="Retire").click()
    asked = sheet(page, f"Retire {tool['name']}")
    asked.get_by_role("button", name="Retire").click()
    expect(asked).to_contain_text("No agent finds it any more.")
    page.keyboard.press("Escape")
    expect(row).to_contain_text("retired")
    row.get_by_role("button", name=tool["name"]).click()
    expect(page.locator(".opened")).to_contain_text("Arguments")
    assert find_barriers(page) == []
    page.get_by_label("State").select_option("candidate")
    expect(page.get_by_role("heading", name="No tool fits this filter")).to_be_visible()


def test_a_workflow_that_is_exposed_is_a_tool_that_can_be_pinned(site, page):
    exposed = {**samples.FULFIL, "name": "refund", "expose": {"tool": True, "effect": "write"}}
    site.post("/workflows", exposed)
    page.goto(f"{site.url}/agents?q=refund")
    row = page.get_by_role("table", name="Tools").get_by_role("row", name="refund")
    expect(row).to_contain_text("writes")
    row.get_by_role("button", name="Pin").click()
    asked = sheet(page, "Pin refund")
    asked.get_by_role("button", name="Pin", exact=True).click()
    expect(asked).to_contain_text("Agents are kept to it.")
    page.keyboard.press("Escape")
    expect(row).to_contain_text("kept to version 1")
    expect(row.get_by_role("button", name="Pin")).to_have_count(0)


def test_a_session_is_read_and_forgotten(site, page):
    with ScriptedModel([{"say": "You are <i>Ada</i>."}]):
        definition = samples.definition_named("chat", agent(session="ada/1 ü", prompt="Who am I?"))
        run = site.start(definition, wait=60)
    page.goto(f"{site.url}/agents?tab=sessions")
    table = page.get_by_role("table", name="Sessions")
    expect(table).to_contain_text("chat")
    table.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("session=ada%2F1"))
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("ada/1 ü")
    expect(page.locator("main")).to_contain_text("You are <i>Ada</i>.")
    expect(page.get_by_role("link", name="Open its run")).to_have_attribute("href", re.compile(run))
    assert find_barriers(page) == []
    page.get_by_role("button", name="Forget").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_have_attribute("data-ready", "true")
    asked.get_by_role("button", name="Forget", exact=True).click()
    expect(asked).to_contain_text("Forgotten.")
    asked.get_by_role("link", name="Sessions").click()
    expect(page.get_by_role("heading", name="No agent has a session")).to_be_visible()
    assert site.get("/agent-sessions")["items"] == []
