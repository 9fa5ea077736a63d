"""`http` in the real engine, against a real server."""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest

from perdure import egress
from perdure.expressions.json_schema import check as misfits
from perdure.kernel import events as e
from perdure.nodes import http
from tests.egress.server import reply, serving
from tests.engine.helpers import ask, check, ended, events, finish, output_of, running, start, until, workflow

QUICK = {"max_attempts": 3, "backoff_ms": 1, "jitter": False}


def node(server, path="/", id="call", **more):
    keys = {"retry", "effect", "timeout_seconds", "dependencies", "isolation", "on_failure"}
    outer = {key: more.pop(key) for key in keys & more.keys()}
    config = {"url": f"http://127.0.0.1:{server.port}{path}", **more}
    return {"id": id, "type": "http", "config": config, "retry": QUICK, **outer}


async def run(path, server, *paths, inputs=None, **more):
    async with running(path) as engine:
        return await finish(engine, workflow(node(server, *paths, **more)), inputs=inputs)


async def output(path, server, *paths, **more):
    state = await run(path, server, *paths, **more)
    assert state.state == "completed", state.error
    found = output_of(state, "call")
    assert misfits(http.TYPE.output_schema, found) == []
    return found


async def failure(path, server, *paths, **more):
    state = await run(path, server, *paths, **more)
    assert state.state == "failed"
    return state.error


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "put", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
async def test_every_method_is_sent_and_its_answer_is_the_output(tmp_path, method):
    async with serving(lambda seen: reply(body=seen.method.encode(), content_type="text/plain")) as server:
        found = await output(tmp_path, server, "/x", method=method)
    assert (found["status"], found["body"]) == (200, method.upper())
    assert found["headers"]["content-type"] == "text/plain"
    assert server.seen[0].target == "/x"


async def test_head_has_a_status_and_headers_and_no_body(tmp_path):
    async with serving(lambda seen: b"HTTP/1.1 200 X\r\nContent-Length: 99\r\nETag: x\r\n\r\n") as server:
        found = await output(tmp_path, server, method="HEAD")
    assert found == {"status": 200, "headers": {"content-length": "99", "etag": "x"}, "body": None}


@pytest.mark.parametrize(
    ("config", "body", "kind"),
    [
        ({"json": {"a": [1, None, "ü"]}}, '{"a":[1,null,"ü"]}'.encode(), "application/json"),
        ({"json": None}, b"null", "application/json"),
        ({"json": "{{ inputs.data }}"}, b'{"deep":[true]}', "application/json"),
        ({"body": "plain ü"}, "plain ü".encode(), "text/plain; charset=utf-8"),
        (
            {"body": {"$bytes": base64.b64encode(bytes(range(256))).decode()}},
            bytes(range(256)),
            "application/octet-stream",
        ),
        ({"form": {"a": "b c&d", "n": [1, 2], "no": None}}, b"a=b+c%26d&n=1&n=2", "application/x-www-form-urlencoded"),
        ({"body": "<x/>", "headers": {"Content-Type": "application/xml"}}, b"<x/>", "application/xml"),
    ],
)
async def test_bodies_of_every_kind_are_sent_as_they_are(tmp_path, config, body, kind):
    async with serving(lambda seen: reply()) as server:
        await output(tmp_path, server, method="POST", inputs={"data": {"deep": [True]}}, **config)
    assert (server.seen[0].body, server.seen[0].headers["content-type"]) == (body, kind)


async def test_query_values_are_encoded_and_added_to_those_of_the_url(tmp_path):
    query = {"q": "a&b=c d", "list": [1, "x", True], "none": None, "n": 1.5}
    async with serving(lambda seen: reply()) as server:
        await output(tmp_path, server, "/s?fixed=1", query=query)
    assert server.seen[0].target == "/s?fixed=1&q=a%26b%3Dc%20d&list=1&list=x&list=true&n=1.5"


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [
        ({"type": "bearer", "token": "t0"}, "authorization", "Bearer t0"),
        (
            {"type": "basic", "username": "u", "password": "p:ü"},
            "authorization",
            "Basic " + base64.b64encode("u:p:ü".encode()).decode(),
        ),
        ({"type": "header", "name": "X-Api-Key", "value": "k"}, "x-api-key", "k"),
    ],
)
async def test_auth_becomes_a_header(tmp_path, auth, name, value):
    async with serving(lambda seen: reply()) as server:
        await output(tmp_path, server, auth=auth)
    assert server.seen[0].headers[name] == value


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sent", "response", "body"),
    [
        ("application/json", b'{"a": [1, 2.5, null]}', "auto", {"a": [1, 2.5, None]}),
        ("application/problem+json; charset=utf-8", b"[1]", "auto", [1]),
        ("text/html; charset=iso-8859-1", "ü".encode("latin-1"), "auto", "ü"),
        ("text/plain; charset=nonsense", "ü".encode(), "auto", "ü"),
        ("application/xml", b"<x/>", "auto", "<x/>"),
        ("image/png", b"\x89PNG\x00", "auto", {"$bytes": base64.b64encode(b"\x89PNG\x00").decode()}),
        ("", b"\x00\x01", "auto", {"$bytes": "AAE="}),
        ("application/json", b"", "auto", None),
        ("text/plain", b'{"a": 1}', "json", {"a": 1}),
        ("application/json", b'{"a": 1}', "text", '{"a": 1}'),
        ("text/plain", b"x", "bytes", {"$bytes": "eA=="}),
    ],
)
async def test_the_body_is_data_text_or_bytes_by_what_the_server_calls_it(tmp_path, kind, sent, response, body):
    headers = {"content_type": kind} if kind else {}
    async with serving(lambda seen: reply(body=sent, **headers)) as server:
        found = await output(tmp_path, server, response=response)
    assert found["body"] == body


async def test_bytes_of_one_call_can_be_sent_by_the_next(tmp_path):
    sent = bytes(range(256)) * 10

    def answer(seen):
        return reply(body=sent, content_type="image/png") if seen.method == "GET" else reply()

    async with serving(answer) as server, running(tmp_path) as engine:
        upload = node(server, "/b", id="up", method="PUT", body="{{ call.body }}", dependencies=["call"])
        state = await finish(engine, workflow(node(server, "/a"), upload))
    assert state.state == "completed", state.error
    assert server.seen[1].body == sent


async def test_json_that_is_none_is_a_bad_response(tmp_path):
    async with serving(lambda seen: reply(body=b"{", content_type="application/json")) as server:
        error = await failure(tmp_path, server)
    assert (error.code, error.attempts) == ("bad_response", 3)


async def test_repeated_headers_are_joined(tmp_path):
    head = b"HTTP/1.1 200 X\r\nContent-Length: 0\r\nVia: a\r\nVIA: b\r\nSet-Cookie: a=1, x\r\nSet-Cookie: b=2\r\n\r\n"
    async with serving(lambda seen: head) as server:
        found = await output(tmp_path, server)
    assert (found["headers"]["via"], found["headers"]["set-cookie"]) == ("a, b", "a=1, x\nb=2")


@pytest.mark.parametrize(
    ("expected", "status", "fits"),
    [
        (None, 204, True),
        (None, 304, False),
        (404, 404, True),
        (404, 200, False),
        ("404", 404, True),
        ("4xx", 410, True),
        ([200, "4xx"], 404, True),
        ([200, "4xx"], 201, False),
        ("5xx", 503, True),
    ],
)
async def test_expect_status_says_what_counts_as_success(tmp_path, expected, status, fits):
    more = {} if expected is None else {"expect_status": expected}
    async with serving(lambda seen: reply(status)) as server:
        state = await run(tmp_path, server, **more)
    assert (state.state == "completed") is fits
    if not fits:
        assert state.error.code == f"http:{status}"
        assert len(server.seen) == 1


# -- retries -----------------------------------------------------------------------------------------------------------


def times(*answers):
    """One answer after the other; the last stays."""
    left = list(answers)
    return lambda seen: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_passing_trouble_is_tried_again(tmp_path, status):
    async with serving(
        times(reply(status), reply(status), reply(body=b"{}", content_type="application/json"))
    ) as server:
        found = await output(tmp_path, server)
    assert (found["status"], len(server.seen)) == (200, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
async def test_a_lasting_trouble_is_not(tmp_path, status):
    async with serving(lambda seen: reply(status, b'{"why": "no"}', content_type="application/json")) as server:
        error = await failure(tmp_path, server, "/x?token=canary")
    assert (error.code, error.attempts, len(server.seen)) == (f"http:{status}", 1, 1)
    assert error.message == f"GET http://127.0.0.1:{server.port}/x?token=*** answered {status}"
    assert error.details == {
        "status": status,
        "url": f"http://127.0.0.1:{server.port}/x?token=***",
        "body": '{"why": "no"}',
    }


async def test_retry_on_and_give_up_on_know_the_codes(tmp_path):
    only_server = {**QUICK, "retry_on": ["http:5xx"]}
    async with serving(times(reply(503), reply(500), reply(429))) as server:
        error = await failure(tmp_path, server, retry=only_server)
    assert (error.code, len(server.seen)) == ("http:429", 3)
    async with serving(times(reply(500), reply(501), reply(200))) as server:
        (tmp_path / "b").mkdir()
        error = await failure(tmp_path / "b", server, retry={**QUICK, "give_up_on": ["http:501"]})
    assert (error.code, len(server.seen)) == ("http:501", 2)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "999999999999999999999"}, 86_400),
        (
            {
                "date": "Sun, 15 Nov 2026 10:00:00 GMT",
                "retry_after": "Sun, 15 Nov 2026 10:02:00 GMT",
            },
            120,
        ),
        ({"date": "Sun, 15 Nov 2026 10:00:00 GMT", "retry_after": "Sun, 15 Nov 2026 09:00:00 GMT"}, 0),
        ({"retry_after": "soon"}, 0.001),
        ({}, 0.001),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_says_when_it_is_tried_again(tmp_path, headers, seconds, status):
    async with serving(times(reply(status, **headers), reply())) as server, running(tmp_path) as engine:
        await start(engine, workflow(node(server)))
        await until(engine, lambda state: state.find("call").failures == 1 or state.terminal)
        [retrying] = [event for event in await events(engine.journal) if isinstance(event, e.NodeRetrying)]
        assert retrying.retry_at - retrying.at == pytest.approx(seconds, abs=0.0001)
        await ask(engine, "cancel")
        await ended(engine)


async def test_retry_after_a_date_is_counted_by_our_clock_when_the_server_shows_none(tmp_path):
    until_then = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    async with serving(times(reply(503, retry_after=until_then), reply())) as server, running(tmp_path) as engine:
        await start(engine, workflow(node(server)))
        await until(engine, lambda state: state.find("call").failures == 1)
        [retrying] = [event for event in await events(engine.journal) if isinstance(event, e.NodeRetrying)]
        assert 3590 < retrying.retry_at - retrying.at <= 3600
        await ask(engine, "cancel")
        await ended(engine)


async def test_a_call_with_effects_carries_the_same_key_over_all_attempts(tmp_path):
    async with serving(times(reply(503), reply(503), reply())) as server, running(tmp_path) as engine:
        post = node(server, id="a", method="POST", json={})
        get = node(server, id="b", dependencies=["a"])
        own = node(server, id="c", method="POST", headers={"IDEMPOTENCY-KEY": "mine"}, dependencies=["b"])
        assert (await finish(engine, workflow(post, get, own))).state == "completed"
    keys = [seen.headers.get("idempotency-key") for seen in server.seen]
    assert keys[0] is not None
    assert "r1" in keys[0]
    assert keys == [*[keys[0]] * 3, None, "mine"]


async def test_refused_connections_are_tried_again_as_network(tmp_path):
    async with serving(lambda seen: reply()) as server:
        pass  # closed: nobody listens at its port now
    error = await failure(tmp_path, server, retry={**QUICK, "retry_on": ["network"]})
    assert (error.code, error.attempts) == ("network", 3)


async def test_broken_connections_are_tried_again_as_network(tmp_path):
    broken = []

    async def answer(seen, writer):
        if len(broken) < 2:
            broken.append(seen)
            return None
        return reply()

    async with serving(answer) as server:
        assert (await output(tmp_path, server))["status"] == 200


async def test_silence_is_tried_again_as_timeout(tmp_path):
    async def answer(seen, writer):
        return reply() if len(server.seen) > 1 else await asyncio.Event().wait()

    async with serving(answer) as server:
        retry = {**QUICK, "max_attempts": 20, "retry_on": ["timeout"]}
        assert (await output(tmp_path, server, timeout=0.3, retry=retry))["status"] == 200
    assert len(server.seen) >= 2


async def test_the_timeout_of_the_node_ends_a_call_too(tmp_path):
    async def answer(seen, writer):
        return await asyncio.Event().wait()

    async with serving(answer) as server:
        error = await failure(tmp_path, server, timeout_seconds=0.1, retry={"max_attempts": 1})
    assert error.code == "timeout"


async def test_an_effect_that_may_happen_once_is_retried_only_when_it_certainly_did_not(tmp_path):
    async with serving(lambda seen: reply()) as server:
        pass
    error = await failure(tmp_path, server, method="POST", effect="at_most_once")
    assert (error.code, error.attempts) == ("network", 3)

    async def break_off(seen, writer):
        return None

    (tmp_path / "b").mkdir()
    async with serving(break_off) as server, running(tmp_path / "b") as engine:
        await start(engine, workflow(node(server, method="POST", effect="at_most_once")))
        state = await until(engine, lambda state: state.find("call").state == "parked")
        assert (state.find("call").error.code, len(server.seen)) == ("network", 1)
        await check(engine.journal)


# -- rules and limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/meta-data/", "http://2130706433/", "http://[::1]/", "http://10.0.0.1:6379/"]
)
async def test_what_may_not_be_called_fails_at_once(tmp_path, url):
    async with running(tmp_path) as engine:
        call = {"id": "call", "type": "http", "config": {"url": "{{ inputs.url }}"}, "retry": QUICK}
        state = await finish(engine, workflow(call), inputs={"url": url})
    assert state.state == "failed"
    assert state.error.code in ("egress_refused", "bad_config")
    assert state.error.attempts == 1


async def test_a_redirect_to_what_may_not_be_called_fails_at_once(tmp_path):
    async with serving(lambda seen: reply(302, location="http://169.254.169.254/")) as server:
        error = await failure(tmp_path, server)
    assert (error.code, error.attempts, len(server.seen)) == ("egress_refused", 1, 1)


async def test_redirects_can_be_seen_instead_of_followed(tmp_path):
    async with serving(lambda seen: reply(302, location="/next")) as server:
        found = await output(tmp_path, server, follow_redirects=False)
    assert (found["status"], found["headers"]["location"], len(server.seen)) == (302, "/next", 1)


async def test_an_answer_that_is_too_large_is_not_asked_for_again(tmp_path):
    async with serving(lambda seen: reply(body=b"x" * 2000)) as server:
        error = await failure(tmp_path, server, max_bytes=1000)
    assert (error.code, error.attempts, len(server.seen)) == ("response_too_large", 1, 1)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"url": "{{ inputs.n }}"}, "'url' must be text"),
        ({"timeout": "{{ inputs.word }}"}, "'timeout' must be a number"),
        ({"headers": {"x": "{{ inputs.split }}"}}, "characters that headers cannot have"),
        ({"auth": {"type": "{{ inputs.word }}"}}, "'auth.type' must be one of bearer, basic, header"),
        ({"expect_status": "{{ inputs.word }}"}, "'expect_status' must be a status"),
        ({"body": "{{ inputs.n }}"}, "'body' must be text or an object"),
        ({"body": {"$bytes": "{{ inputs.word }}"}}, "not base64"),
    ],
)
async def test_a_config_that_renders_to_nonsense_is_a_bad_config_and_not_retried(tmp_path, config, words):
    async with serving(lambda seen: reply()) as server:
        error = await failure(tmp_path, server, inputs={"n": 7, "word": "canary!", "split": "a\r\nb: c"}, **config)
    assert (error.code, error.attempts, server.seen) == ("bad_config", 1, [])
    assert words in error.message
    assert "canary" not in error.message


async def test_nothing_secret_in_a_url_reaches_the_journal(tmp_path):
    """The rendered URL is not stored, and errors show neither user names nor query values."""
    urls = ["http://user:canary@127.0.0.1/", "http://127.0.0.1:1/x?token=canary", "http://x.test\\canary/"]
    async with running(tmp_path) as engine:
        for number, url in enumerate(urls):
            call = {"id": "call", "type": "http", "config": {"url": "{{ inputs.url }}"}, "retry": {"max_attempts": 1}}
            state = await finish(engine, workflow(call), run_id=f"r{number}", inputs={"url": url})
            assert state.state == "failed"
            stored = [msgspec.json.encode(one) for one in await events(engine.journal, f"r{number}")]
            assert [body for body in stored if b"canary" in body] == stored[:1], "only the inputs have it"


async def test_a_secret_reaches_the_service_and_nothing_that_is_kept(tmp_path, monkeypatch):
    """Not even when the service sends it back, in an answer or in an error."""
    secret = "canary-7f3a9c"
    monkeypatch.setenv("PERDURE_SECRET_KEY", secret)

    def echo(seen):
        status = 200 if seen.target.startswith("/ok") else 400
        return reply(status, f"{seen.target} {seen.headers['authorization']}".encode(), content_type="text/plain")

    async with serving(echo) as server, running(tmp_path) as engine:
        for number, path in enumerate(("/ok", "/no")):
            call = node(
                server, path, query={"k": "{{ secrets.KEY }}"}, auth={"type": "bearer", "token": "{{ secrets.KEY }}"}
            )
            state = await finish(engine, workflow(call), run_id=f"r{number}")
            assert state.terminal
    assert [seen.headers["authorization"] for seen in server.seen] == [f"Bearer {secret}"] * 2
    assert [seen.target for seen in server.seen] == [f"/ok?k={secret}", f"/no?k={secret}"]
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert kept == []


# -- the client --------------------------------------------------------------------------------------------------------


async def test_calls_of_one_worker_share_connections_and_its_end_closes_them(tmp_path):
    async with serving(lambda seen: reply()) as server:
        async with running(tmp_path) as engine:
            chain = [node(server, id="n0")]
            chain += [node(server, id=f"n{k}", dependencies=[f"n{k - 1}"]) for k in range(1, 8)]
            assert (await finish(engine, workflow(*chain))).state == "completed"
            assert len(egress._clients) == 1
        assert len(egress._clients) == 0
        assert (len(server.seen), server.connections) == (8, 1)


@pytest.mark.slow
async def test_a_call_in_a_process_of_its_own_obeys_the_settings(tmp_path, monkeypatch):
    async with serving(lambda seen: reply(body=b'{"a": 1}', content_type="application/json")) as server:
        monkeypatch.setenv("PERDURE_EGRESS_ALLOW", f"127.0.0.1:{server.port}")
        assert (await output(tmp_path, server, isolation="process"))["body"] == {"a": 1}
    async with serving(lambda seen: reply()) as other:
        (tmp_path / "b").mkdir()
        error = await failure(tmp_path / "b", other, isolation="process")
    assert (error.code, other.connections) == ("egress_refused", 0)


@pytest.mark.slow
async def test_many_calls_at_once_all_come_back(tmp_path):
    async with serving(
        lambda seen: reply(body=json.dumps(seen.target).encode(), content_type="application/json")
    ) as server:
        inner = {"type": "http", "config": {"url": f"http://127.0.0.1:{server.port}/{{{{ item }}}}"}}
        over = {"id": "all", "type": "map", "config": {"over": list(range(200)), "max_concurrency": 50, "node": inner}}
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(over))
    assert [one["body"] for one in output_of(state, "all")] == [f"/{n}" for n in range(200)]
    assert server.connections <= 100
