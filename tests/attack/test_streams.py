"""Streams and waiting requests: a number per key and per tenant (S14), and an end with their credential (S15)."""

import asyncio
import contextlib
from collections import Counter

import jwt
import pytest

from perdure.access import Authenticator, issue_key, tokens
from perdure.access.authenticator import REMEMBER_SECONDS
from perdure.access.tokens import TokenRules, Tokens
from perdure.api import Options
from perdure.api.lasting_answer import AGAIN_SECONDS
from perdure.clock import SystemClock, system
from perdure.engine import Engine
from perdure.service.tenancy import archive_of
from tests.api.helpers import API, SECRET, bearer, served, serving, with_tokens
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE, until_true

WAITING = {
    "name": "w",
    "nodes": [
        {"id": "a", "type": "wait", "config": {"signal": "go"}},
        {
            "id": "yields",
            "type": "task",
            "config": {"function": "tests.engine.streaming:words"},
            "stream": {},
            "dependencies": ["a"],
        },
    ],
}


@contextlib.asynccontextmanager
async def streaming(server, run_id, headers):
    async with server.client.stream("GET", f"{API}/runs/{run_id}/stream", headers=headers) as response:
        yield response


@pytest.mark.slow
@attack("S14", "a viewer opens streams until nobody else gets a connection")
async def test_a_key_and_a_tenant_have_so_many_streams(tmp_path):
    options = Options(streams_per_key=2, streams_per_tenant=3)
    async with serving(tmp_path, real=True, tokens=True, options=options) as server:
        run_id = (await server.start(WAITING, wait=0, headers=bearer("ann")))["run_id"]
        async with contextlib.AsyncExitStack() as stack:
            for who in ("eve", "eve", "bob"):
                response = await stack.enter_async_context(streaming(server, run_id, bearer(who, "viewer")))
                assert response.status_code == 200
            for who in ("eve", "bob"):
                async with streaming(server, run_id, bearer(who, "viewer")) as refused:
                    assert refused.status_code == 429
                    assert "retry-after" in refused.headers
            other = (await server.start(WAITING, wait=0, headers=bearer("cat", tenant="other")))["run_id"]
            async with streaming(server, other, bearer("cat", tenant="other")) as response:
                assert response.status_code == 200
        await until_true(lambda: server.app.state.site.places.taken == 0, "those that left made room")
        async with streaming(server, run_id, bearer("eve", "viewer")) as response:
            assert response.status_code == 200


@pytest.mark.slow
@attack("S14", "a viewer opens many streams in the same moment")
async def test_streams_that_are_opened_at_once_are_counted_too(tmp_path):
    options = Options(streams_per_key=2, streams_per_tenant=3)
    async with serving(tmp_path, real=True, tokens=True, options=options) as server:
        run_id = (await server.start(WAITING, wait=0, headers=bearer("ann")))["run_id"]
        async with contextlib.AsyncExitStack() as stack:
            asked = [streaming(server, run_id, bearer("eve", "viewer")) for _ in range(20)]
            answers = await asyncio.gather(*(stack.enter_async_context(one) for one in asked))
            assert sorted(one.status_code for one in answers) == [200] * 2 + [429] * 18
            missing = await server.get("/runs/nothing/stream", headers=bearer("bob", "viewer"))
            assert missing.status_code == 404
            assert server.app.state.site.places.taken == 2
        await until_true(lambda: server.app.state.site.places.taken == 0, "those that left made room")


@pytest.mark.slow
async def test_a_request_that_waits_takes_a_place_too(tmp_path):
    options = Options(streams_per_key=1, streams_per_tenant=1)
    async with serving(tmp_path, real=True, options=options) as server, asyncio.TaskGroup() as group:
        waiting = group.create_task(server.post("/runs", {"definition": WAITING, "wait_seconds": 30}))
        await until_true(lambda: server.app.state.site.places.taken == 1, "it waits")
        assert (await server.post("/runs", {"definition": WAITING, "wait_seconds": 0.01})).status_code == 429
        assert (await server.post("/runs", {"definition": WAITING})).status_code == 201
        for run in (await server.ok("/runs"))["items"]:
            await server.ok(f"/runs/{run['run_id']}/cancel", {})
        assert (await waiting).status_code == 201


LASTING = {
    "stream": ("GET", "/runs/{run}/stream", None),
    "stream with what is executed": ("GET", "/runs/{run}/stream?with=working", None),
    "chunks": ("GET", "/runs/{run}/nodes/yields/chunks", None),
    "export": ("GET", "/runs/{run}/export", None),
    "wait": ("POST", "/runs", {"definition": WAITING, "wait_seconds": 300}),
    "wait for a run that was started before": ("POST", "/runs", {"definition": WAITING, "wait_seconds": 300}),
}
"""Every request that lasts. Pages of events and logs are answered at once: who reads on asks again."""


class Shifted(SystemClock):
    """A clock that a test can move."""

    shift = 0.0

    def now(self):
        return super().now() + self.shift


async def _endless(*_, **__):
    """An export that its reader takes slowly."""

    async def pieces():
        yield '{"format":1'
        await asyncio.Event().wait()

    return pieces()


@attack("S15", "whatever a credential has opened goes on without it")
@pytest.mark.slow
@pytest.mark.parametrize("way", ["revoked", "expired key", "expired token"])
async def test_whatever_lasts_ends_by_the_next_checks_of_its_credential(tmp_path, monkeypatch, way):
    """By the third at the latest: a key is remembered for a while. So on any machine it is less than a second, as long as the
    machine itself gets to check."""
    assert REMEMBER_SECONDS + AGAIN_SECONDS < 1
    monkeypatch.setattr("perdure.service.runs.runs.export_run", _endless)
    clock = Shifted()
    async with keyed(tmp_path, clock) as (server, keys):
        ann, eve = ({"Authorization": f"Bearer {key.text}"} for key in keys)
        if way == "expired token":
            claims = {"sub": "eve", "tenant": "acme", "roles": ["admin"], "exp": int(clock.now()) + 3600}
            eve = {"Authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"}
        site = server.app.state.site
        run_id = (await server.start(WAITING, wait=0, headers=ann))["run_id"]
        await server.ok("/runs", {"definition": WAITING}, headers={**eve, "Idempotency-Key": "again"})
        checked: Counter[str] = Counter()
        gone = False
        real = site.identify

        async def identify(request):
            if gone and "x-request-id" in request.headers:
                checked[request.headers["x-request-id"]] += 1
            return await real(request)

        monkeypatch.setattr(site, "identify", identify)

        async def ask(name, number):
            method, path, body = LASTING[name]
            headers = {**eve, "X-Request-Id": str(number)}
            if "before" in name:
                headers["Idempotency-Key"] = "again"
            more = {} if body is None else {"json": body}
            async with server.client.stream(method, API + path.format(run=run_id), headers=headers, **more) as response:
                await until_closed(response)
                return response.status_code

        async with asyncio.TaskGroup() as group:
            asked = {name: group.create_task(ask(name, number)) for number, name in enumerate(LASTING)}
            await until_true(lambda: site.places.taken == len(LASTING), "all of them are open")
            if way == "revoked":
                await server.ok(f"/keys/{keys[1].key.key_id}", method="DELETE", headers=ann)
            else:
                clock.shift = 7200.0
            gone = True
        assert {name: task.result() for name, task in asked.items()} == {
            name: 401 if name.startswith("wait") else 200 for name in LASTING
        }
        assert site.places.taken == 0
        checks = {name: checked[str(number)] for number, name in enumerate(LASTING)}
        assert all(1 <= count <= 3 for count in checks.values()), checks
        clock.shift = 0.0
        for run in (await server.ok("/runs", headers=ann))["items"]:
            await server.ok(f"/runs/{run['run_id']}/cancel", {}, headers=ann)


@contextlib.asynccontextmanager
async def keyed(path, clock):
    """A server that takes keys and tokens, and the keys of two administrators; the second has an end."""
    engine = await Engine.open(f"sqlite:///{path / 'perdure.db'}")
    try:
        await engine.hold()
        archive = archive_of(engine)
        keys = [
            await issue_key(
                archive, engine.clock, tenant="acme", name=name, roles=("admin",), by="test", expires_at=expires_at
            )
            for name, expires_at in (("ann", None), ("eve", engine.clock.now() + 3600))
        ]
        tokens = Tokens(TokenRules(secret=SECRET), clock)
        authenticator = Authenticator(archive, clock, keys=True, tokens=tokens)
        async with served(engine, authenticator=authenticator) as server:
            yield server, keys
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@attack("S14", "exports are opened without end")
@pytest.mark.slow
async def test_an_export_takes_a_place_and_leaves_it(tmp_path, monkeypatch):
    options = Options(streams_per_key=1, streams_per_tenant=1)
    async with serving(tmp_path, real=True, tokens=True, options=options) as server:
        run_id = (await server.start(WAITING, wait=0, headers=bearer("ann")))["run_id"]
        whole = await server.get(f"/runs/{run_id}/export", headers=bearer())
        assert whole.json()["run"]["run_id"] == run_id
        await until_true(lambda: server.app.state.site.places.taken == 0, "it left its place")
        assert (await server.get("/runs/nothing/export", headers=bearer())).status_code == 404
        assert server.app.state.site.places.taken == 0
        monkeypatch.setattr("perdure.service.runs.runs.export_run", _endless)
        async with server.client.stream("GET", f"{API}/runs/{run_id}/export", headers=bearer()) as response:
            assert response.status_code == 200
            refused = await server.get(f"/runs/{run_id}/export", headers=bearer())
            assert refused.status_code == 429
        await until_true(lambda: server.app.state.site.places.taken == 0, "who left made room")


async def until_closed(response):
    async with asyncio.timeout(DEADLINE):
        async for _ in response.aiter_bytes():
            pass


@pytest.mark.slow
@attack("S15", "a revoked key goes on reading a stream it had opened")
async def test_a_stream_ends_with_its_key(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        await engine.hold()
        archive = archive_of(engine)
        keys = [
            await issue_key(archive, engine.clock, tenant="acme", name=name, roles=("admin",), by="test")
            for name in ("ann", "eve")
        ]
        ann, eve = ({"Authorization": f"Bearer {key.text}"} for key in keys)
        async with served(engine, authenticator=Authenticator(archive, engine.clock, keys=True)) as server:
            run_id = (await server.start(WAITING, wait=0, headers=ann))["run_id"]
            async with streaming(server, run_id, eve) as response, streaming(server, run_id, ann) as other:
                assert response.status_code == other.status_code == 200
                await server.ok(f"/keys/{keys[1].key.key_id}", method="DELETE", headers=ann)
                await until_closed(response)
                async with asyncio.timeout(DEADLINE):
                    assert b"retry" in await anext(other.aiter_bytes())  # whose key is good reads on
            await server.ok(f"/runs/{run_id}/cancel", {}, headers=ann)
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@pytest.mark.slow
@attack("S15", "a start that waits answers a key that was revoked meanwhile")
@pytest.mark.parametrize("again", [False, True], ids=["the first", "the same again"])
async def test_a_start_that_waits_answers_no_key_that_was_revoked(tmp_path, again):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        await engine.hold()
        archive = archive_of(engine)
        keys = [
            await issue_key(archive, engine.clock, tenant="acme", name=name, roles=("admin",), by="test")
            for name in ("ann", "eve")
        ]
        ann, eve = ({"Authorization": f"Bearer {key.text}"} for key in keys)
        once = {**eve, "Idempotency-Key": "one"}
        async with served(engine, authenticator=Authenticator(archive, engine.clock, keys=True)) as server:
            body = {"definition": WAITING}
            if again:
                await server.ok("/runs", body, headers=once)
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(server.post("/runs", {**body, "wait_seconds": 30}, headers=once))
                await until_true(lambda: server.app.state.site.places.taken == 1, "it waits")
                run_id = (await until_some(server, "/runs", ann))["run_id"]
                await server.ok(f"/keys/{keys[1].key.key_id}", method="DELETE", headers=ann)
                async with asyncio.timeout(DEADLINE):
                    while (await server.get("/me", headers=eve)).status_code != 401:
                        pass
                await server.ok(f"/runs/{run_id}/signal", {"name": "go", "payload": "private"}, headers=ann)
            assert waiting.result().status_code == 401, waiting.result().text
            assert "private" not in waiting.result().text
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@pytest.mark.slow
@attack("S15", "a token that has expired goes on reading")
async def test_a_stream_ends_with_its_token(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "LEEWAY_SECONDS", 10 * DEADLINE)  # however far clocks may differ
    async with serving(tmp_path, real=True, tokens=True) as server:
        run_id = (await server.start(WAITING, wait=0, headers=bearer()))["run_id"]
        claims = {"sub": "eve", "tenant": "acme", "roles": ["viewer"], "exp": int(system.now()) + 2}
        short = {"Authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"}
        async with streaming(server, run_id, short) as response:
            assert response.status_code == 200
            await until_closed(response)
        assert (await server.get(f"/runs/{run_id}", headers=short)).status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("make", [with_tokens])
async def test_a_stream_ends_when_the_right_is_gone(tmp_path, make):
    """The same check as for any request: a credential that may no longer read ends its stream."""
    async with serving(tmp_path, real=True) as server:
        server.app.state.site._authenticator = make(server.engine)
        run_id = (await server.start(WAITING, wait=0, headers=bearer()))["run_id"]
        async with streaming(server, run_id, bearer()) as response:
            server.app.state.site._authenticator._tokens = None
            await until_closed(response)
