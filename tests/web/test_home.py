"""The first screen in a real browser: what needs a person, where each row leads, the bars with their table, and its other states."""

import re

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from perdure.service.overview import Overviews
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site
from tests.web.test_dead_letters import park

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("home")]


@pytest.fixture
def site(tmp_path):
    """A server of the test's own: what waits is counted, and other tests leave things that wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Overviews, "KEPT_SECONDS", 0.0)
        made = Site(tmp_path, Options(ui=True))
        yield made
        made.close()


def test_it_says_what_waits_and_leads_there(site, page, watch):
    page.goto(f"{site.url}/")
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    expect(page.locator(".command")).to_contain_text("perdure init hello")
    assert find_barriers(page) == []
    site.start(samples.definition_named("calm", samples.value("a", 1)), wait=60)
    needs = page.locator(".needs")
    expect(needs).to_contain_text("Nothing waits for a person")  # by itself: the screen asks again
    assert find_barriers(page) == []

    park(site, "mend")
    failing = samples.definition_named("payment", {**samples.task("charge", "fail"), "retry": 1})
    failed = site.start(failing, wait=60)
    asks = site.start(samples.ORDER, deadline_seconds=1800)
    paused = site.start(samples.definition_named("naps", {"id": "nap", "type": "wait", "config": {"seconds": 3600}}))
    site.post(f"/runs/{paused}/pause", {"reason": "stocktaking"})
    rows = needs.get_by_role("link")
    expect(rows).to_have_count(5)
    expect(rows).to_contain_text(
        [
            "1 approval waits for you",
            "1 dead letter is parked",
            "1 run failed in 24 hours",
            "1 run is paused",
            "A run of order has a deadline within the hour",
        ]
    )
    expect(rows.nth(1)).to_contain_text("mend: error, 1")
    expect(page.get_by_role("link", name="Approvals 1")).to_be_visible()
    expect(page.get_by_role("link", name="Dead letters 1")).to_be_visible()
    expect(page.locator(".newest tbody tr")).to_have_count(5)
    assert find_barriers(page) == []
    for number, address in enumerate(
        (
            rf"/approvals/{asks}%3Amanager%3A1\?mine=1$",
            r"/dead-letters\?workflow=mend$",
            r"/runs\?state=failed&since=24h&by-end=1$",
            r"/runs\?state=paused$",
            rf"/runs/{asks}$",
        )
    ):
        rows.nth(number).click()
        expect(page).to_have_url(re.compile(address))
        expect(page.locator("h1").first).to_be_attached()
        if number == 2:
            expect(page.locator("tr.row")).to_have_count(1)
            expect(page.locator("tr.row")).to_contain_text(failed)
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(page).to_have_url(f"{site.url}/")
    site.post(f"/runs/{paused}/cancel", {})


def test_the_bars_have_a_table_and_the_span_is_in_the_address(site, page):
    failing = samples.definition_named("payment", {**samples.task("charge", "fail"), "retry": 1})
    site.start(failing, wait=60)
    page.goto(f"{site.url}/")
    page.get_by_role("radio", name="1 hour").check(force=True)
    expect(page).to_have_url(f"{site.url}/?span=1h")
    expect(page.locator(".stretch")).to_have_count(30)
    page.get_by_role("button", name="Table").click()
    expect(page).to_have_url(f"{site.url}/?span=1h&as=table")
    expect(page.locator(".activity tbody tr")).to_have_count(30)
    figures = page.locator(".figures dd")
    shown = [int(text) for text in figures.all_inner_texts()]
    assert shown[2] >= 1
    newest = page.locator(".activity tbody tr").first
    newest.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/runs\?since=.*Z&until=.*Z$"))
    page.go_back()
    expect(page.locator(".ranks").first).to_contain_text("payment")


def test_a_server_that_refuses_is_told_of_and_asked_again(site, page, watch):
    watch.allowed.append("503")
    site.start(samples.definition_named("calm", samples.value("a", 1)), wait=60)
    answers: list[bool] = []

    def answer(route):
        if answers:
            route.continue_()
        else:
            body = '{"code": "unavailable", "detail": "the database is away", "status": 503, "title": "x", "type": "x", "request_id": "r1"}'
            route.fulfill(status=503, body=body, content_type="application/problem+json")

    page.route("**/api/v1/overview*", answer)
    page.goto(f"{site.url}/")
    expect(page.get_by_role("alert")).to_contain_text("the database is away")
    assert find_barriers(page) == []
    answers.append(True)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".needs")).to_be_visible()


def test_the_rail_is_told_of_what_waits_on_every_screen(site, page):
    run = park(site, "later")
    page.goto(f"{site.url}/workers")
    expect(page.get_by_role("link", name=re.compile(r"^Dead letters \d"))).to_be_visible()
    site.post("/dead-letters/discard", {"run_id": run, "expected": 1})
    wait_until(lambda: site.get("/overview")["dead_letters"] is not None, "it is counted")
