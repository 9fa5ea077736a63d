"""Code only by permission: who writes workflows on somebody else's machine calls what its owner allowed (S01), and who may only
operate changes nothing of what a node does (S02)."""

import asyncio
import json
import os
import re
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from perdure import functions
from perdure.access import Authenticator, issue_key
from perdure.engine import Engine
from perdure.functions import FunctionNotAllowed, FunctionNotFound
from perdure.kernel.segments import Secret
from perdure.nodes import config_checks
from perdure.service.tenancy import archive_of
from tests.api.helpers import bearer, mounted, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack
from tests.cli.helpers import Shell
from tests.engine.helpers import DEADLINE

EVIL = [
    "subprocess:getoutput",
    "os:system",
    "builtins:eval",
    "perdure.cli:main",
    "shop:os.system",
    "shop:getoutput",
    "shop:wrapped",
    "shop:Till.__init__.__globals__",
    "shop.sub:nothing",
    "shopping:list",
    "importlib:import_module",
]


@pytest.fixture
def restricted(tmp_path, monkeypatch):
    """A process whose owner allows the module `shop`."""
    (tmp_path / "shop.py").write_text(
        "import functools, os\nfrom subprocess import getoutput\n\n\ndef sell(n=1):\n    return n\n\n\n"
        "class Till:\n    def __init__(self):\n        pass\n\n    @staticmethod\n    def open():\n        return 'open'\n\n\n"
        "wrapped = functools.partial(getoutput, 'id')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(functions, "_allowed", None)
    monkeypatch.setattr(functions, "_named", set())
    monkeypatch.setattr(functions, "_resolved", {})
    functions.restrict(["shop"])
    yield
    sys.modules.pop("shop", None)


def calling(name, **args):
    return {"name": "w", "nodes": [{"id": "a", "type": "task", "config": {"function": name, "args": args}}]}


@attack("S01", "a definition names a function of any module: a shell on the worker")
@pytest.mark.parametrize("name", EVIL)
def test_a_function_is_found_only_where_its_module_is_allowed(restricted, name):
    with pytest.raises(FunctionNotFound):
        functions.resolve(name)


def test_what_is_allowed_registered_or_imported_by_name_is_found(restricted, monkeypatch, tmp_path):
    assert functions.resolve("shop:sell")(2) == 2
    assert functions.resolve("shop:Till.open")() == "open"
    with pytest.raises(FunctionNotAllowed, match="PERDURE_TASK_MODULES"):
        functions.resolve("json:dumps")
    functions.allow("json")
    assert functions.resolve("json:dumps")({}) == "{}"
    functions.restrict(["*"])
    assert functions.resolve("math:hypot")(3, 4) == 5


@attack("S01", "the same, over the API")
async def test_such_a_definition_is_refused_when_it_is_registered_and_when_it_is_started(restricted, tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        author = bearer("bob", "author", tenant="bobco")
        for name in EVIL[:4]:
            refused = await server.post("/workflows", calling(name), headers=author)
            assert refused.status_code == 422, refused.text
            assert "PERDURE_TASK_MODULES" in refused.text
            refused = await server.post("/runs", {"definition": calling(name)}, headers=author)
            assert refused.status_code == 422
        run = await server.start(calling("shop:sell", n=3), headers=author)
        assert run["outputs"] == {"a": 3}


def using(name):
    """An agent that has a function as its tool."""
    tools = [{"function": name, "name": "tool", "effect": "read"}, "ask_human"]
    config = {"model": "chat", "prompt": "x", "tools": tools}
    return {"name": "w", "nodes": [{"id": "a", "type": "agent", "config": config, "retry": {"max_attempts": 1}}]}


@attack("S01", "a function that is a tool of an agent")
async def test_an_agent_has_no_tool_that_is_not_allowed(restricted, tmp_path):
    """Refused where it is registered and where it is started, and data does not say which it is; the next test is about workers."""
    async with serving(tmp_path, tokens=True) as server:
        author = bearer("bob", "author")
        refused = await server.post("/workflows", using("os:getpid"), headers=author)
        assert (refused.status_code, "PERDURE_TASK_MODULES" in refused.text) == (422, True)
        functions.restrict(["*"])
        await server.ok("/workflows", using("os:getpid"), headers=author)
        functions.restrict(["shop"])
        refused = await server.post("/runs", {"workflow": "w"}, headers=author)
        assert (refused.status_code, refused.json()["code"]) == (422, "function_not_allowed")
        computed = await server.post("/runs", {"definition": using("{{ inputs.f }}")}, headers=author)
        assert (computed.status_code, "tools hold no templates" in computed.text) == (422, True)


def test_what_cannot_be_read_is_no_function_that_is_allowed(restricted):
    find = config_checks.find_refused_call
    assert find("agent", {"tools": [{"function": "shop:sell"}, "ask_human", {"workflow": "w"}]}) is None
    for tools in ([{"function": Secret("F")}], [Secret("T")], Secret("T"), [{"function": "os:getpid"}]):
        assert find("agent", {"tools": tools}) is not None
    for named in (["os:getpid"], [{"function": "os:getpid"}], [Secret("T")], Secret("T")):
        assert find("agent", {"available_tools": named}) is not None
    assert find("agent", {"available_tools": ["shop:sell", "search_tools"], "tools": None}) is None
    assert find("agent", Secret("C")) is not None
    assert find("http", {"tools": Secret("T")}) is None


@attack("S01", "a workflow that was registered when more was allowed")
async def test_an_older_definition_is_refused_when_it_is_started_and_by_the_worker(restricted, tmp_path, monkeypatch):
    async with serving(tmp_path, tokens=True) as server:
        author = bearer("bob", "author")
        functions.restrict(["*"])
        await server.ok("/workflows", calling("os:getpid"), headers=author)
        templated = calling("{{ inputs.f }}")
        functions.restrict(["shop"])
        refused = await server.post("/runs", {"workflow": "w"}, headers=author)
        assert (refused.status_code, refused.json()["code"]) == (422, "function_not_allowed")
        run = await server.start(templated, {"f": "os:getpid"}, headers=author)
        assert run["state"] == "failed"
        assert "PERDURE_TASK_MODULES" in run["error"]["message"]


@pytest.mark.slow
@attack("S01", "a name that is computed, for a worker that was not told what it may import")
async def test_a_name_that_is_computed_reaches_no_worker_unless_it_is_allowed(restricted, tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_F", "os:getpid")
    called, resolve = [], functions.resolve

    def resolve_anything(name):
        called.append(name)
        return resolve(name) if name.startswith("shop:") else os.getpid

    # The worker is in this process too; these two make it one that may import anything.
    monkeypatch.setattr(functions, "resolve", resolve_anything)
    monkeypatch.setattr(config_checks, "_breaks_check", lambda node_type, config: False)
    given = {"id": "a", "type": "task", "config": {"function": "shop:sell", "args": {"n": "{{ inputs }}"}}}
    async with serving(tmp_path, tokens=True) as server:
        for name, sensitive in (
            ("{{ inputs.f }}", []),
            ("{{ a.f }}", []),
            ("{{ a.f }}", ["f"]),
            ("{{ secrets.F }}", []),
            ("os:{{ secrets.F }}", []),
        ):
            for key in ("function", "action"):
                last = {"id": "b", "type": "task", "config": {key: name}, "dependencies": ["a"]}
                definition = {"name": "w", "nodes": [{**given, "sensitive": sensitive}, last]}
                run = await server.start(definition, {"f": "os:getpid"}, headers=bearer("bob", "author"))
                assert (run["state"], run["error"]["code"]) == ("failed", "function_not_allowed"), (name, run)
        assert set(called) == {"shop:sell"}
        run = await server.start(calling("{{ inputs.f }}"), {"f": "shop:sell"}, headers=bearer("bob", "author"))
        assert run["outputs"] == {"a": 1}


@attack("S01", "a process with keys is not told what it may import")
@pytest.mark.slow
def test_a_serving_process_with_authentication_imports_nothing_by_itself(tmp_path):
    (tmp_path / "perdure.toml").write_text('auth = "keys"\n')
    shell = Shell(tmp_path)
    try:
        key = shell.start("keys", "create", "bob", "--role", "author").wait().split()[0]
        process = shell.start("dev", "--no-sample", "--port", "0")
        process.wait_for("Ctrl-C ends all of this")
        found = re.search(r"Listening on (http://\S+)", process.text)
        assert found is not None
        request = urllib.request.Request(
            f"{found[1]}/api/v1/runs",
            json.dumps({"definition": calling("os:getpid")}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == 422
        assert "PERDURE_TASK_MODULES" in refused.value.read().decode()
        refused.value.close()
    finally:
        shell.close()


PARKED = {
    "name": "w",
    "nodes": [{"id": "a", "type": "transform", "config": {"jq": "error"}, "on_failure": "park", "retry": {"max_attempts": 1}}],
}  # fmt: skip


async def parked(server, headers):
    run = await server.start(PARKED, wait=0, headers=headers)
    found = await until_some(server, f"/dead-letters?run_id={run['run_id']}", headers)
    return found["dead_letter_id"]


@pytest.mark.slow
@attack("S02", "an operator requeues a dead letter with a config of their own")
async def test_a_requeue_with_a_config_needs_the_right_to_write_workflows_and_leaves_a_trace(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        author, operator, admin = bearer("ann", "author"), bearer("olga", "operator"), bearer("root", "admin")
        letter = await parked(server, author)
        evil = {"config": {"function": "subprocess:getoutput", "args": {"cmd": "id"}}}
        for body in (evil, {"input": evil["config"]}):
            refused = await server.post(f"/dead-letters/{letter}/requeue", body, headers=operator)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        good = {"config": {"value": 1}}
        assert (await server.post(f"/dead-letters/{letter}/requeue", good, headers=author)).status_code == 200
        entries = (await server.ok("/audit", headers=admin))["items"]
        noted = next(one for one in entries if one["action"] == "dead-letters.requeue")
        assert noted["detail"]["after"]["config"].startswith("sha256:")
        letter = await parked(server, author)
        assert (await server.post(f"/dead-letters/{letter}/requeue", {}, headers=operator)).status_code == 200


FAILS: dict[str, Any] = {
    "name": "w",
    "nodes": [
        {"id": "a", "type": "transform", "config": {"value": 1}},
        {
            "id": "b",
            "type": "transform",
            "dependencies": ["a"],
            "config": {"jq": "error"},
            "retry": {"max_attempts": 1},
        },
    ],
}
MENDED: dict[str, Any] = {"name": "w", "nodes": [FAILS["nodes"][0], {**FAILS["nodes"][1], "config": {"value": 666}}]}
WAITS: dict[str, Any] = {"name": "w", "nodes": [{"id": "a", "type": "wait", "config": {"signal": "go"}}]}
LATER: dict[str, Any] = {"id": "c", "type": "transform", "dependencies": ["a"], "config": {"value": 666}}


@pytest.mark.slow
@attack("S02", "a key that may patch and not write workflows gives a run a definition of its own")
@pytest.mark.parametrize(
    ("definition", "action", "body"),
    [
        (FAILS, "retry", {"definition": MENDED}),
        (FAILS, "rerun", {"definition": MENDED}),
        (FAILS, "rerun", {"from_node": "b", "definition": MENDED}),
        (FAILS, "rerun", {"from_node": "b", "inputs": {"a": 2}}),
        (WAITS, "patch", {"patch": [{"op": "add", "path": "/nodes/-", "value": LATER}]}),
        (WAITS, "patch", {"definition": {"name": "w", "nodes": [*WAITS["nodes"], LATER]}}),
    ],
    ids=["retry", "rerun", "rerun from a node", "rerun with inputs", "patch", "patch by a whole definition"],
)
async def test_whatever_changes_what_a_node_does_needs_the_right_to_write_workflows_and_leaves_a_trace(
    tmp_path, definition, action, body
):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        await engine.hold()
        archive = archive_of(engine)
        scopes: dict[str, tuple[str, ...]] = {
            "root": (),
            "eve": ("runs:read", "runs:start", "runs:operate", "runs:patch"),
            "ann": ("runs:operate", "runs:patch", "workflows:write", "approvals:decide"),
        }
        who = {}
        for name, allowed in scopes.items():
            key = await issue_key(
                archive, engine.clock, tenant="acme", name=name, roles=("admin",), scopes=allowed, by="test"
            )
            who[name] = {"Authorization": f"Bearer {key.text}"}
        async with mounted(engine, authenticator=Authenticator(archive, engine.clock, keys=True)) as server:
            run_id = (await server.start(definition, wait=0, headers=who["root"]))["run_id"]
            await until_state(server, run_id, "failed" if definition is FAILS else "running", who["root"])
            refused = await server.post(f"/runs/{run_id}/{action}", body, headers=who["eve"])
            assert refused.status_code == 403, refused.text
            assert "workflows:write" in refused.text
            done = await server.post(f"/runs/{run_id}/{action}", body, headers=who["ann"])
            assert done.is_success, done.text
            entries = (await server.ok("/audit", headers=who["root"]))["items"]
            noted = next(one for one in entries if one["action"] == f"runs.{action}")
            assert [one for one in noted["detail"]["after"].values() if one.startswith("sha256:")]
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)
