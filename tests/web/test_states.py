"""Each screen while it waits for the server, when the server fails, and when there is nothing: said in words, without a barrier."""

import json
import re

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site, Watch

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("states")]

AWAY = {
    "code": "internal",
    "detail": "the database is away",
    "status": 500,
    "title": "x",
    "type": "x",
    "request_id": "r-17",
}
ASKING = {
    "home": "/",
    "runs": "/runs",
    "run": "/runs/{run}",
    "workflows": "/workflows",
    "workflow": "/workflows/fulfil",
    "versions": "/workflows/fulfil/diff?before=1&after=2",
    "start": "/workflows/fulfil/start",
    "edit": "/workflows/fulfil/edit",
    "patch": "/runs/{run}/edit",
    "print": "/runs/{run}/print",
    "approvals": "/approvals",
    "approval": "/approvals/{run}:manager:1",
    "letters": "/dead-letters",
    "workers": "/workers",
    "queue": "/queues/default",
    "node-type": "/node-types/map",
    "triggers": "/triggers",
    "trigger": "/triggers/nightly",
    "calendar": "/schedules",
    "run-costs": "/runs/{run}?tab=costs",
    "tools": "/agents",
    "agent-sessions": "/agents?tab=sessions",
    "assets": "/assets",
    "costs": "/costs",
    "budgets": "/costs?tab=budgets",
    "keys": "/admin/keys",
    "audit": "/admin/audit",
}
"""Every screen that asks the server for what it shows."""

# In one go: a screen that asks again and again by itself may have no button any more when it is pressed.
AGAIN = "[...document.querySelectorAll('button')].find(one => one.textContent === 'Retry')?.click()"
ANSWERS = re.compile(r"/api/v1/(?!ui/boot|me$)")


@pytest.fixture(scope="module")
def run(site):
    for definition in samples.versions_of(samples.FULFIL):
        site.post("/workflows?reason=as+a+sample", definition)
    for trigger in samples.TRIGGERS:
        site.post("/triggers", trigger)
    return site.start(samples.ORDER)


@pytest.mark.parametrize(("name", "scheme", "width"), [
    (name, ("light", "dark")[number % 2], (1280, 390)[number // 2 % 2]) for number, name in enumerate(ASKING)
])  # fmt: skip
def test_a_screen_waits_fails_and_is_asked_again(site, browser, watch, run, name, scheme, width):
    watch.allowed.append("500")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.on("page", watch.follow)
    page = context.new_page()
    held, mode = [], ["hold"]

    def answer(route):
        if mode == ["hold"]:
            held.append(route)
        elif mode == ["fail"]:
            route.fulfill(status=500, body=json.dumps(AWAY), content_type="application/problem+json")
        else:
            route.continue_()

    page.route(ANSWERS, answer)
    page.goto(site.url + ASKING[name].format(run=run))
    expect(page.locator("[aria-busy=true] .skeleton:visible").first).to_be_visible()  # in the form of what comes
    expect(page.locator("h1").first).to_be_attached()
    mode[:] = ["fail"]
    for route in held:
        answer(route)
    alert = page.get_by_role("alert").first
    expect(alert).to_contain_text("the database is away")
    expect(alert).to_contain_text("r-17")
    assert find_barriers(page) == []
    mode[:] = ["pass"]
    page.evaluate(AGAIN)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("h1").first).to_be_attached()
    context.close()


EMPTY = {
    "/": "No runs yet",
    "/runs": "No runs yet",
    "/workflows": "No workflow is registered yet",
    "/approvals": "Nothing waits for a person",
    "/dead-letters": "No dead letters",
    "/triggers": "No trigger is registered",
    "/schedules": "Calendar of schedules",
    "/agents": "No tool is in the registry",
    "/agents?tab=sessions": "No agent has a session",
    "/assets": "No file is kept",
    "/costs": "Nothing was used in this time",
    "/costs?tab=budgets": "No budget is set",
    "/admin/keys": "No keys yet",
    "/admin/audit": "Nothing has been recorded yet",
    "/workers": "Workers and queues",
    "/search?q=nothing": "Search",
}


def test_where_there_is_nothing_a_screen_says_why_and_what_to_do(tmp_path, browser):
    empty = Site(tmp_path, Options(ui=True))
    watch = Watch(empty.url)
    looks = [("light", 390), ("dark", 1280)]
    contexts = [
        browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) for scheme, width in looks
    ]
    try:
        for context in contexts:
            context.on("page", watch.follow)
        pages = [context.new_page() for context in contexts]
        for number, (path, said) in enumerate(EMPTY.items()):
            page = pages[number % 2]
            page.goto(empty.url + path)
            expect(page.locator("main")).to_contain_text(said)
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            assert find_barriers(page) == [], path
    finally:
        for context in contexts:
            context.close()
        empty.close()
    watch.check()
