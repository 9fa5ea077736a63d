"""What a person meets who works with it all day: a server that is restarted, other tenants and roles, secrets."""

import json
import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error, expect

from perdure.access.roles import PERMISSIONS, Permission, Role
from perdure.api import Options
from tests.api.helpers import bearer
from tests.waiting import wait_until
from tests.web import samples
from tests.web.conftest import PATIENCE_SECONDS, Site, Watch

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("scenarios")]


@pytest.fixture
def opened(browser):
    """A context of its own for a server of its own; what its pages must not do is checked at the end."""
    made = []

    def open_(site, *allowed):
        watch = Watch(site.url)
        watch.allowed += [*allowed, "ERR_", "net::"]  # pages outlive their server for a moment
        context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        context.on("page", watch.follow)
        made.append((context, watch))
        return context

    yield open_
    for context, watch in made:
        context.close()
        watch.check()


def picture_of(page):
    """What the page shows of the run: its state, and each node with its own."""
    expect(page.get_by_role("treeitem").first).to_be_visible()
    return page.locator(".run-head .state").inner_text(), page.get_by_role("treeitem").all_inner_texts()


def test_a_page_outlives_its_server_and_shows_what_a_fresh_page_shows(tmp_path, opened):
    first = Site(tmp_path, Options(ui=True))
    context = opened(first, "ERR_", "net::")
    run = first.start(samples.ORDER)
    page = context.new_page()
    page.goto(f"{first.url}/runs/{run}")
    expect(page.get_by_role("treeitem").filter(has_text="manager")).to_contain_text("waiting")
    expect(page.locator(".live").first).to_have_text("live")
    first.close()
    expect(page.locator(".banner")).to_contain_text(re.compile(r"No answer since \d\d:\d\d:\d\d"))
    expect(page.get_by_role("treeitem").filter(has_text="manager")).to_contain_text("waiting")  # it stays readable
    again = Site(tmp_path, Options(ui=True), port=urlsplit(first.url).port or 0)
    try:
        again.post(f"/approvals/{run}:manager:1/decide", {"decision": "approve", "approver": "ann"})
        expect(page.locator(".run-head .state")).to_have_text("completed")
        expect(page.locator(".banner")).to_have_count(0)
        fresh = context.new_page()
        fresh.goto(f"{again.url}/runs/{run}")
        expect(fresh.locator(".run-head .state")).to_have_text("completed")
        wait_until(lambda: picture_of(page) == picture_of(fresh), "both pages show the same")
    finally:
        again.close()


ASKED = {
    "runs:operate": ("/runs/{run}/pause", {}),
    "runs:start": ("/runs", {"workflow": "order"}),
    "workflows:write": ("/workflows", samples.ORDER),
    "keys:admin": ("/keys", {"name": "more", "roles": ["admin"]}),
}


def test_five_roles_and_two_tenants_see_and_do_what_is_theirs_by_button_and_by_hand(tmp_path, opened):
    site = Site(tmp_path, Options(ui=True, auth="keys,jwt"), closed=True)
    try:
        site.client.headers.update(bearer("ann", "admin"))
        site.post("/workflows", samples.ORDER)
        run = site.start(samples.ORDER, tags={"team": "blue"})
        theirs = site.client.post("/runs", json={"definition": samples.ORDER}, headers=bearer("eve", tenant="other"))
        other = theirs.json()["run_id"]
        for role in Role:
            key = site.post("/keys", {"name": f"{role} here", "roles": [role]})["key"]
            page = opened(site, "401", "403", "404").new_page()
            page.goto(f"{site.url}/runs/{run}")
            page.get_by_label("API key or token").fill(key)
            page.get_by_role("button", name="Log in").click()
            may = {str(one) for one in PERMISSIONS[role]}
            pause = page.get_by_role("button", name="Pause", exact=True)
            expect(pause).to_have_attribute("aria-disabled", str("runs:operate" not in may).lower())
            if "runs:operate" not in may:
                expect(pause).to_have_attribute("title", re.compile("runs:operate"))
            # The same by hand, from the page itself, with its session: what is off is refused, what is not there is not there.
            for permission, (path, body) in ASKED.items():
                if permission not in may:
                    assert ask(page, path.format(run=run), body) == 403, (role, permission)
            assert ask(page, f"/runs/{other}/pause", {}) == (404 if "runs:operate" in may else 403)
            page.goto(f"{site.url}/runs/{other}")
            expect(page.get_by_role("alert")).to_contain_text("There is nothing here")
            page.goto(f"{site.url}/runs")
            expect(page.locator("tr.row").first).to_be_visible()
            assert other not in page.content()
        assert Permission.RUNS_OPERATE not in PERMISSIONS[Role.VIEWER]
    finally:
        site.close()


def ask(page, path, body):
    """The status of a request that the page makes."""
    return page.evaluate(
        """([path, body]) => fetch('/api/v1' + path, {method: 'POST', body: JSON.stringify(body),
          headers: {'Content-Type': 'application/json', 'X-Perdure-Request': '1'}}).then(found => found.status)""",
        [path, body],
    )


def read(response):
    """What was answered; nothing where the page was left before it had come."""
    try:
        return response.text()
    except Error:
        return ""


CANARY = "canary-0f3a9c-of-the-secret"


def test_a_secret_is_nowhere_in_the_browser_and_not_in_what_it_is_sent(tmp_path, opened):
    """A function gets it, logs it, also in a traceback, and returns it: no answer, page, store or export has it."""
    site = Site(tmp_path, Options(ui=True), secrets={"CANARY": CANARY})
    try:
        args = {"value": "{{ secrets.CANARY }}"}
        nodes = [
            samples.task("given", "echo", args={"value": {"token": "{{ secrets.CANARY }}", "name": "shown"}}),
            samples.task("said", "says", "given", args={"what": "it is {{ secrets.CANARY }}"}),
            samples.task("asked", "size", "said", args=args),
        ]
        definition = {"name": "secretive", "nodes": nodes}
        site.post("/workflows", definition)
        run = site.start(definition, wait=60)
        answers, bodies = [], []
        context = opened(site, "404")
        page = context.new_page()
        page.on("response", lambda response: answers.append(response))
        paths = [f"/runs/{run}?tab={tab}" for tab in ("graph", "timeline", "journal", "values", "logs", "children")]
        paths += [f"/runs/{run}?node={node}" for node in ("given", "said", "asked")]
        paths += [
            f"/runs/{run}/edit",
            "/runs",
            "/workflows/secretive",
            "/dead-letters",
            "/search?q=canary",
            "/admin/audit",
        ]
        for path in paths:
            page.goto(site.url + path)
            expect(page.locator("h1").first).to_be_attached()
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            assert CANARY not in page.content(), path
            found = [one for one in answers if "/api/" in one.url and "/stream" not in one.url and one.ok]
            answers.clear()
            bodies += [text for one in found if (text := read(one))]
        assert "it is ***" in json.dumps(site.get(f"/runs/{run}/logs"))
        stores = "JSON.stringify([{...localStorage}, {...sessionStorage}, history.state, document.cookie])"
        assert CANARY not in page.evaluate(stores)
        export = site.client.get(f"/runs/{run}/export")
        assert export.is_success
        assert CANARY not in export.text
        assert len(bodies) > 20
        assert [one for one in bodies if CANARY in one] == []
    finally:
        site.close()
