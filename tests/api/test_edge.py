"""What reaches the server from outside: sizes, shapes, origins. Everything wrong is named, and nothing is a 5xx."""

import asyncio
import base64
import os
import re
import resource

import httpx2
import msgspec
import pytest

from perdure.access import Permission
from perdure.api import Options, create_app
from perdure.api import server as servers
from perdure.api.endpoints import Routes, UndeclaredRoute
from perdure.engine import Engine
from perdure.errors import SettingsInvalid
from tests.api.helpers import API, bearer, served, serving, with_tokens
from tests.api.test_runs import TWO


async def test_errors_are_problem_details_with_a_code_and_the_id_of_the_request(server):
    response = await server.get("/runs/nope", headers={"X-Request-Id": "mine-1"})
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"] == "mine-1"
    assert response.json() == {
        "type": "urn:perdure:error:not_found",
        "title": "Not found",
        "status": 404,
        "code": "not_found",
        "detail": "there is no run nope",
        "request_id": "mine-1",
    }
    other = await server.get("/runs/nope", headers={"X-Request-Id": "not an id"})
    assert re.fullmatch("[0-9a-f]{32}-[0-9a-f]+", other.headers["x-request-id"])


async def test_a_path_outside_the_api_is_answered_with_where_it_is(server):
    response = await server.client.get("/runs")
    assert (response.status_code, response.json()["code"]) == (404, "no_such_route")
    assert "there is nothing at /runs; the API is below /api/v1" in response.json()["detail"]
    assert "below" not in (await server.get("/nosuch")).json()["detail"]


async def test_every_mistake_of_a_query_is_named_at_once(server):
    response = await server.get("/runs?stat=failed&limit=0&state=sleeping&cursor=a&cursor=b")
    problems = {problem["path"]: problem["message"] for problem in response.json()["problems"]}
    assert response.status_code == 400
    assert sorted(problems) == ["cursor", "limit", "stat", "state[0]"]
    assert "did you mean 'state'?" in problems["stat"]


async def test_every_mistake_of_a_body_is_named_at_once(server):
    response = await server.post("/runs", {"workflw": "x", "tags": {"a": 1}, "deadline_seconds": -1, "inputs": []})
    problems = {problem["path"]: problem["code"] for problem in response.json()["problems"]}
    assert response.status_code == 422
    assert problems == {
        "workflw": "unknown_key",
        "tags[...]": "wrong_type",
        "deadline_seconds": "wrong_type",
        "inputs": "wrong_type",
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "syntax"),
        (b"{", "syntax"),
        (b'{"workflow": NaN}', "number_out_of_range"),
        (b'{"workflow": "a", "workflow": "b"}', "duplicate_key"),
        (b'{"inputs": ' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}", "too_deep"),
        (b"[" * 100_000, "too_deep"),
        (b'{"inputs": {"a": "\\u0000"}}', "not_utf8"),
        (b'{"inputs": {"a": "\\ud800"}}', "not_utf8"),
        (b'{"inputs": {"a": 123456789012345678901234567890}}', "number_out_of_range"),
        (b'{"inputs": {"a": 1e999}}', "number_out_of_range"),
        (b'{"inputs": {"a": ' + b"9" * 10_000 + b"}}", "number_out_of_range"),
        (b'{"inputs": "\xff"}', "not_utf8"),
    ],
)
async def test_json_that_is_dangerous_or_ambiguous_is_refused(server, body, code):
    response = await server.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["problems"][0]["code"] == code, response.text


async def test_a_body_that_is_no_object_or_no_json_is_refused(server):
    array = await server.post("/runs", [1])
    assert (array.status_code, array.json()["problems"][0]["code"]) == (422, "wrong_type")
    form = await server.post("/runs", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (form.status_code, form.json()["code"]) == (415, "unsupported_media_type")
    packed = await server.post("/runs", content=b"{}", headers={"Content-Encoding": "gzip"})
    assert (packed.status_code, packed.json()["code"]) == (415, "unsupported_media_type")


async def test_a_body_that_is_too_large_is_refused_before_anybody_is_asked_who_they_are(tmp_path):
    async with serving(tmp_path, tokens=True, real=True) as server:
        response = await server.post("/runs", content=b"x" * 2_000_000)
        assert (response.status_code, response.json()["code"]) == (413, "body_too_large")

        async def endless():
            for _ in range(64):
                yield b" " * 65_536

        # Without a length: a caller without credentials is not listened to, one with them is cut off.
        assert (await server.post("/runs", content=endless())).status_code == 401
        headers = {**bearer(), "Content-Type": "application/json"}
        response = await server.post("/runs", content=endless(), headers=headers)
        assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


async def test_the_limit_of_bodies_is_an_option(tmp_path):
    async with serving(tmp_path, options=Options(max_body_bytes=100)) as server:
        assert (await server.post("/runs", {"definition": TWO})).status_code == 413


async def test_answers_carry_security_headers_and_allow_no_other_origin(server):
    for path in ("/healthz", f"{API}/runs", f"{API}/nope"):
        headers = (await server.client.get(path, headers={"Origin": "https://evil.example"})).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert not [name for name in headers if name.startswith("access-control-")]
    preflight = await server.client.options(f"{API}/runs", headers={"Origin": "https://evil.example"})
    assert preflight.status_code == 405


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://[x"])
async def test_a_page_of_another_origin_changes_nothing(server, origin):
    response = await server.post("/runs", {"definition": TWO}, headers={"Origin": origin})
    assert (response.status_code, response.json()["code"]) == (403, "cross_origin")
    assert (await server.ok("/runs"))["items"] == []
    own = await server.post("/runs", {"definition": TWO, "inputs": {"q": 1}}, headers={"Origin": server.url})
    assert own.status_code == 201


async def test_an_open_server_answers_to_its_own_names_only(tmp_path):
    async with serving(tmp_path, real=True) as server:
        for host in ("evil.example", "127.0.0.1.evil.example", "", "[::1"):
            response = await server.get("/runs", headers={"Host": host})
            assert response.status_code in (400, 421), host
        for host in ("localhost:1234", "127.0.0.1", "127.9.9.9:80", "[::1]:8700"):
            assert (await server.get("/runs", headers={"Host": host})).status_code == 200, host


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Content-Type"])
async def test_a_header_of_which_one_is_meant_comes_once(server, name):
    """A proxy may have read the first one, and this server would read the last."""
    value = "127.0.0.1" if name == "Host" else "http://127.0.0.1"
    response = await server.client.get(f"{API}/runs", headers=[(name, "evil.example"), (name, value)])
    assert (response.status_code, response.json()["code"]) == (400, "invalid_header")


async def test_pages_of_the_address_people_use_may_ask_for_changes(tmp_path):
    options = Options(public_url="https://perdure.example")
    async with serving(tmp_path, options=options) as server:
        headers = {"Origin": "https://perdure.example"}
        assert (await server.post("/runs", {"definition": TWO, "inputs": {"q": 1}}, headers=headers)).status_code == 201
        headers = {"Origin": "https://perdure.example.evil"}
        assert (await server.post("/runs", {"definition": TWO}, headers=headers)).status_code == 403


@pytest.mark.slow
async def test_whoever_has_no_credential_learns_nothing_by_odd_paths(tmp_path):
    async with serving(tmp_path, tokens=True, real=True) as server:
        tricks = [
            "/runs",
            "/runs/",
            "//runs",
            "/runs;x",
            "/runs%2f",
            "/%72uns",
            "/RUNS",
            "/runs/x/configs",
            "/./runs",
            "/nope",
        ]
        for trick in tricks:
            response = await server.client.get(httpx2.URL(server.url + API + trick))
            assert response.status_code == 401, trick
            assert response.headers["www-authenticate"].startswith("Bearer")
        assert (await server.client.request("PATCH", f"{API}/runs")).status_code == 401
        assert (await server.client.get("/openapi.json")).status_code == 200
        assert (await server.client.get("/metrics")).status_code == 401


async def test_a_route_without_a_permission_keeps_the_server_from_starting(tmp_path):
    routes = Routes("odd")

    @routes.get("/odd", None, str)
    async def odd(call):
        return {}

    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        with pytest.raises(UndeclaredRoute, match="GET /api/v1/odd has no permission"):
            create_app(engine, nouns=[routes])
    finally:
        await engine.close()


async def test_an_open_server_does_not_listen_beyond_this_machine(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        for host in ("0.0.0.0", "::", "", "example.org", "192.0.2.1"):
            with pytest.raises(SettingsInvalid, match="without authentication"):
                servers.check_address(create_app(engine), host)
        for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
            servers.check_address(create_app(engine), host)
        servers.check_address(create_app(engine, authenticator=with_tokens(engine)), "0.0.0.0")
    finally:
        await engine.close()


async def test_a_port_that_is_taken_is_said(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        async with served(engine) as server:
            port = int(server.url.rpartition(":")[2])
            with pytest.raises(servers.AddressTaken, match=f"port {port}"):
                await servers.serve(create_app(engine), "127.0.0.1", port, lambda port: None, asyncio.Event())
    finally:
        await engine.close()


async def test_something_nobody_foresaw_is_a_500_that_shows_nothing_of_it(server, monkeypatch, caplog):
    async def broken(*args, **more):
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(server.engine.journal, "list_runs", broken)
    response = await server.get("/runs")
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "swordfish" not in response.text
    assert "swordfish" in caplog.text
    assert response.json()["request_id"] in caplog.text


async def test_metrics_count_by_route_and_never_by_id(server):
    run_id = (await server.start(TWO, {"q": 1}))["run_id"]
    await server.ok(f"/runs/{run_id}")
    await server.client.get("/somewhere/else")
    text = (await server.client.get("/metrics")).text
    assert 'perdure_http_requests_total{method="GET",route="/api/v1/runs/{run_id}",status="200"} 1.0' in text
    assert 'perdure_http_requests_total{method="GET",route="none",status="404"} 1.0' in text
    assert 'perdure_runs_ended_total{state="completed"} 1.0' in text
    assert 'perdure_events_total{type="node.completed"} 2.0' in text
    assert run_id not in text


def forget(server):
    """As if the last look were long ago."""
    server.app.state.site.readiness._until = 0.0


async def test_a_database_that_may_not_be_written_to_is_not_ready(server):
    connection = server.engine.journal._writer._connection
    connection.execute("PRAGMA query_only = ON")
    forget(server)
    response = await server.client.get("/readyz")
    assert (response.status_code, response.json()["reason"]) == (503, "journal_read_only")
    await server.ok("/runs")  # what can be read is read
    connection.execute("PRAGMA query_only = OFF")
    forget(server)
    assert (await server.client.get("/readyz")).json()["status"] == "ok"


async def test_a_disk_that_is_full_is_not_ready(server):
    path = server.engine.journal._options.path
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    await server.ok("/runs", {"definition": TWO, "inputs": {"q": 1}, "wait_seconds": 30})
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(f"{path}-wal").st_size, before[1]))
    try:
        forget(server)
        response = await server.client.get("/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert response.status_code == 503
    assert response.json()["reason"] in {"journal_full", "journal_unavailable", "outcome_unknown"}
    forget(server)
    assert (await server.client.get("/readyz")).status_code == 200


async def test_readiness_writes_once_in_a_while_however_often_it_is_asked(server, monkeypatch):
    written = []
    write = server.engine.journal.check_writable

    async def count():
        written.append(1)
        await write()

    monkeypatch.setattr(server.engine.journal, "check_writable", count)
    before = await server.engine.journal.incarnation()
    forget(server)
    answers = await asyncio.gather(*(server.client.get("/readyz") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert written == [1]
    assert await server.engine.journal.incarnation() == before


async def test_readiness_is_that_of_the_database(server, monkeypatch):
    ready = (await server.client.get("/readyz")).json()
    assert (ready["status"], ready["workers"]["dead"]) == ("ok", 0)
    await server.engine.journal.close()
    forget(server)
    response = await server.client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"status": "unavailable", "reason": "journal_closed"})
    assert (await server.client.get("/healthz")).status_code == 200
    refused = await server.get("/runs")
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "journal_closed", "1")


@pytest.mark.slow
async def test_the_document_describes_what_is_mounted(server):
    document = (await server.client.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    operations = [(path, method) for path, item in document["paths"].items() for method in item]
    routes = {(_template(route.path), method.lower()) for route in server.app.routes for method in route.methods}
    assert set(operations) <= routes
    missing = {one for one in routes if one[1] != "head"} - set(operations)
    assert missing == {("/openapi.json", "get")}
    for path, method in operations:
        operation = document["paths"][path][method]
        assert operation.get("x-permission", "") in {*Permission, ""}
        assert ("x-permission" in operation) == ("security" not in operation)


def _template(path):
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _cursors():
    shapes = [
        [1.0, "a"],
        ["a"],
        [1],
        [2**63, "a"],
        [2**70],
        [-(2**63)],
        [1e308, "\x00"],
        [None, None],
        [[1], 2],
        {},
        "a",
    ]
    made = [base64.urlsafe_b64encode(msgspec.json.encode(one)).decode().rstrip("=") for one in shapes]
    return [*made, "", "' OR 1=1 --", "%", "\u0661", "a" * 2000]


@pytest.mark.slow
async def test_a_cursor_that_somebody_made_up_is_refused_or_gives_a_page(server):
    await server.start(TWO, {"q": 1})
    document = (await server.client.get("/openapi.json")).json()
    lists = [
        path
        for path, item in document["paths"].items()
        if "{" not in path and any(one["name"] == "cursor" for one in item.get("get", {}).get("parameters", ()))
    ]
    assert len(lists) > 5
    for path in lists:
        for cursor in _cursors():
            response = await server.client.get(path, params={"cursor": cursor})
            assert response.status_code in (200, 400), (path, cursor, response.text)


INJECTIONS = ["'", "' OR '1'='1", "1; DROP TABLE runs; --", "%", "_", "\\", '"', "a\u0000b", "${7*7}", "{{7*7}}", "$ne"]


async def test_what_looks_like_sql_is_a_value_like_any_other(server):
    await server.start({**TWO, "name": "plain"}, {"q": 1}, tags={"a": "b"})
    for text in INJECTIONS:
        for name in ("workflow", "parent", "cursor", "tag"):
            value = f"a={text}" if name == "tag" else text
            response = await server.get("/runs", params={name: value})
            assert response.status_code in (200, 400), (name, text, response.text)
            assert response.status_code == 400 or response.json()["items"] == [], (name, text)
    assert len((await server.ok("/runs"))["items"]) == 1
