"""A real `perdure serve` with its worker, PostgreSQL and Redis, and what two tenants have there: what `make attack` attacks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from perdure.journals.postgres import migrate_postgres
from tests.api.helpers import API, SECRET, bearer
from tests.chaos.cluster import Process
from tests.servers.postgres import PostgresServer
from tests.waiting import PATIENCE_SECONDS, wait_until

CANARY = "kanarienvogel"
THEIRS, OURS = bearer("eve", tenant="other"), bearer("ann")
HOOKS = {"acme": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "other": "another-tenant-has-this-secret"}
MODEL_KEY = "sk-0123456789-of-the-operator"
SIGNING_KEY = b"h" * 32
AGENTS = """
[providers.house]
kind = "openai_chat"
base_url = "http://127.0.0.1:1/v1"
secret = "MODEL_KEY"
[models.fast]
provider = "house"
model = "house-1"
[models.theirs]
provider = "house"
model = "house-2"
tenants = ["acme"]
"""
Answer = tuple[int, bytes]


class Target:
    """A coordinator with its API, a worker, and what a tenant has there."""

    def __init__(self, port: int, database_url: str, redis: Any, prefix: str) -> None:
        self.port = port
        self.database_url = database_url
        self.redis = redis
        self.prefix = prefix
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS)
        self.ids: dict[str, str] = {}
        self.hook = self.cookie = ""
        self.parameters: dict[str, list[str]] = {}

    def send(self, data: bytes, *, whole: bool = True) -> list[Answer]:
        """Every answer on one connection, which the server closes in the end. What is not a whole request ends here, since
        the server would wait for the rest of it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS) as link:
            try:
                link.sendall(data)
                if not whole:
                    link.shutdown(socket.SHUT_WR)
            except OSError:  # refused before all was sent
                pass
            got = bytearray()
            try:
                while piece := link.recv(1 << 16):
                    got += piece
            except OSError:
                pass
        found = re.split(rb"(?=HTTP/1\.1 \d{3} )", bytes(got))
        return [(int(one[9:12]), one) for one in found if one.startswith(b"HTTP/1.1 ")]

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        more.setdefault("headers", OURS)
        return self._client.request(method, API + path, **more)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def deliver(self, hook: str, secret: str) -> int:
        """The status of a delivery to a webhook."""
        return self._client.post(hook, json={}, headers={"Authorization": f"Bearer {secret}"}).status_code

    def document(self) -> Any:
        return self._client.get("/openapi.json").json()

    def close(self) -> None:
        self._client.close()

    def run(self, definition: dict[str, Any], **more: Any) -> Any:
        """The run at its end, or the refusal of its definition."""
        body = {"definition": definition, "wait_seconds": 60, "inputs": {"n": 1}}
        return self.request("POST", "/runs", json=body, **more)


def served(postgres: PostgresServer, redis_server: Any, folder: Path) -> Iterator[Target]:
    database = asyncio.run(postgres.create_database())
    asyncio.run(migrate_postgres(postgres.url(database)))
    prefix = redis_server.new_prefix()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")} | {
        "PYTHONUNBUFFERED": "1",
        "PERDURE_DATABASE_URL": postgres.url(database),
        "PERDURE_REDIS_URL": redis_server.url,
        "PERDURE_REDIS_PREFIX": prefix,
        "PERDURE_SIGNING_KEYS": "held:" + base64.b64encode(SIGNING_KEY).decode(),
        "PERDURE_BLOB_URL": f"file:{folder / 'blobs'}",
        "PERDURE_AUTH": "keys,jwt",
        "PERDURE_JWT_SECRET": SECRET,
        "PERDURE_SECRETS_FILE": str(folder / "secrets.toml"),
        "PERDURE_AGENTS_FILE": str(folder / "agents.toml"),
        "PERDURE_MCP": "true",
        "PERDURE_MCP_APPROVALS": "true",
    }
    (folder / "agents.toml").write_text(AGENTS)
    (folder / "secrets.toml").write_text(
        f'[[scope]]\nsecrets = {{ MODEL_KEY = "{MODEL_KEY}" }}\n'
        + "".join(f'[[scope]]\ntenant = "{tenant}"\nsecrets = {{ hook = "{key}" }}\n' for tenant, key in HOOKS.items())
    )
    (folder / "secrets.toml").chmod(0o600)
    processes = [
        Process(words[0], words, environment, folder / f"{words[0]}.log")
        for words in (["serve", "--port", "0"], ["worker", "--concurrency", "20"])
    ]
    try:
        for process in processes:
            process.start()
        port = wait_until(lambda: port_of(processes[0]), "it serves", 30)
        made = Target(port, postgres.url(database), redis_server, prefix)
        with contextlib.closing(made):
            furnish(made)
            yield made
            assert made.request("GET", f"/runs/{made.ids['run_id']}").json()["state"] == "running"
        assert all(process.is_running for process in processes), [process.said()[-2_000:] for process in processes]
        assert "Traceback" not in processes[0].said()
    finally:
        for process in processes:
            process.kill()


def port_of(process: Process) -> int | None:
    assert process.is_running, process.said()
    found = re.search(r"http://[\d.]+:(\d+)", process.said())
    return None if found is None else int(found[1])


_BYTES = {"Content-Type": "application/octet-stream"}


def _register_hook(target: Target) -> str:
    """The path of a webhook of tenant acme; what comes in by it can start no run, and is parked."""
    webhook = {"verify": {"scheme": "bearer", "secret": "hook"}}
    trigger = {"name": CANARY, "workflow": CANARY, "webhook": webhook, "inputs": {"x": "{{ item.body.none.at.all }}"}}
    made = target.request("POST", "/triggers", json=trigger)
    assert made.status_code == 201, made.text
    hook = str(made.json()["hook"])
    assert target.deliver(hook, HOOKS["acme"]) == 202
    wait_until(lambda: target.request("GET", f"/triggers/{CANARY}/items").json()["items"], "an item is parked")
    return hook


def _log_in(target: Target) -> tuple[str, str]:
    """The cookie and the id of a session of a viewer of tenant acme."""
    key = target.request("POST", "/keys", json={"name": "browser", "roles": ["viewer"]}).json()["key"]
    own = {"Origin": target.origin, "X-Perdure-Request": "1"}
    opened = target.request("POST", "/session", json={"credential": key}, headers=own)
    assert opened.status_code == 204, opened.text
    cookie = opened.headers["set-cookie"].partition(";")[0]
    (session,) = target.request("GET", "/sessions", headers={"Cookie": cookie}).json()["items"]
    return cookie, session["session_id"]


def furnish(target: Target) -> None:
    """What tenant acme has, with the canary in all of it."""
    ask = {"id": "ask", "type": "human", "config": {"title": CANARY}}
    made = target.request(
        "POST", "/workflows", json={"name": CANARY, "nodes": [ask], "expose": {"mcp": True, "tool": True}}
    )
    assert made.status_code == 201, made.text
    run = target.request("POST", "/runs", json={"workflow": CANARY, "tags": {"t": CANARY}}).json()
    key = target.request("POST", "/keys", json={"name": CANARY, "roles": ["viewer"]}).json()
    alias = target.request("PUT", f"/workflows/{CANARY}/aliases/prod", json={"version": 1})
    assert alias.status_code == 200, alias.text
    approval = wait_until(
        lambda: target.request("GET", "/approvals", params={"run_id": run["run_id"]}).json()["items"], "it asks"
    )[0]
    target.hook = _register_hook(target)
    target.cookie, session = _log_in(target)
    blob = target.request("POST", "/blobs", content=CANARY.encode(), headers={**OURS, **_BYTES}).json()["ref"]
    kept = target.request("PUT", f"/assets/{CANARY}", json={"parts": [blob], "file_name": CANARY})
    view = target.request("PUT", f"/views/{CANARY}", json={"query": f"workflow={CANARY}", "shared": True})
    assert (kept.status_code, view.status_code) == (200, 200), kept.text + view.text
    parked = {"id": "p", "type": "http", "config": {"url": "http://127.0.0.1:1/"}, "retry": 1, "on_failure": "park"}
    target.request("POST", "/runs", json={"definition": {"name": CANARY, "nodes": [parked]}})
    letter = wait_until(lambda: target.request("GET", "/dead-letters").json()["items"], "something is parked")[0]
    target.ids = {
        "run_id": run["run_id"],
        "name": CANARY,
        "alias": "prod",
        "node": "ask",
        "approval_id": approval["approval_id"],
        "key_id": key["key_id"],
        "dead_letter_id": letter["dead_letter_id"],
        "hash": blob,
        "session_id": session,
        "number": "1",
    }
    document = target.document()
    for path, item in document["paths"].items():
        given = item.get("get", {}).get("parameters", ())
        target.parameters[path] = [one["name"] for one in given if one["in"] == "query"]
