"""Log in, log out, and everything another site, another tenant or an old cookie might try (X26)."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

from perdure.access import Authenticator
from perdure.access.keys import issue_key
from perdure.access.tokens import TokenRules, Tokens
from perdure.api import Options
from perdure.api.own_pages import COOKIE
from perdure.api.routes import sessions
from perdure.engine import Engine
from perdure.service.tenancy import archive_of
from tests.api.helpers import API, SECRET, bearer, mounted, served
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE, until_true, workflow

OWN = {"Origin": "http://127.0.0.1", "X-Perdure-Request": "1"}


@asynccontextmanager
async def opened(path, *, real=False, **options):
    engine = await Engine.open(f"sqlite:///{path / 'perdure.db'}")
    try:
        await engine.hold()
        rules = Tokens(TokenRules(secret=SECRET))
        authenticator = Authenticator(archive_of(engine), engine.clock, keys=True, tokens=rules)
        make = served if real else mounted
        async with make(engine, options=Options(**options), authenticator=authenticator) as server:
            yield server
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@pytest.fixture
async def server(tmp_path):
    async with opened(tmp_path) as made:
        yield made


async def key(server, *, tenant="acme", name="ann", roles=("admin",), **more):
    return await issue_key(
        archive_of(server.engine), server.engine.clock, tenant=tenant, name=name, roles=roles, by="test", **more
    )


async def log_in(server, credential, *, headers=None, **more):
    """The answer, and the cookie it gave; the client itself keeps none."""
    response = await server.post("/session", {"credential": credential}, headers={**OWN, **(headers or {})}, **more)
    server.client.cookies.clear()
    return response, with_cookie(response)


def with_cookie(response):
    found = re.match(rf"{COOKIE}=([A-Za-z0-9_-]+);", response.headers.get("set-cookie", ""))
    return {} if found is None else {"Cookie": f"{COOKIE}={found[1]}"}


async def status(server, cookie, path="/me"):
    return (await server.get(path, headers=cookie)).status_code


def token_of(headers):
    return headers["Authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("kind", ["key", "jwt"])
async def test_a_key_or_a_token_opens_a_session_with_a_cookie_no_script_and_no_other_site_has(server, kind):
    credential = (await key(server)).text if kind == "key" else token_of(bearer("ann"))
    response, cookie = await log_in(server, f" {credential}\n")
    assert (response.status_code, response.content) == (204, b"")
    parts = [part.strip() for part in response.headers["set-cookie"].split(";")]
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} <= set(parts)
    assert not any(part.startswith("Domain") for part in parts)
    most = 7 * 86_400 if kind == "key" else 3600
    assert [most - 100 < int(part[8:]) <= most for part in parts if part.startswith("Max-Age=")] == [True]
    me = (await server.get("/me", headers=cookie)).json()
    assert (me["name"], me["tenant"], me["kind"], me["roles"]) == ("ann", "acme", kind, ["admin"])


async def test_log_out_deletes_the_row_and_the_cookie_and_a_replay_is_refused(server):
    _, cookie = await log_in(server, (await key(server)).text)
    assert await status(server, cookie) == 200
    for _ in range(2):
        response = await server.client.delete(f"{API}/session", headers={**OWN, **cookie})
        assert response.status_code == 204
        assert f"{COOKIE}=; Max-Age=0;" in response.headers["set-cookie"]
        assert await status(server, cookie) == 401
    audit = (await server.ok("/audit", headers=bearer()))["items"]
    assert [one["action"] for one in audit] == ["sessions.close_session", "sessions.open_session"]
    assert {one["principal"] for one in audit} == {"ann"}


@attack("X37", "a cookie that was planted before somebody logs in")
async def test_a_cookie_that_was_there_before_the_login_is_worth_nothing_after_it(server):
    """Fixation: whoever planted the cookie has no part in the session, and the session before it ends."""
    planted = {"Cookie": f"{COOKIE}={'a' * 43}"}
    _, first = await log_in(server, (await key(server)).text, headers=planted)
    assert first["Cookie"] != planted["Cookie"]
    assert await status(server, planted) == 401
    _, second = await log_in(server, token_of(bearer("bob")), headers=first)
    assert await status(server, first) == 401
    assert (await server.get("/me", headers=second)).json()["name"] == "bob"


@attack("X37", "a second cookie of the name, from another path or domain")
async def test_two_cookies_of_the_name_are_none(server):
    _, cookie = await log_in(server, (await key(server)).text)
    twice = {"Cookie": f"{COOKIE}={'a' * 43}; {cookie['Cookie']}"}
    assert await status(server, twice) == 401
    assert await status(server, {"Cookie": f"theme=dark; {cookie['Cookie']}; x"}) == 200


FORGED = [
    {"Origin": None},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "https://evil.example"},
    {"Origin": "https://127.0.0.1"},
    {"Origin": "http://127.0.0.1.evil.example"},
    {"Origin": "http://127.0.0.1:81"},
    {"Origin": "http://[127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"X-Perdure-Request": None},
    {"X-Perdure-Request": "0"},
]


def forge(headers, changes):
    merged = {**headers, **changes}
    return {name: value for name, value in merged.items() if value is not None}


async def test_a_page_of_another_site_changes_nothing_and_logs_nobody_in_or_out(server):
    credential = (await key(server)).text
    _, cookie = await log_in(server, credential)
    calls = [
        ("POST", "/workflows", workflow({"id": "a", "type": "noop"}, name="forged")),
        ("POST", "/session", {"credential": credential}),
        ("DELETE", "/session", None),
    ]
    for changes in FORGED:
        for method, path, body in calls:
            headers = forge({**OWN, **cookie}, changes)
            response = await server.client.request(method, API + path, json=body, headers=headers)
            assert (response.status_code, response.json()["code"]) == (403, "cross_origin"), (changes, path)
            assert "set-cookie" not in response.headers
    assert await status(server, cookie) == 200
    assert (await server.ok("/workflows", headers=cookie))["items"] == []
    headers = {**OWN, **cookie, "Sec-Fetch-Site": "same-origin"}
    assert (await server.post(*calls[0][1:], headers=headers)).is_success


async def test_a_credential_in_the_header_works_as_before_whatever_the_cookie_is(server):
    definition = workflow({"id": "a", "type": "noop"}, name="by-header")
    headers = {**bearer("bob"), "Cookie": f"{COOKIE}={'a' * 43}"}
    assert (await server.post("/workflows", definition, headers=headers)).is_success
    _, cookie = await log_in(server, (await key(server)).text)
    wrong = {**cookie, "Authorization": "Bearer x"}
    assert await status(server, wrong) == 401


@attack("X37", "learn from a failed login which part was wrong")
async def test_every_failure_has_the_same_answer_and_none_comes_early(server, monkeypatch):
    good, revoked = await key(server), await key(server)
    await archive_of(server.engine).revoke_key("acme", revoked.key.key_id, server.engine.clock.now())
    monkeypatch.setattr(sessions, "FAILED_SECONDS", 0.05)
    clock = server.engine.clock
    wrong = [
        good.text[:-1],
        revoked.text,
        f"perdure_{'0' * 16}_{'a' * 43}",
        "x",
        "ü",
        token_of(bearer())[:-2],
        "perdure_",
        " ",
    ]
    answers = set()
    for text in wrong:
        begun = clock.monotonic()
        response, _ = await log_in(server, text)
        assert clock.monotonic() - begun >= 0.05, text
        assert response.status_code == 401
        assert "set-cookie" not in response.headers
        answers.add(re.sub(r'"request_id":"[^"]*"', "", response.text))
    assert len(answers) == 1


async def test_an_address_may_log_in_ten_times_a_minute(server):
    credential = (await key(server)).text
    codes = [(await log_in(server, credential))[0].status_code for _ in range(11)]
    assert codes == [204] * 10 + [429]
    assert await status(server, bearer()) == 200


@pytest.mark.parametrize(
    ("public_url", "host", "origin", "code"),
    [
        ("", "perdure.example", "http://perdure.example", "session_needs_tls"),
        ("http://perdure.example", "perdure.example", "http://perdure.example", "session_needs_tls"),
        ("https://perdure.example", "perdure.example", "http://perdure.example", "cross_origin"),
        ("https://perdure.example", "perdure.example", "https://perdure.example", None),
        ("https://perdure.example:443/base", "perdure.example", "https://perdure.example", None),
        ("https://perdure.example", "inner:8080", "https://perdure.example", None),
        ("https://perdure.example", "localhost:8080", "http://localhost:8080", None),
        ("", "[::1]:8080", "http://[::1]:8080", None),
    ],
)
async def test_a_session_needs_tls_or_this_machine(tmp_path, public_url, host, origin, code):
    async with opened(tmp_path, public_url=public_url) as server:
        headers = {"Host": host, "Origin": origin}
        response, cookie = await log_in(server, token_of(bearer()), headers=headers)
        assert (response.json()["code"] if code else response.status_code) == (code or 204)
        assert bool(cookie) == (code is None)


@attack("X37", "sessions of others, of the same name in another tenant too, seen and ended")
@pytest.mark.slow
async def test_people_see_and_end_their_own_sessions_alone(server):
    ann, bob, other = await key(server), await key(server, name="bob"), await key(server, tenant="other")
    cookies = [(await log_in(server, one.text, headers={"User-Agent": "Fox"}))[1] for one in (ann, ann, bob, other)]
    shown = (await server.ok("/sessions", headers=cookies[0]))["items"]
    assert [(one["agent"], one["current"]) for one in shown] == [("Fox", False), ("Fox", True)]
    assert [len((await server.ok("/sessions", headers=one))["items"]) for one in cookies[2:]] == [1, 1]
    for stranger in cookies[2:]:
        path = f"{API}/sessions/{shown[0]['session_id']}"
        assert (await server.client.delete(path, headers={**OWN, **stranger})).status_code == 404
    assert await status(server, cookies[1]) == 200
    path = f"{API}/sessions/{shown[0]['session_id']}"
    assert (await server.client.delete(path, headers={**OWN, **cookies[0]})).json()["current"] is False

    async def refused():
        return await status(server, cookies[1]) == 401

    await until_true(refused, "the session that was ended is refused")
    assert [await status(server, one) for one in (cookies[0], cookies[2], cookies[3])] == [200] * 3


@pytest.mark.slow
@pytest.mark.parametrize("how", ["revoked", "ended"])
async def test_an_open_stream_ends_with_its_session(tmp_path, how):
    async with opened(tmp_path, real=True) as server:
        own = {**OWN, "Origin": server.url}
        issued = await key(server)
        _, cookie = await log_in(server, issued.text, headers=own)
        definition = workflow({"id": "w", "type": "wait", "config": {"signal": "go"}})
        run = await server.ok("/runs", {"definition": definition}, headers={**own, **cookie})
        path = f"{API}/runs/{run['run_id']}/stream"
        async with server.client.stream("GET", path, headers=cookie) as stream:
            assert stream.status_code == 200
            pieces = stream.aiter_bytes()
            await anext(pieces)
            if how == "revoked":
                now = server.engine.clock.now()
                await archive_of(server.engine).revoke_key("acme", issued.key.key_id, now)
            else:
                await server.client.delete(f"{API}/session", headers={**own, **cookie})
            async with asyncio.timeout(DEADLINE):
                async for _ in pieces:
                    pass


async def test_an_open_server_has_nothing_to_log_in_to(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        async with mounted(engine) as server:
            response, _ = await log_in(server, "x")
            assert (response.status_code, response.json()["code"]) == (409, "open_server")
            assert (await server.ok("/sessions"))["items"] == []
            assert (await server.client.delete(f"{API}/session", headers=OWN)).status_code == 204
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)
