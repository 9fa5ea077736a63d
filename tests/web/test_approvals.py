"""Approvals in a real browser: on a phone, with a form and its changes, by a quorum, and where a decision is not one's own."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from tests.api.helpers import bearer
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("approvals")]

FORM = {
    "type": "object",
    "required": ["amount"],
    "properties": {
        "amount": {"type": "integer", "title": "Amount in cents"},
        "to": {"type": "string"},
        "urgent": {"type": "boolean", "default": False},
        "account": {"enum": ["main", "savings"]},
    },
}


def asking(name: str, **config: Any) -> dict[str, Any]:
    ask = {"id": "ask", "type": "human", "config": {"title": f"Pay for {name}?", **config}}
    return samples.definition_named(name, ask, samples.value("pay", 1, "ask"))


def sheet(page, name):
    found = page.get_by_role("dialog", name=name)
    expect(found).to_have_attribute("data-ready", "true")
    return found


def is_laid_out(asked):
    """Its title and the way out share a line, and no button is torn."""
    title, close = (asked.locator(f"header {one}").bounding_box() for one in ("h2", "button"))
    assert title is not None
    assert close is not None
    assert title["x"] + title["width"] <= close["x"]
    assert abs(title["y"] + title["height"] / 2 - close["y"] - close["height"] / 2) < 12
    lines = "one => { const range = document.createRange(); range.selectNodeContents(one); return range.getClientRects().length }"
    assert [one.evaluate(lines) for one in asked.locator("footer button").all()] == [1]


def decide(page, verb, title, by="ann", **fields):
    page.locator(".decide").get_by_role("button", name=verb).click()
    asked = sheet(page, title)
    if by:
        asked.get_by_label("decide as").fill(by)
    for label, text in fields.items():
        asked.get_by_label(label).fill(text)
    asked.get_by_role("button", name=verb, exact=True).click()
    return asked


def test_a_form_is_changed_and_approved_on_a_phone(site, browser, watch):
    show = {"amount": 9223372036854775807, "to": "Ada", "account": "main"}
    run = site.start(asking("rent", approvers=["ann", "bob"], show=show, form=FORM))
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark", has_touch=True)
    context.on("page", watch.follow)
    page = context.new_page()
    page.goto(f"{site.url}/approvals")
    page.get_by_role("link", name="Pay for rent?").tap()
    expect(page.get_by_role("heading", name="Pay for rent?")).to_be_visible()
    expect(page.get_by_label("Amount in cents")).to_have_value("9223372036854775807")
    page.get_by_label("Amount in cents").fill("9223372036854775806")
    page.get_by_label("account").select_option("savings")
    changes = page.get_by_role("table", name="What you change")
    expect(changes.get_by_role("row", name="/amount")).to_contain_text("9223372036854775806")
    expect(changes.get_by_role("row", name="/account")).to_contain_text("savings")
    assert find_barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    for button in page.locator(".decide button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44
    said = changes.get_by_role("rowheader").all_inner_texts()
    page.locator(".decide").get_by_role("button", name="Approve").click()
    is_laid_out(sheet(page, "Approve this"))
    page.keyboard.press("Escape")
    decide(page, "Approve", "Approve this", Comment="fine")
    expect(page.locator(".said")).to_contain_text("decided: pay runs now")
    found = site.get(f"/approvals/{run}:ask:1")
    assert found["data"] == {"amount": 9223372036854775806, "to": "Ada", "account": "savings", "urgent": False}
    assert [one["path"] for one in found["changes"]] == said
    context.close()


def test_a_quorum_counts_a_delegation_moves_and_a_rejection_needs_a_reason(site, page):
    site.start(asking("car", approvers=["ann", "bob"], quorum=2))
    page.goto(f"{site.url}/approvals?workflow=car")
    page.get_by_role("link", name="Pay for car?").click()
    decide(page, "Approve", "Approve this")
    expect(page.locator(".said")).to_have_text(re.compile("Approved by you; 1 more needed"))
    expect(page.locator(".ballots")).to_contain_text("ann voted: approve")
    decide(page, "Delegate", "Delegate this", by="bob", **{"To whom": "carl"})
    expect(page.locator(".ballots")).to_contain_text("bob delegated to carl")
    page.keyboard.press("r")
    asked = sheet(page, "Reject this")
    asked.get_by_label("decide as").fill("carl")
    expect(asked.get_by_role("button", name="Reject", exact=True)).to_have_attribute("aria-disabled", "true")
    expect(asked).to_contain_text("Say why you reject.")
    asked.get_by_label("Reason").fill("too dear")
    asked.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator(".reason")).to_contain_text("reject, by carl")
    expect(page.locator(".decide")).to_have_count(0)


def test_what_another_decided_meanwhile_and_what_the_form_lacks_is_said(site, page, watch):
    watch.allowed += ["409", "422"]
    run = site.start(asking("boat", approvers=["ann"], form=FORM, show={"to": "Ada"}))
    page.goto(f"{site.url}/approvals/{run}:ask:1")
    asked = decide(page, "Approve", "Approve this")
    expect(asked.get_by_role("alert")).to_contain_text("amount")
    page.keyboard.press("Escape")
    page.get_by_label("Amount in cents").fill("5")

    def first(route):
        site.post(f"/approvals/{run}:ask:1/decide", {"decision": "approve", "approver": "ann", "data": {"amount": 7}})
        route.continue_()

    page.route("**/decide", first)
    asked = decide(page, "Approve", "Approve this")
    expect(asked.get_by_role("alert")).to_contain_text("decided")
    page.keyboard.press("Escape")
    expect(page.locator(".reason")).to_contain_text("approve, by ann")


def test_nothing_waits_and_the_keys_go_through_the_list(site, page):
    page.goto(f"{site.url}/approvals?workflow=nobody-has-this")
    expect(page.get_by_role("heading", name="No approval fits this filter")).to_be_visible()
    for name in ("plant-1", "plant-2"):
        site.start(asking(name, approvers=["ann"]))
    page.goto(f"{site.url}/approvals")
    expect(page.locator(".approval").nth(1)).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(".approval[aria-current]")).to_have_count(1)
    expect(page.locator(".approval-detail")).to_be_visible()
    assert find_barriers(page) == []


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("closed-approvals"), Options(ui=True, auth="keys,jwt"), closed=True)
    yield made
    made.close()


def log_in(closed, page, name, *roles, tenant="acme"):
    page.goto(f"{closed.url}/login")
    token = bearer(name, *roles, tenant=tenant)["Authorization"].removeprefix("Bearer ")
    page.get_by_label("API key or token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".who")).to_contain_text(f"{name}, tenant {tenant}")


def test_each_sees_and_decides_what_is_theirs(closed, browser):
    closed.client.headers.update(bearer("ann", "admin"))
    run = closed.start(asking("own", approvers=["ann", "bob"]))
    whole = f"{closed.url}/approvals/{run}:ask:1"
    said = {
        ("ann", "admin"): "You started this run, and whoever asks does not decide.",
        ("zoe", "approver"): "You are not asked: others decide this.",
        ("val", "viewer"): "approvals:decide",
    }
    for (name, role), why in said.items():
        context = browser.new_context()
        page = context.new_page()
        log_in(closed, page, name, role)
        page.goto(whole)
        expect(page.locator(".why-not")).to_contain_text(why)
        expect(page.locator(".decide").get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "true")
        by_hand = "path => fetch(path, {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Perdure-Request': '1'}, body: '{\"decision\": \"approve\"}'}).then(one => one.status)"
        assert page.evaluate(by_hand, f"/api/v1/approvals/{run}:ask:1/decide") in (403, 409)
        assert closed.get(f"/approvals/{run}:ask:1")["votes"] == {}
        context.close()
    context = browser.new_context()
    page = context.new_page()
    log_in(closed, page, "mallory", "admin", tenant="other")
    page.goto(whole)
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    expect(page.locator(".approval")).to_have_count(0)
    context.close()
    context = browser.new_context()
    page = context.new_page()
    log_in(closed, page, "bob", "approver")
    page.goto(f"{closed.url}/approvals?mine=1")
    page.get_by_role("link", name="Pay for own?").click()
    decide(page, "Approve", "Approve this", by="")
    expect(page.locator(".said")).to_contain_text("decided: pay runs now")
    context.close()


def test_several_of_one_node_are_decided_one_by_one_with_what_became_of_each(site, page, watch):
    watch.allowed.append("409")
    runs = [site.start(asking("tips", approvers=["ann"])) for _ in range(3)]
    other = site.start(asking("wages", approvers=["ann"]))
    page.goto(f"{site.url}/approvals")
    expect(page.get_by_role("link", name="Pay for tips?")).to_have_count(3)
    page.get_by_role("button", name="Decide several").click()
    verbs = page.get_by_role("toolbar", name="Decide several")
    expect(verbs.get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "true")
    boxes = page.get_by_role("checkbox", name="Choose Pay for tips?")
    for box in boxes.all():
        box.check()
    expect(page.get_by_role("checkbox", name="Choose Pay for wages?")).to_be_disabled()  # another node
    assert find_barriers(page) == []
    verbs.get_by_role("button", name="Approve").click()
    asked = sheet(page, "Approve 3 approvals")
    asked.get_by_label("decide as").fill("ann")
    site.post(f"/approvals/{runs[1]}:ask:1/decide", {"decision": "reject", "approver": "ann"})
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Approve", exact=True).click()
    expect(asked).to_contain_text("2 decided, 1 refused.")
    expect(asked.get_by_role("listitem").filter(has_text="failed")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Pay for tips?")).to_have_count(0)
    found = [site.get(f"/approvals/{run}:ask:1")["decision"] for run in runs]
    assert found == ["approve", "reject", "approve"]
    assert site.get(f"/approvals/{other}:ask:1")["state"] == "pending"


def test_links_to_decide_are_made_once_and_one_of_them_decides(site, page):
    run = site.start(asking("flowers", approvers=["ann"]))
    page.goto(f"{site.url}/approvals/{run}:ask:1")
    page.get_by_role("button", name="Links to decide").click()
    asked = sheet(page, "Links by which one person decides")
    expect(asked.get_by_label("Who decides by them")).to_have_value("ann")
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Make links").click()
    expect(asked).to_contain_text("They are shown once.")
    link = asked.locator("code.key").first.inner_text()
    assert re.search("/links/", link)
    assert find_barriers(page) == []
    page.keyboard.press("Escape")
    page.goto(link)
    page.get_by_role("button").first.click()
    found = site.get(f"/approvals/{run}:ask:1")
    assert (found["decision"], found["decided_by"]) == ("approve", "ann")
