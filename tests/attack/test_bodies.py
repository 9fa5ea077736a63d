"""Requests that cost more than they weigh: by what they bring, and by how many of them are held at once (S03, S07)."""

import asyncio
import contextlib
import gc
import itertools
import json
import string

import pytest

from perdure.api import Options
from perdure.api.request_reader import read_json
from perdure.api.site import MIB
from perdure.kernel.segments import decode
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack
from tests.attack.test_before_login import answer_to, connected
from tests.attack.watchdog import LONGEST_SECONDS, taking_at_most, watching
from tests.engine.helpers import DEADLINE

HEADERS = {"Content-Type": "application/json"}
NAMES = ["".join(one) for n in (1, 2, 3) for one in itertools.product(string.ascii_letters + string.digits, repeat=n)]
HOOK = "/api/v1/hooks/approvals/x"
BODIES = {
    "unknown keys": "{" + ",".join(f'"{name}":0' for name in NAMES[:110_000]) + "}",
    "empty lists": '{"decision":"approve","data":[' + ",".join(["[]"] * 340_000) + "]}",
    "doubled keys": "{" + ",".join(['"a":0'] * 170_000) + "}",
}


@pytest.mark.slow
@attack("S03", "a megabyte of small values, and an answer twenty times as large")
@pytest.mark.parametrize("name", BODIES)
async def test_a_body_of_many_values_holds_up_nobody_and_its_answer_is_short(tmp_path, name):
    async with serving(tmp_path) as server:
        with watching():
            answer = await server.client.post("/api/v1/approvals/x/decide", content=BODIES[name], headers=HEADERS)
        assert answer.status_code in (400, 404, 422), answer.text[:500]
        assert len(answer.content) < 50_000


INPUTS = {"lists": "[]", "objects": "{}", "numbers": "0"}


@pytest.mark.slow
@attack("S03", "a megabyte of empty values as the inputs of a run")
@pytest.mark.parametrize("name", INPUTS)
async def test_inputs_of_many_empty_values_hold_up_nobody(tmp_path, name):
    definition = '{"name":"w","nodes":[{"id":"a","type":"transform","config":{"value":1}}]}'
    many = ",".join([INPUTS[name]] * (1_000_000 // (len(INPUTS[name]) + 1)))
    content = f'{{"definition":{definition},"inputs":{{"x":[{many}]}}}}'.encode()
    async with serving(tmp_path) as server:
        with watching(LONGEST_SECONDS / 2):
            answer = await server.client.post("/api/v1/runs", content=content, headers=HEADERS)
        assert answer.status_code == 201, answer.text[:500]


@pytest.mark.slow
@attack("S03", "a megabyte of empty lists: while it is read, in whichever thread, no other has a turn")
def test_a_body_of_empty_lists_is_read_in_no_longer_than_the_loop_may_be_held():
    """The collector of garbage, which looks at them all again and again, waits until they are read."""
    content = b'{"x":[' + b",".join([b"[]"] * 340_000) + b"]}"
    collected: list[int] = []
    gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
    try:
        for read in (read_json, lambda data: decode(data, refs=False)):
            gc.collect()
            collected.clear()
            with taking_at_most():
                value = read(content)
            assert len(collected) < 10, "one when it is read, not one for every few hundred lists"
            assert len(value["x"]) == 340_000
    finally:
        gc.callbacks.pop()


async def test_the_first_hundred_problems_are_listed_and_the_others_counted(tmp_path):
    async with serving(tmp_path) as server:
        answer = await server.post("/approvals/x/decide", dict.fromkeys(NAMES[:1000], 0))
        problems = answer.json()["problems"]
        assert len(problems) == 101
        assert (problems[-1]["code"], problems[-1]["message"]) == ("too_many_problems", "and 901 more")
        assert "unknown key" in answer.json()["detail"]
        assert "and 1000 more" in answer.json()["detail"]


@attack("S07", "thousands of parameters, each named in the answer")
@pytest.mark.parametrize("path", ["/healthz", "/api/v1/runs", "/nothing"])
async def test_a_query_has_so_many_parameters(tmp_path, path):
    async with serving(tmp_path, tokens=True) as server:
        with watching(0.02):
            answer = await server.client.get(f"{path}?{'&'.join(NAMES[:16_000])}")
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_query"), answer.text[:500]
        assert len(answer.content) < 1000


@attack("S07", "bodies that are sent by nobody and never end")
async def test_bodies_without_a_credential_have_a_size_all_together(tmp_path):
    options = Options(public_bodies_bytes=200_000)
    async with serving(tmp_path, tokens=True, real=True, options=options) as server:
        bodies = server.app.state.site.bodies
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                _, writer = await stack.enter_async_context(connected(server))
                writer.write(_head(100_000) + b"x" * 60_000)
            async with asyncio.timeout(DEADLINE):
                while bodies.bytes[""] < 180_000:
                    await server.client.get("/healthz")
            async with connected(server) as (reader, writer):
                writer.write(_head(60_000) + b"x" * 60_000)
                assert (await answer_to(reader)).startswith(b"HTTP/1.1 503 ")
        async with asyncio.timeout(DEADLINE):
            while bodies.bytes:  # those that left are not counted any more
                await server.client.get("/healthz")
        answer = await server.client.post(HOOK, content=b"{}", headers=HEADERS)
        assert answer.status_code == 404


@attack("S07", "a large body for what asks for no credential")
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_without_a_credential_is_small(tmp_path, chunked):
    async def pieces():
        for _ in range(20):
            yield b"x" * 50_000

    async with serving(tmp_path, tokens=True) as server:
        content = pieces() if chunked else b"x" * (MIB - 1)
        answer = await server.client.post(HOOK, content=content, headers=HEADERS)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@attack("S07", "bodies of one tenant that never end")
async def test_bodies_of_a_tenant_have_a_size_all_together_and_others_have_theirs(tmp_path):
    async with serving(tmp_path, tokens=True, options=Options(tenant_bodies_bytes=1000)) as server:
        body = {"definition": {"name": "w", "nodes": []}, "inputs": {"a": "x" * 2000}}
        answer = await server.post("/runs", body, headers=bearer("ann", "admin"))
        assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
        answer = await server.post("/runs", {**body, "inputs": {}}, headers=bearer("bob", "admin", tenant="other"))
        assert answer.status_code == 422
        assert not server.app.state.site.bodies.bytes


def _head(length):
    return (
        f"POST {HOOK} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
        f"content-length: {length}\r\n\r\n"
    ).encode()


@pytest.mark.slow
def test_the_bodies_of_these_tests_are_taken_by_their_size():
    assert all(json.loads(body) is not None and len(body) < MIB for body in BODIES.values())
