"""Text of others in the places that came last: what approvers, agents, files, dead letters and versions say stays text (X25)."""

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import perdure
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.attack.marks import attack
from tests.waiting import wait_until
from tests.web import samples
from tests.web.test_hostile_live import TEXTS as LIVE
from tests.web.test_hostile_live import is_only_text, open_page

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]

TEXTS = [text for text in LIVE if "{{" not in text]  # a template is read by the server
ALL = " ".join(TEXTS)


def shows_all(page: Any, place: str) -> None:
    """Every text is seen there as it is, and nothing came of it."""
    shown = page.locator(place).inner_text()
    assert [text for text in TEXTS if text not in shown] == []
    is_only_text(page)


@attack("X25", "markup in what an approver is shown, in the form and in comments")
def test_what_an_approver_sees_stays_text(site, context):
    properties = {
        f"f{number}": {"type": "string", "title": text, "description": text} for number, text in enumerate(TEXTS)
    }
    config = {
        "title": TEXTS[1],
        "approvers": ["ann", "bob", TEXTS[0]],
        "quorum": 2,
        "show": {"texts": TEXTS, **{text: text for text in TEXTS}},
        "form": {"type": "object", "properties": properties},
    }
    ask = {"id": "ask", "type": "human", "config": config}
    run = site.start(samples.definition_named("hostile-approval", ask))
    wait_until(lambda: site.get(f"/approvals?run_id={run}")["items"], "the approval is asked for")
    [approval] = site.get(f"/approvals?run_id={run}")["items"]
    name = approval["approval_id"]
    body = {"decision": "approve", "approver": "ann", "comments": ALL}
    site.post(f"/approvals/{name}/decide", body)
    page = open_page(context)
    page.goto(f"{site.url}/approvals/{quote(name)}")
    expect(page.locator(".approval, main").first).to_contain_text("ann voted")
    page.locator("label", has_text=TEXTS[2]).first.wait_for()
    shows_all(page, "main")
    page.goto(f"{site.url}/approvals")
    expect(page.locator("main")).to_contain_text(TEXTS[1])
    is_only_text(page)
    site.post(f"/runs/{run}/cancel", {"reason": ALL})


@attack("X25", "markup in what a model says, is told and calls, and in the session that keeps it")
def test_what_an_agent_says_and_is_told_stays_text(site, context):
    with ScriptedModel([{"say": ALL}]):
        config = {"model": "scripted", "prompt": ALL, "instructions": ALL, "session": TEXTS[1], "tools": []}
        node = {"id": "clerk", "type": "agent", "config": config}
        run = site.start(samples.definition_named("hostile-agent", node), wait=60)
    page = open_page(context)
    page.goto(f"{site.url}/runs/{run}?node=clerk")
    expect(page.locator(".transcript .answer")).to_have_count(1)
    shows_all(page, ".transcript")
    page.goto(f"{site.url}/agents?tab=sessions&key={quote(TEXTS[1])}")
    page.get_by_role("link", name=TEXTS[1]).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(TEXTS[1])
    expect(page.locator("main")).to_contain_text(TEXTS[2])
    shows_all(page, "main")


def give() -> dict[str, object]:
    return {"files": [perdure.Asset(text, "text/plain", f"{number}.txt") for number, text in enumerate(TEXTS)]}


@attack("X25", "markup in files and in the names that they are kept under")
def test_files_and_their_names_stay_text(site, context):
    task = {"id": "give", "type": "task", "config": {"function": "tests.web.test_hostile_places:give"}}
    run = site.start(samples.definition_named("hostile-files", task), wait=60)
    kept = []
    for number, text in enumerate(TEXTS[:8]):
        body = {"run_id": run, "node": "give", "name": text, "pointer": f"/files/{number}", "visit": 1, "item": None}
        answer = site.client.post("/assets", json=body)
        assert answer.status_code in (200, 201, 422), answer.text  # a name that no asset has is refused
        kept += [text] if answer.is_success else []
    page = open_page(context)
    page.goto(f"{site.url}/runs/{run}?node=give")
    for number in (0, 1, 6):
        file = page.locator("aside.drawer").get_by_role("group", name=f"File {number}.txt")
        file.get_by_role("button", name="Preview").click()
        expect(file.get_by_role("group", name="Content as text")).to_have_text(TEXTS[number])
    is_only_text(page)
    page.goto(f"{site.url}/assets")
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    shown = page.locator("main").inner_text()
    assert [text for text in kept if text not in shown] == []
    is_only_text(page)


def fail(texts: list[str]) -> None:
    raise ValueError(" ".join(texts))


@attack("X25", "markup in the error and the config of a dead letter")
def test_what_is_parked_stays_text(site, context):
    config = {"function": "tests.web.test_hostile_places:fail", "args": {"texts": TEXTS}}
    node = {"id": "broken", "type": "task", "config": config, "retry": 1, "on_failure": "park"}
    run = site.start(samples.definition_named("hostile-letter", node))
    wait_until(lambda: site.get(f"/runs/{run}/nodes/broken")["state"] == "parked", "the node is parked")
    page = open_page(context)
    page.goto(f"{site.url}/dead-letters/{run}:broken")
    expect(page.locator(".failure")).to_contain_text(TEXTS[1])
    shows_all(page, ".failure")
    closed = ".json .fold[aria-expanded=false]"
    while page.locator(closed).count():
        page.evaluate("closed => document.querySelectorAll(closed).forEach(one => one.click())", closed)
    shows_all(page, "main")
    page.goto(f"{site.url}/dead-letters?workflow=hostile-letter&node=broken")
    expect(page.locator(".groups")).to_contain_text(TEXTS[1])
    is_only_text(page)
    page.goto(f"{site.url}/runs/{run}")
    expect(page.locator(".reason")).to_be_visible()
    is_only_text(page)
    site.post(f"/runs/{run}/cancel", {})


@attack("X25", "markup in the description, the inputs and the reason of a version, and in the reason of an alias")
def test_what_a_version_says_stays_text(site, context):
    properties = {f"f{number}": {"type": "string", "title": text} for number, text in enumerate(TEXTS)}
    definition = {
        **samples.definition_named("hostile-version", samples.value("a", TEXTS)),
        "description": ALL,
        "inputs": {"type": "object", "properties": properties},
    }
    site.post(f"/workflows?reason={quote(TEXTS[1])}", definition)
    page = open_page(context)
    for path, place in (
        ("", "main"),
        ("?tab=versions", "main"),
        ("?tab=inputs", "main"),
        ("/start", "main"),
        ("/edit", "main"),
    ):
        page.goto(f"{site.url}/workflows/hostile-version{path}")
        expect(page.locator(place)).to_contain_text("hostile-version")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if path in ("", "/start"):
            expect(page.locator(place)).to_contain_text(TEXTS[5])
            shows_all(page, place)
        is_only_text(page)
    page.goto(f"{site.url}/workflows?q=hostile-version")
    expect(page.locator("main")).to_contain_text(TEXTS[0])
    is_only_text(page)
