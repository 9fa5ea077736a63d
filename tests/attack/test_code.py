"""Code only by permission: who writes workflows on somebody else's machine calls what its owner allowed (S01), and who may only
operate changes nothing of what a node does (S02)."""

import json
import re
import sys
import urllib.error
import urllib.request

import pytest

from perdure import functions
from perdure.functions import FunctionNotAllowed, FunctionNotFound
from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.cli.helpers import Shell

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


@attack("S01", "a process with keys is not told what it may import")
@pytest.mark.slow
def test_a_serving_process_with_authentication_imports_nothing_by_itself(tmp_path):
    (tmp_path / "perdure.toml").write_text('auth = "keys"\n')
    shell = Shell(tmp_path)
    try:
        key = shell.start("keys", "create", "bob", "--role", "author").wait().split()[0]
        process = shell.start("dev", "--port", "0")
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
