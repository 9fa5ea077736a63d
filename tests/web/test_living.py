"""Pages that stay open: while they are hidden, when another version is deployed, and behind a proxy under a path."""

import re

import httpx2
import pytest
from playwright.sync_api import expect

from perdure.api import Options
from tests.waiting import wait_until
from tests.web import samples
from tests.web.conftest import PATIENCE_SECONDS, Site, Watch
from tests.web.reverse_proxy import Proxy

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("living")]

HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_what_happens_while_a_tab_is_hidden_is_shown_once_when_it_is_seen_again(site, page):
    run = site.start(samples.ORDER)
    page.goto(f"{site.url}/runs/{run}?tab=journal")
    expect(page.locator(".live").first).to_have_text("live")
    page.evaluate(HIDE, True)
    expect(page.locator(".live").first).to_have_text("asleep")
    site.post(f"/approvals/{run}:manager:1/decide", {"decision": "approve", "approver": "ann"})
    wait_until(lambda: site.get(f"/runs/{run}")["state"] == "completed", "the run to complete")
    expect(page.locator(".run-head .state")).not_to_have_text("completed")
    page.evaluate(HIDE, False)
    expect(page.locator(".run-head .state")).to_have_text("completed")
    wanted = sorted(event["seq"] for event in site.get(f"/runs/{run}/events?limit=1000")["items"])
    read = "[...document.querySelectorAll('.event .seq')].map(one => Number(one.textContent)).sort((a, b) => a - b)"
    wait_until(lambda: page.evaluate(read) == wanted, "every event is shown once")


def test_an_approval_that_waits_while_the_page_is_hidden_is_told_of_where_that_was_asked_for(site, page, context):
    context.grant_permissions(["notifications"], origin=site.url)
    page.add_init_script(
        """window.__told = []; window.__every = [];
        window.Notification = class { constructor(title, more) { __told.push(title + ': ' + more.body); } };
        Notification.permission = 'granted'; Notification.requestPermission = async () => 'granted';
        const every = window.setInterval;
        window.setInterval = (act, pause) => { if (pause === 60000) { __every.push(act); return 0; } return every(act, pause); };"""
    )
    page.goto(f"{site.url}/settings")
    page.evaluate(HIDE, True)
    assert page.evaluate("window.__every.length") == 0  # nobody asked for it
    page.evaluate(HIDE, False)
    box = page.get_by_label("Tell me of approvals that wait while this page is hidden")
    box.check()
    page.reload()
    expect(box).to_be_checked()
    expect(page.get_by_role("link", name="Approvals")).to_be_visible()
    page.evaluate(HIDE, True)
    before = site.get("/overview?span=24h")["approvals"]["total"]
    run = site.start(samples.ORDER)
    wait_until(lambda: site.get("/overview?span=24h")["approvals"]["total"] > before, "the approval to be asked for")
    page.evaluate("window.__every[0]()")
    wait_until(lambda: page.evaluate("window.__told.length"), "the notification")
    assert "for you" in page.evaluate("window.__told[0]")
    page.evaluate(HIDE, False)
    site.post(f"/runs/{run}/cancel", {"reason": "seen"})


def test_an_event_that_is_lost_and_one_that_comes_twice_leave_nothing_wrong(site, page):
    """The stream of the server through a proxy that drops one event and doubles another."""
    lost, twice = 14, 15

    async def worsen(request):
        rest = ""
        async with (
            httpx2.AsyncClient(timeout=None) as client,
            client.stream("GET", f"{site.url}/api/v1/runs/{run}/stream?{request.url.query}") as answer,
        ):
            async for text in answer.aiter_text():
                *frames, rest = (rest + text).split("\n\n")
                for frame in frames:
                    [number] = re.findall(r"^id: ?(\d+)$", frame, re.MULTILINE) or ["0"]
                    yield (f"{frame}\n\n" * (0 if int(number) == lost else 2 if int(number) == twice else 1)).encode()

    proxy = Proxy("/worse", worsen)
    proxy.target.set_result(site.url)
    try:
        run = site.start(samples.ORDER)
        wait_until(lambda: site.get(f"/runs/{run}")["nodes"]["manager"]["state"] == "waiting", "the run waits")
        assert site.get(f"/runs/{run}/events?limit=1")["last_seq"] < lost
        page.route(
            "**/api/v1/runs/*/stream*",
            lambda route: route.continue_(url=f"{proxy.url}/stream?{route.request.url.partition('?')[2]}"),
        )
        page.goto(f"{site.url}/runs/{run}?tab=journal")
        expect(page.locator(".live").first).to_have_text("live")
        site.post(f"/approvals/{run}:manager:1/decide", {"decision": "approve", "approver": "ann"})
        expect(page.locator(".run-head .state")).to_have_text("completed")
        wanted = sorted(event["seq"] for event in site.get(f"/runs/{run}/events?limit=1000")["items"])
        assert {lost, twice} <= set(wanted)
        read = "[...document.querySelectorAll('.event .seq')].map(one => Number(one.textContent)).sort((a, b) => a - b)"
        wait_until(lambda: page.evaluate(read) == wanted, "every event is shown once")
        page.get_by_role("tab", name="Graph").click()
        page.keyboard.press("[")
        expect(page.locator(".film-said")).to_contain_text(f"event {wanted[-2]} of {wanted[-1]}")
        said = {node["id"]: node for node in samples.ORDER["nodes"]}
        now = site.get(f"/runs/{run}/state?at={wanted[-2]}&outputs=false")["nodes"]
        rows = page.locator(".outline-row")
        expect(rows).to_have_count(len(said))
        for name in said:
            expect(rows.filter(has_text=name)).to_contain_text(now[name]["state"])
    finally:
        page.close()
        proxy.close()


def test_eight_tabs_are_loaded_because_hidden_ones_hold_no_connection(site, context):
    """A browser opens six connections to a server: the seventh stream would keep the seventh page waiting for ever."""
    run = site.start(samples.ORDER)
    for _ in range(8):
        page = context.new_page()
        page.goto(f"{site.url}/runs/{run}")
        expect(page.get_by_role("treeitem").first).to_be_visible()
        expect(page.locator(".live").first).to_have_text("live")
        page.evaluate(HIDE, True)


def test_a_file_that_a_new_version_took_away_asks_for_a_reload(site, page, watch):
    watch.allowed += ["404", "Failed to load module script", "Failed to fetch dynamically imported module"]
    page.goto(f"{site.url}/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.route("**/chunks/Workers-*", lambda route: route.fulfill(status=404, body="gone"))
    newer = {**site.get("/ui/boot"), "build": "another"}
    page.route("**/api/v1/ui/boot", lambda route: route.fulfill(json=newer))
    page.get_by_role("link", name="Workers").click()
    expect(page.locator(".banner")).to_contain_text("A new version is here.")
    page.unroute("**/chunks/Workers-*")
    page.unroute("**/api/v1/ui/boot")
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("heading", name="Workers and queues")).to_be_visible()


def test_behind_a_proxy_under_a_path_pages_follow_and_change_runs(browser, tmp_path):
    proxy = Proxy("/team/perdure")
    site = Site(tmp_path, Options(ui=True, public_url=proxy.url))
    proxy.target.set_result(site.url)
    watch = Watch(proxy.url)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    context.on("page", watch.follow)
    try:
        run = site.start(samples.ORDER)
        page = context.new_page()
        page.goto(f"{proxy.url}/runs")
        page.get_by_role("link", name=f"Open run {run}").click()
        expect(page).to_have_url(f"{proxy.url}/runs/{run}")
        expect(page.locator(".live").first).to_have_text("live")
        expect(page.locator("canvas")).to_have_attribute("data-nodes", "8")
        site.post(f"/approvals/{run}:manager:1/decide", {"decision": "approve", "approver": "ann"})
        expect(page.locator(".run-head .state")).to_have_text("completed")  # by the stream, which is not held back
        page.get_by_role("link", name="Workers").click()
        expect(page).to_have_url(f"{proxy.url}/workers")
        expect(page.get_by_role("table", name="Queues")).to_contain_text("default")
        status = page.evaluate(
            """base => fetch(base + '/api/v1/runs/nothing/pause', {method: 'POST', body: '{}',
              headers: {'Content-Type': 'application/json', 'X-Perdure-Request': '1'}}).then(found => found.status)""",
            "/team/perdure",
        )
        assert status == 404  # refused as unknown, and not as a request of another site
        watch.allowed.append("404")
    finally:
        context.close()
        proxy.close()
        site.close()
    watch.check()
