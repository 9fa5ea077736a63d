"""The pages and files of the web interface over HTTP: who gets what, under which headers."""

import gzip
import re

import brotli
import pytest

from perdure.api import Options
from perdure.web import HEADERS, PAGES, Built
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack

BUILD = Built().build


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, options=Options(ui=True)) as made:
        yield made


async def test_every_screen_answers_with_the_page_and_its_walls(server):
    for path in PAGES:
        response = await server.client.get(re.sub(r"\{\w+\}", "r1", path))
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        for name, value in HEADERS.items():
            assert response.headers.get_list(name) == [value], name
        assert f"/assets/{BUILD}/app.js" in response.text
        assert "{{" not in response.text
        assert response.headers["cache-control"] == "no-cache"


SETTLED = {
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=(), "
    "fullscreen=(self), clipboard-write=(self)",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


async def test_pages_and_files_have_the_headers_that_were_settled_and_let_no_other_origin_in(server):
    for path in ("/", f"/assets/{BUILD}/app.js", f"/assets/{BUILD}/style.css"):
        found = (await server.client.get(path, headers={"Origin": "https://evil.example"})).headers
        assert {name: found.get(name) for name in SETTLED} == SETTLED, path
        assert [name for name in found if name.startswith("access-control")] == []


async def test_the_policy_lets_nothing_in_but_files_of_this_server(server):
    policy = (await server.client.get("/")).headers["content-security-policy"]
    rules = dict(one.strip().partition(" ")[::2] for one in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert rules["trusted-types"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy


async def test_a_page_that_did_not_change_is_not_sent_again(server):
    first = await server.client.get("/runs")
    again = await server.client.get("/runs", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("cookie", "theme"), [("dark", "dark"), ("light", "light"), ("", ""), ('"><script>', ""), ("auto", "")]
)
async def test_the_theme_is_known_before_the_first_paint(server, cookie, theme):
    response = await server.client.get("/", headers={"Cookie": f"theme={cookie}"})
    assert f'data-theme="{theme}"' in response.text
    assert response.headers["vary"] == "Cookie"


async def test_files_are_kept_for_a_year_and_come_as_small_as_the_browser_takes_them(server):
    path = f"/assets/{BUILD}/app.js"
    plain = await server.client.get(path, headers={"Accept-Encoding": "identity"})
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    for asked, encoding, unpack in (
        ("gzip, br", "br", brotli.decompress),
        ("gzip, br;q=0", "gzip", gzip.decompress),
        ("br; q=0.0, gzip;q=0", None, bytes),
    ):
        async with server.client.stream("GET", path, headers={"Accept-Encoding": asked}) as response:
            raw = b"".join([piece async for piece in response.aiter_raw()])
        assert response.headers.get("content-encoding") == encoding
        assert response.headers["vary"] == "Accept-Encoding"
        assert unpack(raw) == plain.content


@pytest.mark.parametrize(
    "path",
    [
        "/assets/other/app.js",
        f"/assets/{BUILD}/none.js",
        f"/assets/{BUILD}/app.js.br",
        f"/assets/{BUILD}/build.json",
        f"/assets/{BUILD}/../__init__.py",
        f"/assets/{BUILD}/%2e%2e/__init__.py",
        f"/assets/{BUILD}//etc/passwd",
    ],
)
async def test_what_is_not_of_this_build_is_not_there(server, path):
    response = await server.client.get(path)
    assert response.status_code == 404
    assert "<html" not in response.text


async def test_other_addresses_are_not_pages(server):
    for path in ("/nothing", "/runs/a/b", "/api", "/api/v1/nothing"):
        response = await server.client.get(path)
        assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/nothing", "/runs/a/b", "/admin/a/b", "/Approvals"])
async def test_a_browser_that_asks_for_no_screen_gets_the_page_that_says_so(server, path):
    response = await server.client.get(path, headers={**BROWSER, "If-None-Match": "*"})
    assert (response.status_code, response.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert f"/assets/{BUILD}/app.js" in response.text
    for name, value in HEADERS.items():
        assert response.headers.get_list(name) == [value], name
    assert "etag" not in response.headers


async def test_below_the_addresses_of_programs_a_browser_gets_no_page(server):
    for path in ("/api", "/api/v1/nothing", "/API/v1", "/healthz/a", "/readyz/a", "/metrics/a", "/openapi.json/a"):
        response = await server.client.get(path, headers=BROWSER)
        assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json"), path
    for accepted in ("*/*", "application/json", "text/html;q=0, */*"):
        response = await server.client.get("/nothing", headers={"Accept": accepted})
        assert response.headers["content-type"] == "application/problem+json", accepted
    posted = await server.client.post("/nothing", headers=BROWSER)
    assert posted.headers["content-type"] == "application/problem+json"
    assert "<html" not in (await server.client.get("/links/nothing/at/all", headers=BROWSER)).text


async def test_without_the_setting_there_is_no_page(tmp_path):
    async with serving(tmp_path) as server:
        assert (await server.client.get("/")).status_code == 404
        assert "<html" not in (await server.client.get("/nothing", headers=BROWSER)).text
        assert (await server.client.get(f"/assets/{BUILD}/app.js")).status_code == 404
        assert (await server.ok("/ui/boot"))["build"] == ""


@pytest.mark.slow
async def test_under_a_prefix_everything_is_asked_for_below_it(tmp_path):
    options = Options(ui=True, public_url='https://example.org/te"am/perdure/')
    async with serving(tmp_path, options=options) as server:
        response = await server.client.get("/runs")
        assert 'data-base="/te&quot;am/perdure"' in response.text
        assert f'src="/te&quot;am/perdure/assets/{BUILD}/app.js"' in response.text
        assert response.headers["strict-transport-security"] == "max-age=31536000"


async def test_pages_need_no_credential_and_what_they_show_does(tmp_path):
    async with serving(tmp_path, tokens=True, options=Options(ui=True, auth="jwt")) as server:
        assert (await server.client.get("/runs")).status_code == 200
        assert (await server.ok("/ui/boot"))["auth"] == "jwt"
        assert (await server.get("/runs")).status_code == 401
        assert (await server.get("/runs", headers=bearer())).status_code == 200


ELSEWHERE = [
    "evil.example",
    "x@localhost",
    "evil.example:80@127.0.0.1",
    "localhost/x",
    "localhost?",
    "localhost:x",
    "localhost#",
    "::1",
    "[::1",
    "",
]


@attack("X26", "a name of another site that is read as one of this machine")
@pytest.mark.parametrize("host", ELSEWHERE)
async def test_an_open_server_shows_its_pages_only_by_a_name_of_this_machine(server, host):
    response = await server.client.get("/", headers={"Host": host})
    assert (response.status_code, response.json()["code"]) == (421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.8.9.1", "[::1]", "[::1]:8080"])
async def test_an_open_server_is_called_by_any_name_of_this_machine(server, host):
    assert (await server.client.get("/", headers={"Host": host})).status_code == 200


async def test_the_first_question_is_answered_without_a_credential(server):
    found = await server.ok("/ui/boot")
    assert (found["auth"], found["build"]) == ("open", BUILD)
    assert found.keys() == {"auth", "version", "build", "dev"}
