"""Who may do what, generated from the OpenAPI document, so that a new route is covered the day it is added (X18, X19, X20)."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from perdure.access import PERMISSIONS, Authenticator, Failures, Permission, RateLimiter, Role
from perdure.access.keys import issue_key
from perdure.journal import AgentEntry
from perdure.service.tenancy import archive_of
from tests.api.helpers import bearer, serving
from tests.api.test_people import asking, parked, pending
from tests.engine.helpers import transform, until_true, workflow

GOLDEN = Path(__file__).parent / "permissions.txt"
CANARY = "zanzibar"
"""Stands in everything of one tenant: no byte of it may reach another."""


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, tokens=True) as made:
        yield made


def operations(server):
    document = server.app.state.document()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation, document


def sample(schema, document):
    """The least that fits a schema."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], document)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            names = schema.get("required", ())
            return {name: sample(schema["properties"][name], document) for name in names}
        case "array":
            return [sample(schema.get("items", {}), document)] * schema.get("minItems", 0)
        case "integer" | "number":
            return max(schema.get("minimum", 1), 1)
        case "boolean":
            return True
        case _:
            return "x"


@pytest.mark.slow
def test_every_reference_of_the_document_leads_somewhere(server):
    """What makes types from the document stops at one that does not."""
    document = server.app.state.document()
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named - document["components"]["schemas"].keys() == set()


ONE_OF = {"runs.patch": {"patch": []}, "workflows.put_alias": {"version": 1}, "runs.start": {"workflow": "x"}}
"""What a schema cannot say: which of several keys are given."""


def body_of(operation, document):
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = ONE_OF.get(operation["operationId"])
        return {"json": sample(content["application/json"]["schema"], document) if body is None else body}
    if content:
        return {"content": b"x", "headers": {"Content-Type": next(iter(content))}}
    return {}


def fill(path, values):
    return re.sub(r"\{(\w+)\}", lambda found: quote(values.get(found[1], "x"), safe=""), path)


async def call(server, method, path, operation, document, *, headers, values=None, query=None):
    values = values or {}
    needed = {
        one["name"]: values.get(one["name"], str(sample(one["schema"], document)))
        for one in operation["parameters"]
        if one["in"] == "query" and one["required"]
    }
    more = body_of(operation, document)
    more["headers"] = {**more.get("headers", {}), **headers}
    return await server.client.request(method, fill(path, values), params={**needed, **(query or {})}, **more)


async def test_the_table_of_routes_and_permissions_is_as_it_was_decided(server):
    lines = [
        f"{method:6} {path}  {operation.get('x-permission', 'public')}"
        for method, path, operation, _ in operations(server)
    ]
    assert "\n".join(sorted(lines)) + "\n" == GOLDEN.read_text()


@pytest.mark.slow
async def test_without_credentials_nothing_but_the_public_answers(server):
    seen = 0
    server.app.state.site.failures = Failures(server.engine.clock, rate=0)
    for method, path, operation, document in operations(server):
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}, {"Authorization": ""}):
            response = await call(server, method, path, operation, document, headers=headers)
            if "x-permission" in operation:
                assert response.status_code == 401, (method, path, response.text)
                seen += 1
            else:
                assert response.status_code != 401, (method, path)
    assert seen > 100


@pytest.mark.slow
async def test_every_role_does_what_the_table_says_and_nothing_else(server):
    seen = {"allowed": 0, "denied": 0}
    for method, path, operation, document in operations(server):
        if "x-permission" not in operation:
            continue
        permission = Permission(operation["x-permission"])
        for role in Role:
            headers = bearer(f"a {role}", role)
            response = await call(server, method, path, operation, document, headers=headers)
            if permission in PERMISSIONS[role]:
                assert response.status_code not in (401, 403), (method, path, role, response.text)
                assert response.status_code < 500, (method, path, role, response.text)
                seen["allowed"] += 1
            else:
                assert (response.status_code, response.json()["code"]) == (403, "forbidden"), (method, path, role)
                seen["denied"] += 1
    assert seen["allowed"] > 100
    assert seen["denied"] > 50


@pytest.mark.slow
async def test_a_role_that_is_none_may_nothing(server):
    for method, path, operation, document in operations(server):
        if "x-permission" in operation:
            response = await call(server, method, path, operation, document, headers=bearer("x", "root"))
            assert response.status_code == 403, (method, path)


# -- two tenants -------------------------------------------------------------------------------------------------------


async def furnish(server):
    """Something of every kind in the tenant acme, with the canary in it."""
    headers = bearer()
    orders = workflow(transform("a", CANARY), name=f"{CANARY}-orders", description=CANARY, expose={"tool": True})
    for value in (CANARY, CANARY + "2"):
        orders["nodes"][0]["config"]["value"] = value
        await server.ok("/workflows", orders, headers=headers, params={"reason": CANARY})
    alias = f"/workflows/{CANARY}-orders/aliases/{CANARY}"
    await server.ok(alias, {"version": 1}, headers=headers, method="PUT")
    blob = await server.post("/blobs", content=CANARY.encode(), headers=octets(headers))
    await server.ok(f"/assets/{CANARY}-orders", {"parts": [blob.json()["ref"]]}, headers=headers, method="PUT")
    await server.ok(f"/budgets/workflow:{CANARY}-orders", {"calls": 9}, headers=headers, method="PUT")
    view = {"query": f"workflow={CANARY}", "shared": True}
    await server.ok(f"/views/{CANARY}-orders", view, headers=headers, method="PUT")
    schedule = {"name": f"{CANARY}-orders", "workflow": f"{CANARY}-orders", "schedule": {"cron": "0 0 1 1 *"}}
    await server.ok("/triggers", {**schedule, "description": CANARY}, headers=headers)
    verify = {"scheme": "standard", "secret": CANARY}
    webhook = {"name": CANARY, "workflow": CANARY, "webhook": {"verify": verify}, "description": CANARY}
    hook = await server.ok("/triggers", webhook, headers=headers)
    (dead,) = await parked(server, name=CANARY)
    run = await server.start(
        asking(show={CANARY: CANARY}), {CANARY: CANARY}, wait=0, tags={CANARY: CANARY}, headers=headers
    )
    approval = await pending(server, run["run_id"])
    issued = await issue_key(
        server.engine.journal.archive, server.engine.clock, tenant="acme", name=CANARY, roles=("admin",), by="ann"
    )
    own = {"Origin": server.url, "X-Perdure-Request": "1", "User-Agent": CANARY}
    turn = {"asked": CANARY, "said": CANARY, "label": "user,public"}
    told = AgentEntry(
        tenant="acme", space="session", name=f"{CANARY}/ask/{CANARY}", place="1", at=1.0, body=json.dumps(turn).encode()
    )
    await server.engine.journal.archive.save_entry(told)
    credential = headers["Authorization"].removeprefix("Bearer ")
    assert (await server.post("/session", {"credential": credential}, headers=own)).status_code == 204
    server.client.cookies.clear()
    (session,) = (await server.ok("/sessions", headers=headers))["items"]
    large = CANARY * 10
    blob = (await server.client.post("/api/v1/blobs", content=large.encode(), headers=octets(headers))).json()
    return {
        "run_id": run["run_id"],
        "node": "ask",
        "name": f"{CANARY}-orders",
        "alias": CANARY,
        "workflow": CANARY,
        "key": CANARY,
        "approval_id": approval["approval_id"],
        "scope": f"workflow:{CANARY}-orders",
        "dead_letter_id": dead["dead_letter_id"],
        "number": "1",
        "hook": hook["hook"].rpartition("/")[2],
        "key_id": issued.key.key_id,
        "session_id": session["session_id"],
        "hash": blob["ref"],
        "at": "1",
        "before": "1",
        "other": run["run_id"],
    }


def octets(headers):
    return {**headers, "Content-Type": "application/octet-stream"}


CARRIES_ITS_OWN = {"token"}
"""A link is a credential: whoever has it is who it was made for."""
NOT_YET = {
    "/api/v1/runs/{run_id}/nodes/{node}/output": "has given nothing yet",
    "/api/v1/runs/{run_id}/nodes/{node}/chunks": "has no stream",
    "/api/v1/runs/{run_id}/what-if": "is no what-if",
}
"""What its owner is told of a node that waits."""
SHARED = {"/api/v1/node-types/{name}"}
"""Names of what is installed; nothing of a tenant."""
MAKES = {
    ("PUT", "/api/v1/budgets/{scope}"),
    ("PUT", "/api/v1/assets/{name}"),
    ("PUT", "/api/v1/triggers/{name}"),
    ("PUT", "/api/v1/views/{name}"),
}
"""What makes something of the caller's own under a name that another tenant may have too."""


@pytest.mark.slow
async def test_ids_of_another_tenant_in_a_path_are_not_found_and_no_byte_of_it_is_shown(server):
    ids = await furnish(server)
    theirs, ours = bearer("eve", tenant="other"), bearer()
    seen = 0
    for method, path, operation, document in operations(server):
        names = set(re.findall(r"\{(\w+)\}", path))
        if not names or names & CARRIES_ITS_OWN or path in SHARED or (method, path) in MAKES:
            continue
        assert names <= ids.keys(), f"{path}: say in `furnish` what {names - ids.keys()} of a tenant is"
        response = await call(server, method, path, operation, document, headers=theirs, values=ids)
        assert response.status_code == 404, (method, path, response.text)
        told = response.text
        for name in names:
            told = told.replace(ids[name], "")
        assert CANARY not in told, (method, path, response.text)
        if method == "GET" and not path.endswith("/stream"):
            # With the credential it belongs to, the same request is answered: it was not refused for another reason.
            response = await call(server, method, path, operation, document, headers=ours, values=ids)
            if path in NOT_YET:
                assert NOT_YET[path] in response.text, (method, path, response.text)
            else:
                assert response.status_code == 200, (method, path, response.text)
        seen += 1
    assert seen > 30
    run = await server.ok(f"/runs/{ids['run_id']}", headers=ours)
    assert run["state"] == "running"


@pytest.mark.slow
async def test_ids_of_another_tenant_in_queries_bodies_and_cursors_show_nothing(server):
    ids = await furnish(server)
    theirs, ours = bearer("eve", tenant="other"), bearer()
    own = await server.start(workflow(transform("a", 1), name="own"), headers=theirs)
    for method, path, operation, document in operations(server):
        if method != "GET" or "{" in path or "x-permission" not in operation:
            continue
        for parameter in (one["name"] for one in operation["parameters"] if one["in"] == "query"):
            value = {
                "run_id": ids["run_id"],
                "parent": ids["run_id"],
                "workflow": ids["name"],
                "id": ids["run_id"],
            }.get(parameter)
            if value is not None:
                query = {parameter: value}
                response = await call(server, method, path, operation, document, headers=theirs, query=query)
                found = response.json()
                nothing: dict[str, object]
                nothing = {"total": 0, "capped": False} if "total" in found else {"items": [], "next_cursor": None}
                nothing |= {"groups": []} if "groups" in found else {}
                if "by" in found:  # sums, in which nothing of another tenant is counted
                    assert (found["items"], found["total"]["calls"], found["total"]["usd"]) == ([], 0, 0.0)
                    continue
                assert (response.status_code, found) == (200, nothing), (path, parameter)
        page = await call(server, method, path, operation, document, headers=ours, query=_least(operation))
        if page.status_code == 200 and page.headers["content-type"] == "application/json":
            if cursor := page.json().get("next_cursor"):
                query = {"cursor": cursor, "limit": "1"}
                response = await call(server, method, path, operation, document, headers=theirs, query=query)
                assert CANARY not in response.text, path
                assert all("acme" not in str(item) for item in response.json()["items"])
    compared = await server.get(f"/runs/{own['run_id']}/diff?other={ids['run_id']}", headers=theirs)
    assert compared.status_code == 404
    assert CANARY not in compared.text
    for name in (ids["name"], f"{ids['name']}@1", f"{ids['name']}@{ids['alias']}"):
        response = await server.post("/runs", {"workflow": name}, headers=theirs)
        assert response.status_code == 404, name
    child = workflow({"id": "call", "type": "workflow", "config": {"workflow": ids["name"]}}, name="sly")
    run = await server.start(child, headers=theirs)
    assert (run["state"], CANARY in str(run["outputs"])) == ("failed", False)
    named = workflow({"id": "a", "type": "transform", "config_ref": ids["hash"]}, name="sly")
    response = await server.post("/workflows", named, headers=theirs)
    assert response.status_code == 422
    promoted = await server.post("/assets", {"run_id": ids["run_id"], "node": "ask"}, headers=theirs)
    assert (promoted.status_code, CANARY in promoted.text) == (404, False)
    response = await server.client.put("/api/v1/assets/sly", json={"parts": [ids["hash"]]}, headers=theirs)
    assert response.status_code == 422, response.text
    counted = await server.ok("/dead-letters/requeue", {"run_id": ids["run_id"]}, headers=theirs)
    assert counted["matched"] == 0


def _least(operation):
    return {"limit": "1"} if any(one["name"] == "limit" for one in operation["parameters"]) else {}


async def test_the_same_idempotency_key_of_two_tenants_is_two_keys(server):
    definition = workflow(transform("a", 1))
    runs = set()
    for tenant in ("acme", "other"):
        headers = {**bearer(tenant=tenant), "Idempotency-Key": "k1"}
        runs.add((await server.post("/runs", {"definition": definition}, headers=headers)).json()["run_id"])
    assert len(runs) == 2


async def test_a_tenant_named_in_a_request_changes_nothing(server):
    headers = {**bearer("eve", tenant="other"), "X-Tenant": "acme", "Tenant": "acme"}
    await furnish(server)
    assert (await server.ok("/runs", headers=headers))["items"] == []
    assert (await server.get("/runs?tenant=acme", headers=headers)).status_code == 400
    body = {"definition": workflow(transform("a", 1)), "tenant": "acme"}
    assert (await server.post("/runs", body, headers=headers)).status_code == 422


# -- keys and audit ----------------------------------------------------------------------------------------------------


async def test_a_key_gives_no_more_than_its_maker_has(server):
    scoped = await server.post("/keys", {"name": "ci", "roles": ["operator"]}, headers=bearer("root", "admin"))
    assert scoped.status_code == 201
    assert re.fullmatch(r"perdure_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", scoped.json()["key"])
    listed = await server.ok("/keys", headers=bearer("root", "admin"))
    assert [one["name"] for one in listed["items"]] == ["ci"]
    assert "key" not in listed["items"][0]
    revoked = await server.ok(f"/keys/{scoped.json()['key_id']}", headers=bearer("root", "admin"), method="DELETE")
    assert revoked["revoked_at"] is not None
    assert (await server.post("/keys", {"name": "x", "roles": ["boss"]}, headers=bearer())).status_code == 422


async def test_a_key_with_a_scope_cannot_make_one_without(tmp_path):
    async with serving(tmp_path) as server:
        archive, clock = archive_of(server.engine), server.engine.clock
        narrow = await issue_key(
            archive, clock, tenant="acme", name="narrow", roles=("admin",), scopes=("keys:admin",), by="root"
        )
        server.app.state.site._authenticator = Authenticator(archive, clock, keys=True)
        headers = {"Authorization": f"Bearer {narrow.text}"}
        wide = await server.post("/keys", {"name": "wide", "roles": ["admin"]}, headers=headers)
        assert (wide.status_code, wide.json()["code"]) == (403, "forbidden")
        same = {"name": "same", "roles": ["admin"], "scopes": ["keys:admin"]}
        assert (await server.post("/keys", same, headers=headers)).status_code == 201
        assert (await server.get("/runs", headers=headers)).status_code == 403
        # Whoever makes a link decides by it, so it takes the right to decide.
        made = await server.post("/approvals/r:ask:1/links", {"approver": "bob"}, headers=headers)
        assert (made.status_code, "approvals:decide" in made.json()["detail"]) == (403, True)
        await server.ok(f"/keys/{narrow.key.key_id}", headers=headers, method="DELETE")


async def test_what_is_done_stands_in_the_audit_and_the_audit_is_intact(server):
    headers = {**bearer("root", "admin"), "X-Request-Id": "r-77"}
    await server.ok("/workflows", workflow(transform("a", 1), name="w"), headers=headers)
    await server.ok("/workflows/w/aliases/live", {"version": 1}, headers=headers, method="PUT")
    await server.ok("/workflows/w", headers=headers)
    entries = (await server.ok("/audit", headers=headers))["items"]
    found = [(one["principal"], one["action"], one["object"], one["request_id"]) for one in entries]
    assert found == [
        ("root", "workflows.put_alias", "w/live", "r-77"),
        ("root", "workflows.register", "w@1", "r-77"),
    ]
    assert (await server.ok("/audit?action=workflows.register", headers=headers))["items"] == entries[1:]
    verdict = await server.ok("/audit/verify", headers=headers)
    assert (verdict["intact"], verdict["entries"], verdict["head"]) == (True, 2, entries[0]["hash"])
    me = await server.ok("/me", headers=headers)
    assert (me["name"], me["tenant"], me["roles"]) == ("root", "acme", ["admin"])


async def test_too_many_requests_are_told_when_to_come_back(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        server.app.state.site.limiter = RateLimiter(server.engine.clock, per_key=1, per_tenant=0)
        answers = [await server.get("/runs", headers=bearer()) for _ in range(5)]
        late = [one for one in answers if one.status_code == 429]
        assert answers[0].status_code == 200
        assert late
        assert late[0].json()["code"] == "rate_limited"
        assert int(late[0].headers["retry-after"]) >= 1
        assert (await server.get("/runs", headers=bearer("somebody else"))).status_code == 200


@pytest.mark.slow
async def test_a_key_that_is_revoked_is_good_for_nothing_within_a_second(tmp_path):
    async with serving(tmp_path) as server:
        archive, clock = archive_of(server.engine), server.engine.clock
        server.app.state.site._authenticator = Authenticator(archive, clock, keys=True)
        root = await issue_key(archive, clock, tenant="acme", name="root", roles=("admin",), by="setup")
        headers = {"Authorization": f"Bearer {root.text}"}
        made = await server.ok("/keys", {"name": "ci", "roles": ["viewer"]}, headers=headers)
        ci = {"Authorization": f"Bearer {made['key']}"}
        assert (await server.ok("/me", headers=ci))["name"] == "ci"
        assert (await server.post("/runs", {"workflow": "x"}, headers=ci)).status_code == 403
        await server.ok(f"/keys/{made['key_id']}", headers=headers, method="DELETE")

        async def refused():
            return (await server.get("/me", headers=ci)).status_code == 401

        await until_true(refused, "the key is refused")
        assert (await server.get("/me", headers=headers)).status_code == 200
