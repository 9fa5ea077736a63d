"""What held when Perdure was attacked, class by class, sent again through the socket of a real `perdure serve`.

`make attack` sends every case, `make test` one in so many: the same cases, a few seconds of them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure.access.roles import PERMISSIONS
from perdure.journals.postgres import migrate_postgres
from tests.api.helpers import API, SECRET, bearer
from tests.attack import __main__ as attacks
from tests.attack import corpus
from tests.attack.marks import attack
from tests.attack.test_tokens_live import tokens
from tests.chaos.cluster import Process
from tests.egress.forms import FORMS, UNSENDABLE
from tests.expressions.payloads import payloads
from tests.sandbox.escapes import ESCAPES
from tests.servers.postgres import PostgresServer
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("what held")]
LONG = attacks.GENERATED in os.environ
CANARY = "kanarienvogel"
THEIRS, OURS = bearer("eve", tenant="other"), bearer("ann")
MUTATIONS = DEFINITIONS = 300
Answer = tuple[int, bytes]


class Target:
    """A coordinator with its API, a worker, and what a tenant has there."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS)
        self.ids: dict[str, str] = {}
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

    def document(self) -> Any:
        return self._client.get("/openapi.json").json()

    def close(self) -> None:
        self._client.close()

    def run(self, definition: dict[str, Any], **more: Any) -> Any:
        """The run at its end, or the refusal of its definition."""
        body = {"definition": definition, "wait_seconds": 60, "inputs": {"n": 1}}
        return self.request("POST", "/runs", json=body, **more)


@pytest.fixture(scope="module")
def target(redis_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder: Path = tmp_path_factory.mktemp("held")
    postgres = PostgresServer()  # of its own: that of other tests writes nothing down, and `serve` refuses it
    postgres.start()
    try:
        yield from _served(postgres, redis_server, folder)
    finally:
        postgres.remove()


def _served(postgres: PostgresServer, redis_server: Any, folder: Path) -> Iterator[Target]:
    database = asyncio.run(postgres.create_database())
    asyncio.run(migrate_postgres(postgres.url(database)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")} | {
        "PYTHONUNBUFFERED": "1",
        "PERDURE_DATABASE_URL": postgres.url(database),
        "PERDURE_REDIS_URL": redis_server.url,
        "PERDURE_REDIS_PREFIX": redis_server.new_prefix(),
        "PERDURE_SIGNING_KEYS": "held:" + base64.b64encode(b"h" * 32).decode(),
        "PERDURE_BLOB_URL": f"file:{folder / 'blobs'}",
        "PERDURE_AUTH": "keys,jwt",
        "PERDURE_JWT_SECRET": SECRET,
    }
    processes = [
        Process(words[0], words, environment, folder / f"{words[0]}.log")
        for words in (["serve", "--port", "0"], ["worker", "--concurrency", "20"])
    ]
    try:
        for process in processes:
            process.start()
        made = Target(wait_until(lambda: _port(processes[0]), "it serves", 30))
        with contextlib.closing(made):
            _furnish(made)
            yield made
            assert made.request("GET", f"/runs/{made.ids['run_id']}").json()["state"] == "running"
        assert all(process.is_running for process in processes), [process.said()[-2_000:] for process in processes]
        assert "Traceback" not in processes[0].said()
    finally:
        for process in processes:
            process.kill()


def _port(process: Process) -> int | None:
    assert process.is_running, process.said()
    found = re.search(r"http://[\d.]+:(\d+)", process.said())
    return None if found is None else int(found[1])


def _furnish(target: Target) -> None:
    """What tenant acme has, with the canary in all of it."""
    ask = {"id": "ask", "type": "human", "config": {"title": CANARY}}
    made = target.request("POST", "/workflows", json={"name": CANARY, "nodes": [ask]})
    assert made.status_code == 201, made.text
    run = target.request("POST", "/runs", json={"workflow": CANARY, "tags": {"t": CANARY}}).json()
    key = target.request("POST", "/keys", json={"name": CANARY, "roles": ["viewer"]}).json()
    alias = target.request("PUT", f"/workflows/{CANARY}/aliases/prod", json={"version": 1})
    assert alias.status_code == 200, alias.text
    approval = wait_until(
        lambda: target.request("GET", "/approvals", params={"run_id": run["run_id"]}).json()["items"], "it asks"
    )[0]
    target.ids = {
        "run_id": run["run_id"],
        "name": CANARY,
        "alias": "prod",
        "node": "ask",
        "approval_id": approval["approval_id"],
        "key_id": key["key_id"],
    }
    document = target.document()
    for path, item in document["paths"].items():
        given = item.get("get", {}).get("parameters", ())
        target.parameters[path] = [one["name"] for one in given if one["in"] == "query"]


def some(cases: Iterable[Any], most: int = 60) -> list[Any]:
    found = list(cases)
    return found if LONG else found[:: max(1, len(found) // most)]


def try_all(
    target: Target,
    cases: Iterable[Any],
    allowed: Callable[[int], bool],
    count: Callable[[str, object], None],
    *,
    whole: bool = True,
) -> None:
    through = []
    tried = some(cases)
    for what, data in tried:
        answers = target.send(data, whole=whole)
        for status, answer in answers:
            shown = answer.replace(CANARY.encode(), b"", data.count(CANARY.encode()))  # what was sent may come back
            if not allowed(status) or CANARY.encode() in shown:
                through.append((what, status, answer[-300:]))
        if not whole and len(answers) > 1:
            through.append((what, answers[1][0], b"the request inside it was answered"))
        if whole and not answers:
            through.append((what, 0, b"no answer"))
    count("attacks", len(tried))
    assert through == []


def refused(status: int) -> bool:
    return 400 <= status < 500


def unbroken(status: int) -> bool:
    return 200 <= status < 500


@attack("X20", "every route without a credential, by odd paths and headers")
def test_without_a_credential_nothing_answers(target, record_property):
    try_all(target, corpus.without_credentials(), lambda status: status in (400, 401, 404, 405), record_property)


@attack("X20", "malformed Authorization")
def test_no_malformed_authorization_is_taken(target, record_property):
    try_all(target, corpus.malformed_authorizations(), lambda status: status in (400, 401, 429), record_property)


@attack("X37", "tokens that are forged, late or strange, sent to perdure serve")
def test_no_forged_token_is_taken(target, record_property):
    cases = [
        (name, corpus.write("GET", f"{API}/runs", {"Authorization": f"Bearer {token}"}))
        for name, token in tokens().items()
    ]
    try_all(target, cases, lambda status: status in (400, 401, 429, 431), record_property)


@attack("X19", "every role on every route")
def test_every_role_may_what_the_table_says(target, record_property):
    shown = {role: bearer("eve", role, tenant="other") for role in PERMISSIONS}
    allowed = {role: {str(one) for one in permissions} for role, permissions in PERMISSIONS.items()}
    wrong = []
    tried = some(corpus.by_role(shown, allowed))
    for what, data, may in tried:
        ((status, whole), *_) = target.send(data)
        if (status == 403) == may or status == 401 or status >= 500:
            wrong.append((what, status, may, whole[-200:]))
    record_property("attacks", len(tried))
    assert wrong == []


@attack("X18", "ids of another tenant in every path")
def test_ids_of_another_tenant_are_not_found(target, record_property):
    cases = corpus.of_another_tenant(THEIRS, target.ids)
    try_all(target, cases, lambda status: status in (404, 400, 422), record_property)


@attack("X24", "SQL, paths and odd text in ids, filters and cursors")
def test_no_odd_text_breaks_or_shows_anything(target, record_property):
    try_all(target, corpus.odd_texts(THEIRS, target.parameters), unbroken, record_property)


@attack("X13", "bodies that are deep, torn, doubled or no JSON at all")
def test_no_body_breaks_anything(target, record_property):
    try_all(target, corpus.bodies(THEIRS, MUTATIONS), unbroken, record_property)


@attack("X11", "definitions made of odd parts, and torn YAML")
def test_no_definition_breaks_anything(target, record_property):
    try_all(target, corpus.definitions(THEIRS, DEFINITIONS), unbroken, record_property)


@attack("X26", "changes asked for by pages of other origins")
def test_no_other_origin_changes_anything(target, record_property):
    try_all(target, corpus.of_another_origin(THEIRS), lambda status: status == 403, record_property)


@attack("X12", "requests inside requests, and what is no HTTP")
def test_nothing_is_smuggled(target, record_property):
    try_all(target, corpus.smuggled(), refused, record_property, whole=False)


def _transform(value: Any) -> dict[str, Any]:
    return {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": value}}]}


def _came_to_nothing(answer: httpx2.Response) -> bool:
    return answer.status_code in (400, 422) or (answer.status_code == 201 and answer.json()["state"] == "failed")


@attack("X01", "templates that reach for Python, in definitions that are started")
def test_no_template_reaches_python(target, record_property):
    tried = some(payloads(), 20)
    escaped = [one for one in tried if not _came_to_nothing(target.run(_transform(one), headers=THEIRS))]
    record_property("attacks", len(tried))
    assert escaped == []


@attack("X09", "Python conditions that try to get out, in runs")
def test_no_condition_gets_out(target, tmp_path, record_property):
    tried = some(ESCAPES.items(), 8)
    escaped = []
    for name, code in tried:
        code = code.replace("CANARY", str(tmp_path / "canary")).replace("PORT", str(target.port))
        condition = {"type": "python_sandbox", "code": code}
        nodes = [
            {"id": "a", "type": "transform", "config": {"value": 1}},
            {"id": "out", "type": "transform", "config": {"value": 1}, "dependencies": ["a"], "when": condition},
        ]
        answer = target.run({"name": "w", "nodes": nodes}, headers=THEIRS)
        if answer.status_code == 201:
            run = target.request("GET", f"/runs/{answer.json()['run_id']}", headers=THEIRS).json()
            if run["state"] == "running" or run["nodes"]["out"]["state"] == "completed":
                escaped.append((name, run["nodes"]["out"]))
    record_property("attacks", len(tried))
    assert escaped == []
    assert list(tmp_path.iterdir()) == []


@attack("X07", "http nodes that call into the operator's network, in runs")
def test_no_run_calls_inside(target, record_property):
    tried = some([*FORMS, *UNSENDABLE], 12)
    inside = []
    for url, _ in tried:
        node = {"id": "a", "type": "http", "config": {"url": url}, "retry": {"max_attempts": 1}}
        answer = target.run({"name": "w", "nodes": [node]}, headers=THEIRS)
        if not _came_to_nothing(answer):
            inside.append((url, answer.text[:200]))
    record_property("attacks", len(tried))
    assert inside == []


@pytest.mark.parametrize(
    ("status", "text"),
    [(200, b""), (500, b""), (404, CANARY.encode()), (0, b"")],
    ids=["let in", "broken", "shown", "mute"],
)
def test_what_comes_through_is_told(status, text):
    class Weak:
        def send(self, data, *, whole):
            return [(status, text)] if status else []

    weak: Any = Weak()
    with pytest.raises(AssertionError):
        try_all(weak, [("x", b"GET / HTTP/1.1")], refused, lambda *_: None)


def test_make_attack_sends_as_many_as_held():
    """Some 4,900 attacks did not work on the commit that was reviewed. Parameters of routes come on top."""
    counted = [
        corpus.without_credentials(),
        corpus.malformed_authorizations(),
        tokens(),
        corpus.by_role({role: {} for role in PERMISSIONS}, {role: set() for role in PERMISSIONS}),
        corpus.odd_texts({}, {}),
        corpus.bodies({}, MUTATIONS),
        corpus.definitions({}, DEFINITIONS),
        corpus.of_another_origin({}),
        corpus.smuggled(),
        payloads(),
        ESCAPES,
        FORMS,
    ]
    assert sum(len(list(one)) for one in counted) >= 4_900
