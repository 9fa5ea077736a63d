"""A secret used in every node type, on good and on failing paths, is afterwards nowhere to be found (S2, X23)."""

import asyncio
import base64
import http.server
import json
import logging
import threading
from urllib.parse import quote, quote_plus

import pytest
from click.testing import CliRunner

from perdure import egress
from perdure.cli.app import app
from perdure.egress.policy import Policy
from perdure.engine import Engine
from perdure.model import DefinitionError
from perdure.runtime.coordinator.projections import is_parked
from perdure.secrets.providers import open_secrets
from perdure.secrets.vault import Vault
from perdure.settings import Settings, read_secrets
from tests.engine.helpers import compiled, start, until
from tests.secrets.leaky import Echo

pytestmark = pytest.mark.slow

CANARY = "canary/+7f3a9=c&Zz"
TOKEN = "{{ secrets.canary }}"


@pytest.fixture(scope="module")
def server():
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served.server_address[1]
    served.shutdown()
    thread.join()
    served.server_close()


def call(function, **more):
    return {"type": "task", "config": {"function": f"tests.secrets.leaky:{function}", "args": {"token": TOKEN}}, **more}


def http_node(port, path, **config):
    config = {
        "url": f"http://127.0.0.1:{port}/{path}?key={TOKEN}",
        "method": "POST",
        "headers": {"Authorization": f"Bearer {TOKEN}"},
        "json": {"token": TOKEN},
        **config,
    }
    return {"type": "http", "config": config}


def definitions(port):
    """By name: a workflow with one use of the secret, and how it must end."""
    undo = {"type": "task", "config": {"function": "tests.secrets.leaky:fail", "args": {"token": TOKEN}}}
    yield "returned", [{"id": "a", **call("spread")}], "completed"
    yield "large", [{"id": "a", **call("spread_widely")}], "completed"
    yield "isolated", [{"id": "a", **call("spread", isolation="process")}], "completed"
    yield "raised", [{"id": "a", **call("fail", retry={"max_attempts": 2, "backoff_ms": 1})}], "failed"
    yield "raised_isolated", [{"id": "a", **call("fail", isolation="process")}], "failed"
    yield "aborted", [{"id": "a", **call("abort")}], "failed"
    yield "parked", [{"id": "a", **call("fail", on_failure="park")}], "running"
    yield "continued", [{"id": "a", **call("fail", on_failure="continue")}], "completed"
    yield (
        "undone",
        [
            {"id": "a", **call("measure"), "compensator": {**undo, "retry": {"max_attempts": 1}}},
            {"id": "b", **call("abort"), "dependencies": ["a"]},
        ],
        "compensating",
    )
    yield "http", [{"id": "a", **http_node(port, "fine")}], "completed"
    yield (
        "http_auth",
        [{"id": "a", **http_node(port, "x", auth={"type": "bearer", "token": TOKEN}, headers={})}],
        "completed",
    )
    yield "http_broken", [{"id": "a", **http_node(port, "broken")}], "failed"
    yield "http_refused", [{"id": "a", **http_node(port, "refused")}], "failed"
    yield "http_nowhere", [{"id": "a", "type": "http", "config": {"url": f"http://127.0.0.1:1/{TOKEN}"}}], "failed"
    yield "http_badly", [{"id": "a", "type": "http", "config": {"url": TOKEN}}], "refused"
    yield "transform", [{"id": "a", "type": "transform", "config": {"value": {"t": TOKEN}}}], "refused"
    yield "transform_text", [{"id": "a", "type": "transform", "config": {"value": f"x {TOKEN}"}}], "refused"
    yield "jq", [{"id": "a", "type": "transform", "config": {"jq": ".t", "input": {"t": TOKEN}}}], "completed"
    yield "output", [{"id": "a", "type": "output", "config": {"t": TOKEN}}], "refused"
    yield "human", [{"id": "a", "type": "human", "config": {"approvers": ["x"], "form": {"t": TOKEN}}}], "refused"
    yield "wait", [{"id": "a", "type": "wait", "config": {"until": TOKEN}}], "refused"
    yield (
        "workflow",
        [{"id": "a", "type": "workflow", "config": {"workflow": "child", "inputs": {"t": TOKEN}}}],
        "refused",
    )
    item = {"type": "task", "config": {"function": "tests.secrets.leaky:spread", "args": {"token": TOKEN}}}
    yield "map", [{"id": "a", "type": "map", "config": {"over": [1, 2, 3], "node": item}}], "completed"


def run_all(folder, port):
    """Everything in one process, logging all it can, as a user's would; then what the command line prints of it."""
    log = logging.FileHandler(folder / "everything.log", encoding="utf-8")
    log.setFormatter(logging.Formatter("%(name)s %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    try:
        found = asyncio.run(run_in(folder, port))
        for name in found:
            for command in (["runs", "show", name], ["runs", "events", name], ["runs", "export", name]):
                shown = CliRunner().invoke(app, [*command, "--db", str(folder / "perdure.db")], catch_exceptions=False)
                with (folder / "printed.txt").open("a", encoding="utf-8") as file:
                    file.write(f"{command}\n{shown.output}\n")
        return found
    finally:
        root.removeHandler(log)
        root.setLevel(before)
        log.close()


async def run_in(folder, port):
    environment = {"PERDURE_SECRET_CANARY": CANARY, "PERDURE_EGRESS_ALLOW": "127.0.0.1:*"}
    settings = Settings.load({"database_url": f"sqlite:///{folder / 'perdure.db'}"}, environment)
    vault = Vault(open_secrets(read_secrets(environment)))
    egress.configure(Policy.parse(settings.egress_allow))
    engine = await Engine.open(settings.database_url, vault=vault)
    try:
        await engine.hold()
        await engine.workflows.register(compiled({"name": "child", "nodes": [{"id": "a", "type": "input"}]}))
        found = {}
        for name, nodes, _ in definitions(port):
            try:
                await start(engine, {"name": name, "nodes": nodes, "on_failure": {"compensate": True}}, name)
            except DefinitionError as error:
                found[name] = {"state": "refused", "problems": str(error)}
        for name in [name for name, _, _ in definitions(port) if name not in found]:
            found[name] = await engine.contents.view(await until(engine, is_at_rest, name))
        return found
    finally:
        await engine.close(1.0)
        egress.configure(Policy())


def is_at_rest(state):
    """It has ended, or something in it is parked."""
    return state.terminal or any(is_parked(one) for one in state.activations.values())


@pytest.fixture(scope="module")
def ended(tmp_path_factory, server):
    folder = tmp_path_factory.mktemp("canary")
    return folder, run_all(folder, server), server


def test_every_use_of_the_secret_ends_as_it_should(ended):
    _, found, port = ended
    states = {name: run["state"] for name, run in found.items()}
    assert states == {name: state for name, _, state in definitions(port)}
    assert found["returned"]["nodes"]["a"]["output"]["length"] == len(CANARY)  # the function did get it
    assert found["http"]["nodes"]["a"]["output"]["status"] == 200


def test_the_secret_is_in_no_file_in_any_form(ended):
    folder, _, _ = ended
    plain = CANARY.encode()
    forms = {
        plain,
        json.dumps(CANARY)[1:-1].encode(),
        json.dumps(CANARY, ensure_ascii=False)[1:-1].encode(),
        quote(CANARY, safe="").encode(),
        quote(CANARY).encode(),
        quote_plus(CANARY).encode(),
        base64.b64encode(plain),
        base64.urlsafe_b64encode(plain),
        base64.b64encode(b"user:" + plain)[8:28],
    }
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    assert any("blobs" in str(path) for path in files)
    assert all((folder / name).stat().st_size > 1_000 for name in ("printed.txt", "everything.log")), files
    leaks = [(str(path.relative_to(folder)), form) for path in files for form in forms if form in path.read_bytes()]
    assert leaks == []


def test_what_was_masked_says_so(ended):
    _, found, _ = ended
    output = found["returned"]["nodes"]["a"]["output"]
    assert (output["plain"], output["inside"]) == ("***", "Bearer ***!")
    assert "***" in found["raised"]["error"]["message"]
