"""The screens of triggers and schedules: what is due, what happened and why, and what is asked of them."""

import re
import subprocess

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from tests.api.helpers import bearer
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site, Watch

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("triggers")]

SECRET = "whsec_c2VjcmV0LW9mLXRoZS1zaG9wLWxvbmctZW5vdWdo"
DAY = 86_400.0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    secrets = {"SHOP": SECRET, "PLAIN": "another-secret-long-enough"}
    made = Site(tmp_path_factory.mktemp("triggers"), Options(ui=True, hook_rate=0), secrets=secrets)
    samples.fill(made)
    yield made
    made.close()


def apply(site, name, **more):
    return site.post("/triggers", {"name": name, "workflow": "fulfil", "inputs": {"city": "Oslo"}, **more})


def open_sheet(page, verb):
    page.get_by_role("button", name=verb, exact=True).click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_have_attribute("data-ready", "true")
    return sheet


def do(sheet, verb):
    sheet.get_by_role("button", name=verb, exact=True).click()
    return sheet.locator("footer [role=status]")


def close(sheet):
    sheet.get_by_role("button", name="Close").first.click()
    expect(sheet).to_have_count(0)


def test_the_list_says_what_each_is_and_leads_to_it_by_keyboard(site, page):
    page.goto(f"{site.url}/runs")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(f"{site.url}/triggers")
    row = page.locator(".trigger-row", has_text="nightly")
    expect(row).to_contain_text("30 2 * * *")
    expect(row).to_contain_text("Europe/Berlin")
    expect(row.locator("td").last).to_have_text("1")
    page.get_by_label("Kind").select_option("webhook")
    expect(page).to_have_url(f"{site.url}/triggers?kind=webhook")
    expect(page.locator(".trigger-row", has_text="orders")).to_be_visible()
    expect(page.locator(".trigger-row", has_text="nightly")).to_have_count(0)
    page.get_by_label("Kind").select_option("table")
    expect(page.get_by_role("heading", name="No trigger fits this filter")).to_be_visible()
    page.go_back()
    page.get_by_role("heading", name="Triggers").click()  # in a field a letter is a letter
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Send to it")).to_be_visible()


def test_coming_moments_stand_by_both_clocks_with_what_a_change_of_the_clocks_does(site, page):
    apply(site, "spring", schedule={"at": ["2027-03-28T02:30"], "timezone": "Europe/Berlin"})
    page.goto(f"{site.url}/triggers/spring?tz=Asia/Kolkata")
    table = page.get_by_role("table", name="Coming moments")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table).to_contain_text("2027-03-28 03:00:00+02:00")
    expect(table).to_contain_text("28 Mar 2027, 06:30:00")
    expect(table).to_contain_text("02:30 does not exist, 03:00")
    page.goto(f"{site.url}/triggers/nightly")
    expect(table.locator("tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Show more").click()
    expect(table.locator("tbody tr")).to_have_count(20)


def test_firing_says_what_would_happen_and_what_did(site, page):
    held = {"name": "held", "nodes": [{"id": "wait", "type": "wait", "config": {"signal": "go"}}]}
    site.post("/workflows", held)
    site.post("/triggers", {"name": "slow", "workflow": "held", "schedule": {"cron": "0 0 1 1 *"}})
    page.goto(f"{site.url}/triggers/slow")
    sheet = open_sheet(page, "Fire")
    expect(sheet.get_by_role("region", name="What happens next")).to_contain_text("begins at once")
    sheet.get_by_label("Inputs").fill("[1]")
    expect(sheet).to_contain_text("Inputs are an object.")
    expect(sheet.get_by_role("button", name="Fire", exact=True)).to_have_attribute("aria-disabled", "true")
    sheet.get_by_label("Inputs").fill("")
    said = do(sheet, "Fire")
    expect(said).to_contain_text("Started.")
    run = sheet.get_by_role("link", name="Look at the run").get_attribute("href")
    close(sheet)
    history = page.get_by_role("table", name="What happened")
    expect(history.locator("tr", has_text="fired by hand")).to_contain_text("running")
    expect(page.get_by_role("table", name="Items that it holds")).to_contain_text("Open its run")
    sheet = open_sheet(page, "Fire")
    expect(sheet.get_by_role("region", name="What happens next")).to_contain_text("1 run is open, and it skips then")
    sheet.get_by_text("Copy as command").click()
    expect(sheet.locator("pre").first).to_have_text(f"perdure triggers fire slow --server {site.url}")
    expect(do(sheet, "Fire")).to_contain_text("Nothing was started: a run is open.")
    close(sheet)
    expect(history.locator("tr", has_text="a run was open")).to_have_count(1)
    assert run is not None
    site.post(f"/runs/{run.rpartition('/')[2]}/signal", {"name": "go"})
    expect(history.locator("tr", has_text="completed")).to_have_count(1)


def test_pausing_and_resuming_say_what_passes_meanwhile(site, page):
    apply(site, "hourly", schedule={"every": "1h"})
    page.goto(f"{site.url}/triggers/hourly")
    sheet = open_sheet(page, "Pause")
    expect(sheet.get_by_role("region", name="What happens next")).to_contain_text("pass without a run")
    sheet.get_by_label("Reason").fill("stocktaking")
    expect(do(sheet, "Pause")).to_have_text("Paused. It starts nothing more.")
    close(sheet)
    expect(page.locator(".trigger-title .state")).to_have_text("paused")
    expect(page.get_by_text("these pass without a run")).to_be_visible()
    expect(page.get_by_role("table", name="What happened")).to_contain_text("stocktaking")
    sheet = open_sheet(page, "Resume")
    expect(sheet.get_by_role("region", name="What happens next")).to_contain_text("its next moment by now is")
    expect(do(sheet, "Resume")).to_contain_text("It goes on; next at")
    close(sheet)
    expect(page.locator(".trigger-title .state")).to_have_text("active")


def test_a_backfill_counts_its_moments_first_and_then_runs_them(site, page):
    apply(site, "daily", schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"})
    page.goto(f"{site.url}/triggers/daily")
    sheet = open_sheet(page, "Backfill")
    next_ = sheet.get_by_role("region", name="What happens next")
    expect(next_).to_contain_text(re.compile("[78] moments"))
    sheet.get_by_label("Before").fill("2025-03-31T12:00")
    expect(sheet).to_contain_text("The end comes after the beginning.")
    sheet.get_by_label("From").fill("2025-03-29T02:31")
    expect(next_).to_contain_text("2 moments")
    expect(next_).to_contain_text("first 2025-03-30 03:00:00+02:00, last 2025-03-31 02:30:00+02:00")
    assert find_barriers(page) == []
    expect(do(sheet, "Backfill")).to_contain_text("The backfill has begun")
    close(sheet)
    history = page.get_by_role("table", name="What happened")
    expect(history.locator("tr", has_text="completed")).to_have_count(2)
    expect(history).to_contain_text("moment 2025-03-30 03:00:00")
    expect(history).to_contain_text("backfill asked for by")
    runs = site.get("/runs?tag=trigger%3Ddaily")["items"]
    assert [run["state"] for run in runs] == ["completed", "completed"]


def test_items_say_their_moment_and_when_they_came_and_what_started_nothing_is_counted(site, page):
    held = {"name": "held", "nodes": [{"id": "wait", "type": "wait", "config": {"signal": "go"}}]}
    site.post("/workflows", held)
    site.post("/triggers", {"name": "weekly", "workflow": "held", "schedule": {"cron": "30 2 * * 1"}})
    whole = {"since": 1_743_292_800.0, "until": 1_744_502_400.0}  # two Mondays of 2025
    site.post("/triggers/weekly/backfill", whole)
    page.goto(f"{site.url}/triggers/weekly")
    items = page.get_by_role("table", name="Items that it holds")
    expect(items.locator("tbody tr")).to_have_count(2)
    for row, moment in ((0, "2025-03-31 02:30:00"), (1, "2025-04-07 02:30:00")):
        expect(items.locator("tbody tr").nth(row)).to_contain_text(f"moment {moment}")
        expect(items.locator("tbody tr").nth(row)).not_to_contain_text("not yet")
    site.post("/triggers/weekly/backfill", whole)
    facts = page.locator(".facts-grid")
    expect(facts).to_contain_text("2 because it has had its run")
    expect(facts).not_to_contain_text("Last success")
    for number in (1, 2):
        expect(items.locator("tbody tr").first.locator("td").first).to_have_text(str(number))
        run = items.get_by_role("link", name="Open its run").first.get_attribute("href")
        site.post(f"/runs/{run.rpartition('/')[2]}/signal", {"name": "go"})
    expect(items).to_have_count(0)
    expect(facts.locator("div", has_text="Last success").locator("time")).to_have_attribute(
        "datetime", "2025-04-07T02:30:00.000Z"
    )


def test_what_could_start_no_run_is_shown_with_its_reason_and_the_ways_out(site, page):
    apply(site, "picky", schedule={"cron": "0 0 1 1 *"})
    for _ in range(2):
        site.post("/triggers/picky/fire", {"inputs": {"city": 7}})
    page.goto(f"{site.url}/triggers/picky")
    items = page.get_by_role("table", name="Items that it holds")
    expect(items.locator("tbody tr")).to_have_count(2)
    expect(items).to_contain_text('7 is not of type "string"')
    assert find_barriers(page) == []
    items.get_by_role("button", name="Requeue").first.click()
    sheet = page.get_by_role("dialog", name="Requeue item 1")
    expect(sheet).to_have_attribute("data-ready", "true")
    sheet.get_by_label("Other inputs").fill('{"city": "Bergen"}')
    expect(do(sheet, "Requeue")).to_contain_text("queued again")
    close(sheet)
    expect(items.locator("tbody tr")).to_have_count(1)
    items.get_by_role("button", name="Discard").click()
    sheet = page.get_by_role("dialog", name="Discard item 2")
    expect(sheet).to_have_attribute("data-ready", "true")
    expect(do(sheet, "Discard")).to_have_text("It is given up.")
    close(sheet)
    expect(items).to_have_count(0)
    history = page.get_by_role("table", name="What happened")
    expect(history).to_contain_text("item 1 requeued by")
    expect(history).to_contain_text("item 2 discarded by")
    assert site.get("/triggers/picky")["parked"] == 0


SCHEMES = {
    "standard": {"scheme": "standard", "secret": "SHOP"},
    "plain": {"scheme": "standard", "secret": "PLAIN"},
    "github": {"scheme": "github", "secret": "SHOP"},
    "stripe": {"scheme": "stripe", "secret": "SHOP"},
    "slack": {"scheme": "slack", "secret": "SHOP"},
    "bearer": {"scheme": "bearer", "secret": "SHOP"},
    "hmac": {"scheme": "hmac", "secret": "SHOP", "header": "X-Sign", "prefix": "v$1=", "encoding": "base64"}
    | {"timestamp_header": "X-Time", "id_header": "X-Id", "signed": "{timestamp}/$HOME/{id}/{body}"},
}


def test_the_command_that_a_webhook_shows_is_taken_by_it(site, page):
    """Each scheme: the text of the page, as it is, in a shell that has the secret."""
    for name, verify in SCHEMES.items():
        apply(site, f"hook-{name}", webhook={"verify": verify})
        page.goto(f"{site.url}/triggers/hook-{name}")
        command = page.locator(".send pre").inner_text()
        assert SECRET not in command
        known = {"SHOP": SECRET, "PLAIN": "another-secret-long-enough"}
        environment = {"PATH": "/usr/bin:/bin", f"PERDURE_SECRET_{verify['secret']}": known[verify["secret"]]}
        shell = ["sh", "-euc", command]
        done = subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert '"run_id"' in done.stdout, (name, command, done.stdout, done.stderr)
        history = page.get_by_role("table", name="What happened")
        expect(history.locator("tr", has_text="completed")).to_have_count(1)
    expect(page.get_by_role("table", name="What happened")).to_contain_text("item m1")
    assert find_barriers(page) == []


def test_a_test_says_what_a_trigger_makes_of_an_item_and_starts_nothing(site, page):
    page.goto(f"{site.url}/triggers/orders")
    sheet = open_sheet(page, "Test")
    sheet.get_by_role("button", name="Test", exact=True).click()
    expect(sheet.locator(".next")).to_contain_text("It cannot be mapped, and would be parked.")
    expect(sheet.locator(".next")).to_contain_text("'customer'")
    sheet.get_by_label("Item").fill('{"body": {"customer": "ann", "city": "Oslo"}}')
    sheet.get_by_role("button", name="Test", exact=True).click()
    expect(sheet.locator(".next")).to_contain_text("A run would be started.")
    expect(sheet.locator(".next")).to_contain_text("ann")
    close(sheet)
    assert site.get("/runs?tag=trigger%3Dorders")["items"] == []


def test_a_cursor_is_set_back_only_with_a_reason_and_the_name_typed(site, page, tmp_path):
    apply(site, "inbox", folder={"url": str(tmp_path), "every": "1h"})
    page.goto(f"{site.url}/triggers/inbox")
    sheet = open_sheet(page, "Rewind")
    button = sheet.get_by_role("button", name="Rewind", exact=True)
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(sheet.get_by_role("region", name="What happens next")).to_contain_text("read again from its beginning")
    sheet.get_by_label("Reason").fill("rows were lost")
    sheet.get_by_label("Type inbox to confirm").fill("inbo")
    expect(button).to_have_attribute("aria-disabled", "true")
    sheet.get_by_label("Type inbox to confirm").fill("inbox")
    expect(do(sheet, "Rewind")).to_contain_text("The cursor is set.")
    close(sheet)
    expect(page.get_by_role("table", name="What happened")).to_contain_text("rows were lost")
    sheet = open_sheet(page, "Delete")
    expect(sheet.get_by_role("region", name="What happens next")).to_contain_text("is another trigger")
    expect(sheet.get_by_role("button", name="Delete", exact=True)).to_have_attribute("aria-disabled", "true")
    sheet.get_by_label("Type inbox to confirm").fill("inbox")
    expect(do(sheet, "Delete")).to_contain_text("It is deleted.")
    sheet.get_by_role("link", name="All triggers").click()
    expect(page).to_have_url(f"{site.url}/triggers")
    assert site.client.get("/triggers/inbox").status_code == 404


def test_the_calendar_has_what_is_due_what_ran_and_where_clocks_change(site, page):
    page.goto(f"{site.url}/schedules?month=2027-03&name=nightly")
    month = page.get_by_role("table", name="Month")
    expect(month.locator("td", has_text="28 March")).to_contain_text("02:30 does not exist, 03:00")
    expect(month.get_by_role("link", name="02:30 nightly")).to_have_count(34)
    page.get_by_role("button", name="The month after").click()
    expect(page).to_have_url(re.compile("month=2027-04"))
    page.go_back()
    page.get_by_role("button", name="Today").click()
    expect(month.locator("[aria-current=date]")).to_contain_text(re.compile(r"\d+ ran"))
    page.get_by_label("Schedule").select_option("quarterly")
    tomorrow = month.locator("td:not(.other)", has_text="× quarterly").nth(1)
    if tomorrow.count():  # on the last day of a month there is no day after it
        expect(tomorrow).to_contain_text("96 × quarterly")
    page.get_by_role("button", name="Agenda").click()
    expect(page.locator(".agenda")).to_contain_text("× quarterly")
    assert find_barriers(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site.url}/schedules")
    expect(page.locator(".agenda")).to_be_visible()


def test_who_may_only_look_is_told_what_is_missing_and_the_server_says_the_same(tmp_path, browser):
    site = Site(tmp_path, Options(ui=True, auth="keys,jwt"), closed=True)
    watch = Watch(site.url)
    watch.allowed.append("401")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.on("page", watch.follow)
    try:
        site.client.headers.update(bearer("ann", "admin"))
        site.post("/workflows", samples.FULFIL)
        apply(site, "nightly", schedule={"cron": "30 2 * * *"})
        key = site.post("/keys", {"name": "looker", "roles": ["viewer"]})["key"]
        page = context.new_page()
        page.goto(f"{site.url}/triggers/nightly")
        page.get_by_label("API key or token").fill(key)
        page.get_by_role("button", name="Log in").click()
        fire = page.get_by_role("button", name="Fire", exact=True)
        expect(fire).to_have_attribute("aria-disabled", "true")
        expect(page.locator(".why-not")).to_contain_text("runs:operate")
        fire.click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)
        site.client.headers.update({"Authorization": f"Bearer {key}"})
        for verb, body in (("fire", {}), ("pause", {}), ("backfill", {"since": 1, "until": 2})):
            assert site.client.post(f"/triggers/nightly/{verb}", json=body).status_code == 403
        other = bearer("eve", "admin", tenant="other")
        assert site.client.get("/triggers/nightly", headers=other).status_code == 404
        watch.check()
    finally:
        context.close()
        site.close()
