"""The screens of who runs Perdure: workers and queues, search, keys, access, audit, settings."""

import re

import pytest
from playwright.sync_api import expect

from perdure.access.roles import PERMISSIONS, Permission, Role
from perdure.api import Options
from scripts.ui import UI
from tests.api.helpers import bearer
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("operators")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("operators"), Options(ui=True, auth="keys,jwt"), closed=True)
    made.client.headers.update(bearer("ann", "admin"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def waiting(site):
    return site.start(samples.ORDER, tags={"team": "blue"})


@pytest.fixture
def watch(site):
    from tests.web.conftest import Watch

    made = Watch(site.url)
    made.allowed += ["401", "403"]
    yield made
    made.check()


def log_in(site, page, role, path="/runs"):
    key = site.post("/keys", {"name": f"{role} of the test", "roles": [role]})["key"]
    page.goto(site.url + path)
    page.get_by_label("API key or token").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".who")).to_contain_text(f"{role} of the test")
    return key


def test_workers_and_queues_say_who_works_on_what(site, page, tmp_path, waiting):
    gate = tmp_path / "gate"
    busy = samples.definition_named("busy", samples.task("long", "wait_for_file", path=str(gate)))
    busy["nodes"][0]["config"] = {
        "function": "tests.cli.work:tell_until",
        "args": {"path": str(gate), "progress": "a third of it"},
    }
    run = site.start(busy)
    log_in(site, page, "admin", "/workers")
    expect(page.get_by_role("heading", name="Workers and queues")).to_be_visible()
    expect(page.get_by_role("table", name="Queues")).to_contain_text("default")
    workers = page.get_by_role("table", name="Workers")
    expect(workers).to_contain_text(re.compile(r"1 of \d+"))
    workers.get_by_role("button").first.click()
    link = workers.get_by_role("link", name="long")
    expect(link).to_have_attribute("href", f"/runs/{run}?node=long")
    assert find_barriers(page) == []
    # What is running is seen on the run's own page too, with who executes it (A4).
    other = page.context.new_page()
    other.goto(f"{site.url}/runs/{run}?node=long")
    drawer = other.locator("aside.drawer")
    expect(drawer.locator(".state").first).to_have_text("running")
    expect(drawer.locator(".drawer-facts")).to_contain_text(re.compile(r"on \S+"))
    expect(drawer).to_contain_text("a third of it")  # ctx.progress
    gate.touch()
    expect(drawer.locator(".state").first).to_have_text("completed")
    other.close()
    expect(workers).to_contain_text("Nothing.")
    page.get_by_role("table", name="Queues").get_by_role("link", name="default").click()
    expect(page.get_by_role("heading", name="Queue default")).to_be_visible()


def test_a_queue_that_nobody_listens_to_is_told_of_with_the_way_out(site, page, waiting):
    log_in(site, page, "admin")
    deserted = {"queue": "gpu", "workers": 0, "slots": 0, "running": 0, "waiting": 14, "backlog": 0, "held": 3}
    page.route("**/api/v1/queues", lambda route: route.fulfill(json={"items": [deserted], "next_cursor": None}))
    page.goto(f"{site.url}/workers")
    notice = page.locator(".notice")
    expect(notice).to_contain_text("nobody listens: 17 tasks wait; start one:")
    expect(notice.locator("code")).to_have_text("perdure worker --queues gpu")
    assert find_barriers(page) == []


def test_figures_of_all_tenants_are_not_shown_to_a_viewer(site, page, waiting):
    log_in(site, page, "viewer", "/workers")
    table = page.get_by_role("table", name="Workers")
    expect(table).to_be_visible()
    expect(table.get_by_title(re.compile("system:operate"))).to_have_text("—")
    expect(table).not_to_contain_text("process ")


def test_search_finds_runs_workflows_nodes_screens_and_actions_by_keyboard_alone(site, page, waiting):
    log_in(site, page, "admin", f"/runs/{waiting}")
    expect(page.get_by_role("treeitem").first).to_be_visible()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Search")
    field = dialog.get_by_role("combobox")
    expect(field).to_be_focused()
    field.fill("manag")
    expect(dialog.get_by_role("option").filter(has_text="manager").first).to_be_visible()
    assert find_barriers(page) == []
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/runs/{waiting}?node=manager")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Control+k")
    field.fill(waiting[:8])
    found = dialog.get_by_role("option").filter(has_text=waiting)
    expect(found.first).to_be_visible()
    field.fill("> dark")
    expect(dialog.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Control+k")
    field.fill("audit")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/admin/audit")
    page.keyboard.press("Control+k")
    expect(dialog.get_by_role("option").first).to_contain_text("manager")  # what was followed last comes first
    field.fill("team=blue")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/runs?tag=team%3Dblue")
    page.goto(f"{site.url}/search?q=nothing-has-this-name")
    expect(page.get_by_role("status").filter(has_text="Nothing has this in its name")).to_be_visible()
    assert find_barriers(page) == []


def test_a_key_is_made_shown_once_and_revoked(site, page, context, waiting):
    log_in(site, page, "admin", "/admin/keys")
    page.get_by_text("Create a key").first.click()
    page.get_by_label("Name").fill("nightly <b>job</b>")
    page.get_by_label("operator").check()
    page.get_by_label("runs:start").check()
    assert find_barriers(page) == []
    page.get_by_role("button", name="Create a key").click()
    secret = page.locator(".secret code")
    expect(secret).to_be_visible()
    key = secret.inner_text()
    answered = site.client.get("/me", headers={"Authorization": f"Bearer {key}"})
    assert (answered.status_code, answered.json()["code"]) == (403, "forbidden")  # it may start runs, and nothing else
    page.get_by_role("button", name="I have kept it").click()
    row = page.get_by_role("row").filter(has_text="nightly <b>job</b>")
    expect(row).to_contain_text("runs:start")
    assert key not in page.content()
    row.get_by_role("button", name="Revoke").click()
    dialog = page.get_by_role("dialog", name="Revoke nightly <b>job</b>?")
    expect(dialog).to_be_visible()
    button = dialog.get_by_role("button", name="Revoke")
    page.wait_for_function("begun => performance.now() > begun + 300", arg=page.evaluate("performance.now()"))
    button.click()
    expect(row).to_contain_text("revoked")


def test_who_may_not_make_keys_sees_why(site, page, waiting):
    log_in(site, page, "viewer", "/admin/keys")
    expect(page.get_by_role("alert")).to_contain_text("keys:admin")
    page.get_by_text("Create a key").first.click()
    expect(page.get_by_role("button", name="Create a key")).to_be_disabled()
    expect(page.locator("form")).to_contain_text("You need the permission keys:admin")
    page.get_by_role("link", name="Who may do what").click()
    expect(page.locator("main")).to_contain_text("You are viewer of the test of tenant acme, with the roles: viewer.")
    expect(page.get_by_role("table").locator("tr.mine")).to_have_count(len(PERMISSIONS["viewer"]))
    assert find_barriers(page) == []


def test_the_matrix_is_what_the_server_gives(page, site, waiting):
    log_in(site, page, "admin", "/admin/access")
    expect(page.get_by_role("table")).to_be_visible()
    shown = page.evaluate(
        """() => { const rows = [...document.querySelectorAll('table tr')].map(
          row => [...row.children].map(cell => cell.querySelector('code')?.textContent ?? cell.textContent.trim()));
          return {roles: rows[0].slice(1).map(role => role.split(' ')[0]), rows: rows.slice(1)}; }"""
    )
    assert shown["roles"] == list(Role)
    assert [row[0] for row in shown["rows"]] == list(Permission)
    for index, role in enumerate(shown["roles"], 1):
        assert {row[0] for row in shown["rows"] if row[index] == "yes"} == PERMISSIONS[role]


def test_the_audit_is_filtered_opened_and_verified(site, page, waiting):
    log_in(site, page, "admin", "/admin/audit")
    expect(page.get_by_role("table")).to_contain_text("administration.create_key")
    page.get_by_label("Action").fill("sessions.open_session")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/admin/audit?action=sessions.open_session")
    expect(page.get_by_role("table")).not_to_contain_text("create_key")
    page.get_by_role("table").get_by_role("button").first.click()
    expect(page.locator(".opened")).to_contain_text("request_id")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator(".notice")).to_contain_text("none changed")
    assert find_barriers(page) == []


def test_settings_are_kept_and_sessions_are_ended(site, page, browser, context, waiting):
    log_in(site, page, "admin", "/settings")
    page.get_by_label("Times").select_option("Asia/Tokyo")
    page.get_by_label("Density").select_option("compact")
    sessions = page.get_by_role("table")
    expect(sessions).to_contain_text("This one.")
    assert find_barriers(page) == []
    page.reload()
    expect(page.get_by_label("Times")).to_have_value("Asia/Tokyo")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    page.goto(f"{site.url}/runs/{waiting}?tab=journal")
    first = page.locator(".event time").first
    expect(first).to_have_attribute("title", re.compile(r"GMT\+9"))
    page.goto(f"{site.url}/settings")
    sessions.get_by_role("button", name="End").first.click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_every_role_and_permission_of_the_source_is_in_the_matrix():
    text = (UI / "src" / "screens" / "admin" / "roles.ts").read_text()
    assert set(re.findall(r'"(\w+:\w+)"', text)) == set(Permission)
