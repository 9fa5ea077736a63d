"""Log in and out in a real browser: a key becomes a cookie that no script can read, and nothing else of it is left."""

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from tests.api.helpers import bearer
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("login")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("closed"), Options(ui=True, auth="keys,jwt"), closed=True)
    made.client.headers.update(bearer("ann", "admin"))
    yield made
    made.close()


@pytest.fixture
def run(site):
    return site.start(samples.definition_named("secret-plan", samples.value("a", 1)), wait=60)


@pytest.fixture
def key(site):
    return site.post("/keys", {"name": "browser", "roles": ["viewer"]})


def log_in(page, credential):
    page.get_by_label("API key or token").fill(credential)
    page.get_by_role("button", name="Log in").click()


def test_a_key_opens_what_was_asked_for_and_logging_out_closes_it(site, page, context, watch, run, key):
    watch.allowed.append("401")
    page.goto(f"{site.url}/runs/{run}?tab=journal")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert "secret-plan" not in page.content()
    assert find_barriers(page) == []
    log_in(page, "perdure_no_such_key")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    log_in(page, key["key"])
    expect(page).to_have_url(f"{site.url}/runs/{run}?tab=journal")
    expect(page.locator(".event").first).to_be_visible()
    expect(page.locator(".who")).to_contain_text("browser, tenant acme")
    assert page.evaluate("document.cookie") == ""
    assert key["key"] not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, history.state])")
    [cookie] = context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["secure"], cookie["sameSite"], cookie["path"]) == (
        *("__Host-perdure", True, True, "Strict", "/"),
    )
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert context.cookies() == []
    page.goto(f"{site.url}/runs/{run}")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_token_opens_a_session_and_a_revoked_key_ends_its_own(site, page, watch, run, key):
    watch.allowed.append("401")
    page.goto(f"{site.url}/login")
    log_in(page, bearer("eve", "viewer")["Authorization"].removeprefix("Bearer "))
    expect(page.locator(".who")).to_contain_text("eve, tenant acme")
    expect(page.locator("tr.row").first).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    log_in(page, key["key"])
    expect(page.locator(".who")).to_contain_text("browser, tenant acme")
    assert site.client.delete(f"/keys/{key['key_id']}").is_success
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_end_of_a_session_is_told_a_minute_before(site, page, watch, run, key):
    watch.allowed.append("401")
    soon = site.post("/keys", {"name": "short", "roles": ["viewer"], "expires_seconds": 50})
    page.goto(f"{site.url}/runs/{run}")
    log_in(page, soon["key"])
    banner = page.locator(".banner")
    expect(banner).to_contain_text("Your session ends at")
    expect(banner.get_by_role("link", name="Log in again")).to_have_attribute("href", f"/login?next=%2Fruns%2F{run}")
    assert find_barriers(page) == []
    page.get_by_role("button", name="Log out").click()
    log_in(page, key["key"])
    expect(page.locator(".who")).to_contain_text("browser")
    expect(page.locator(".banner")).to_have_count(0)


@pytest.mark.parametrize(
    "next_", ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "/\t/evil.example"]
)
def test_a_login_leads_only_to_pages_of_this_server(site, page, watch, run, key, next_):
    watch.allowed.append("401")
    page.goto(f"{site.url}/login")
    page.evaluate("next => history.replaceState({}, '', '/login?next=' + encodeURIComponent(next))", next_)
    page.reload()
    log_in(page, key["key"])
    expect(page).to_have_url(f"{site.url}/")
