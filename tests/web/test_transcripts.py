"""What a model said and called is read beside its node, with what was decided about each call."""

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.agents.test_transcripts import PRICE, READ, RULES, SEND, agent
from tests.web import samples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("run-page")]


def test_an_agent_is_followed_turn_by_turn_and_its_call_leads_to_the_approval(site, page):
    with ScriptedModel(RULES, price=PRICE):
        node = {"id": "clerk", "type": "agent", "config": agent(READ, SEND, instructions="Be <b>kind</b>.")}
        run = site.start(samples.definition_named("spoken", node))
        page.goto(f"{site.url}/runs/{run}?node=clerk")
        said = page.locator(".transcript")
        expect(said).to_contain_text("Be <b>kind</b>.")
        expect(said.locator(".answer")).to_have_count(2)
        first, second = said.locator(".answer").nth(0), said.locator(".answer").nth(1)
        expect(first.locator(".made").nth(0)).to_contain_text("allowed")
        expect(first.locator(".made").nth(1)).to_contain_text("not a valid call")
        expect(second).to_contain_text("I write to ann.")
        expect(second.locator(".made")).to_contain_text("a person was asked")
        expect(second.locator(".made")).to_contain_text("under way")
        [approval] = site.get(f"/approvals?run_id={run}")["items"]
        link = second.get_by_role("link", name="Look at the approval")
        expect(link).to_have_attribute("href", f"/approvals/{quote(approval['approval_id'])}")
        site.post(f"/approvals/{approval['approval_id']}/decide", {"decision": "approve", "approver": "ann"})
        expect(said.locator(".answer")).to_have_count(3)
        expect(second.locator(".made")).to_contain_text("made")
        expect(said).to_contain_text("Done.")
