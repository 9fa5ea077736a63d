"""Names that look alike, guesses at credentials, and what is told to whom (S24, S30)."""

import asyncio
from ipaddress import ip_address

import pytest
from click.testing import CliRunner

from perdure.access import Authenticator, Failures, InvalidKey, RateLimited, issue_key
from perdure.access.rate_limits import FAILURES_AT_ONCE
from perdure.cli.app import app
from perdure.egress.errors import EgressRefused
from perdure.egress.policy import Policy
from perdure.egress.urls import parse
from perdure.engine import Engine
from perdure.plain_text import find_name_trouble
from perdure.service.tenancy import archive_of
from tests.api.helpers import bearer, mounted, serving
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.doubles.fake_clock import FakeClock

UNSEEN = [
    "ann\u200b",
    "an\u00adn",
    "\u202eann",
    "ann\u2066",
    "a\u0000nn",
    "ann\n",
    "a\tnn",
    "ann\ufe0f",
    "ann\u00a0b",
    "ann\u3164",
    "ann\U000e0061",
    "ann\u2028",
    " ann",
    "ann ",
    "ann\ud800",
    "\ufeffann",
    "ann\ue000",
    "Ame\u0301lie",
    "x" * 201,
]


@attack("S30", "a name that is read as somebody else's")
@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_to_be_seen_is_no_part_of_a_name(name):
    assert find_name_trouble(name) is not None


@pytest.mark.parametrize(
    "name", ["ann", "Am\u00e9lie Müller", "李明", "role:finance", "webhook:example.com", "o'neil@x.de"]
)
def test_what_people_are_called_is_a_name(name):
    assert find_name_trouble(name) is None


@attack("S30", "a key or token whose name is that of a role, a webhook, a run, the time or nobody")
@pytest.mark.parametrize(
    "name", ["role:approver", "Role:approver", "webhook:desk", "timeout", "local", "LOCAL", "run 01a", "role :x"]
)
async def test_nobody_who_logs_in_is_called_what_journals_call_others(tmp_path, name):
    async with serving(tmp_path, tokens=True) as server:
        assert (await server.get("/me", headers=bearer(name))).status_code == 401
        refused = await server.post("/keys", {"name": name, "roles": ["approver"]}, headers=bearer("root"))
        assert refused.status_code == 422
        assert "it is how a journal names" in refused.text


@pytest.mark.parametrize("name", ["locale", "timeouts", "runner", "run", "roles", "webhooks"])
async def test_names_that_only_begin_alike_are_names(tmp_path, name):
    async with serving(tmp_path, tokens=True) as server:
        assert (await server.get("/me", headers=bearer(name))).status_code == 200


@attack("S30", "a name that is read as somebody else's, wherever names come in")
@pytest.mark.parametrize("name", ["ann\u200b", "\u202eann", "Ame\u0301lie"])
async def test_such_a_name_is_refused_wherever_a_name_comes_in(tmp_path, name):
    human = {"id": "ask", "type": "human", "config": {"approvers": ["ann", "bob"]}}
    async with serving(tmp_path, tokens=True) as server:
        assert (await server.get("/me", headers=bearer(name))).status_code == 401
        body = {"name": name, "roles": ["viewer"]}
        assert (await server.post("/keys", body, headers=bearer("root"))).status_code == 422
        for key in ("approvers", "escalate_to"):
            flow = {"name": "w", "nodes": [{**human, "config": {"approvers": ["bob"], key: [name]}}]}
            assert (await server.post("/workflows", flow, headers=bearer("root"))).status_code == 422, key
        templated = {"name": "w", "nodes": [{**human, "config": {"approvers": ["{{ inputs.boss }}"]}}]}
        run = await server.start(templated, {"boss": name}, headers=bearer("root"))
        assert run["state"] == "failed", run
        await server.start({"name": "w", "nodes": [human]}, wait=0, headers=bearer("root"))
        approval = (await until_some(server, "/approvals", bearer("root")))["approval_id"]
        for path, body in (("delegate", {"to": name}), ("links", {"approver": name})):
            who = bearer("bob", "approver") if path == "delegate" else bearer("carl")
            response = await server.post(f"/approvals/{approval}/{path}", body, headers=who)
            assert response.status_code == 422, (path, response.text)


@attack("S30", "a name that is read as somebody else's, on a machine of one's own")
@pytest.mark.parametrize("name", ["ann\u200b", "\u202eann", "Ame\u0301lie"])
def test_such_a_name_is_refused_without_authentication_too(tmp_path, name):
    async def prepare():
        human = {"id": "ask", "type": "human", "config": {}}
        async with serving(tmp_path) as server:
            await server.start({"name": "w", "nodes": [human]}, wait=0)
            approval = (await until_some(server, "/approvals", {}))["approval_id"]
            body = {"decision": "approve", "approver": name}
            response = await server.post(f"/approvals/{approval}/decide", body)
            assert response.status_code == 422, response.text
            return approval

    approval = asyncio.run(prepare())
    env = {"PERDURE_DATABASE_URL": f"sqlite:///{tmp_path / 'perdure.db'}"}
    for command in (["approve", approval, "--by", name], ["delegate", approval, name, "--by", "bob"]):
        said = CliRunner().invoke(app, ["approvals", *command], env=env)
        assert said.exit_code != 0, said.output
        assert "which is not to be seen" in said.output or "NFC" in said.output
        assert name not in said.output


async def test_no_key_has_such_a_name(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        with pytest.raises(InvalidKey, match=r"U\+200B"):
            await issue_key(
                archive_of(engine), engine.clock, tenant="a", name="ann\u200b", roles=("viewer",), by="setup"
            )
    finally:
        await engine.close(0.5)


# -- guessing ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@attack("S30", "guesses at keys, tokens, links and signatures without end")
async def test_wrong_credentials_of_an_address_have_a_rate_and_a_valid_one_is_never_kept_out(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        await engine.hold()
        archive, clock = archive_of(engine), FakeClock()
        made = await issue_key(archive, engine.clock, tenant="acme", name="ann", roles=("viewer",), by="setup")
        async with mounted(engine, authenticator=Authenticator(archive, engine.clock, keys=True)) as server:
            server.app.state.site.failures = Failures(clock)
            wrong = {"Authorization": f"Bearer {made.text[:-4]}AAAA"}
            valid = {"Authorization": f"Bearer {made.text}"}
            for _ in range(int(FAILURES_AT_ONCE)):
                assert (await server.get("/me", headers=wrong)).status_code == 401
            for answer in (
                await server.get("/me", headers=wrong),
                await server.get("/me", headers={"Authorization": "Bearer nonsense"}),
                await server.client.get("/links/" + "a" * 43),
                await server.client.post("/links/" + "a" * 43),
                await server.post("/hooks/approvals/x", {"decision": "approve"}),
            ):
                assert answer.status_code == 429, answer.text
                assert "Retry-After" in answer.headers
            assert (await server.get("/me", headers=valid)).status_code == 200
            assert (await server.get("/me")).status_code == 401, "no credential is no guess"
            await clock.advance(1.0)
            assert (await server.get("/me", headers=wrong)).status_code == 401
    finally:
        await engine.close(0.5)


@pytest.mark.slow
def test_addresses_do_not_count_for_one_another_and_are_forgotten():
    failures = Failures(FakeClock(), rate=1, burst=1)
    for number in range(20_000):
        failures.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(failures._buckets) <= 10_000
    failures.count("2001:db8::1")
    with pytest.raises(RateLimited):
        failures.count("2001:db8::ffff:2")
    failures.count("2001:db8:0:1::1")


# -- what is told ------------------------------------------------------------------------------------------------------


@attack("S30", "what the own network is made of, by what refusals say")
def test_a_refused_address_is_not_told_by_its_kind(caplog):
    said = set()
    for address in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "fe80::1", "224.0.0.1", "fc00::1"):
        with pytest.raises(EgressRefused) as caught:
            Policy().check(parse("http://internal.example/"), ip_address(address))
        said.add(caught.value.message)
    assert len(said) == 1
    assert "link-local address" in caplog.text


@attack("S30", "figures of other tenants")
async def test_a_viewer_is_not_told_what_others_do(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        await server.start(
            {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}, headers=bearer("ann")
        )
        for role in ("viewer", "operator", "approver", "author"):
            who = bearer("vera", role, tenant="other")
            assert (await server.client.get("/metrics", headers=who)).status_code == 403
            for worker in (await server.ok("/workers", headers=who))["items"]:
                assert (worker["host"], worker["pid"], worker["running"]) == (None, None, None)
            for queue in (await server.ok("/queues", headers=who))["items"]:
                assert (queue["running"], queue["waiting"], queue["backlog"]) == (None, None, None)
        root = bearer("root")
        assert "perdure_events_total" in (await server.client.get("/metrics", headers=root)).text
        (worker,) = (await server.ok("/workers", headers=root))["items"]
        assert worker["pid"] > 0


@pytest.mark.slow
@attack("S30", "a key in the list of processes")
def test_a_key_on_the_command_line_is_warned_of():
    command = ["runs", "list", "--server", "http://127.0.0.1:1", "--api-key", "perdure_x"]
    said = CliRunner().invoke(app, command)
    assert "PERDURE_API_KEY" in said.stderr
    assert "perdure_x" not in said.output
    quiet = CliRunner().invoke(app, command[:-2], env={"PERDURE_API_KEY": "perdure_x"})
    assert "PERDURE_API_KEY" not in quiet.stderr


# -- giving what one does not have -------------------------------------------------------------------------------------


@attack("S24", "a key with keys:admin alone makes keys, links and decisions")
async def test_who_may_only_make_keys_makes_none_that_may_do_more(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        await engine.hold()
        archive = archive_of(engine)
        authenticator = Authenticator(archive, engine.clock, keys=True)

        async def key(name, roles, scopes=()):
            about = {"tenant": "acme", "name": name, "roles": roles, "scopes": scopes, "by": "setup"}
            made = await issue_key(archive, engine.clock, **about)
            return {"Authorization": f"Bearer {made.text}"}

        async with mounted(engine, authenticator=authenticator) as server:
            root, maker = await key("root", ("admin",)), await key("maker", ("admin",), ("keys:admin",))
            flow = {"name": "w", "nodes": [{"id": "ask", "type": "human", "config": {"approvers": ["maker", "bob"]}}]}
            await server.start(flow, wait=0, headers=await key("ann", ("author",)))
            approval = (await until_some(server, "/approvals", root))["approval_id"]
            for approver in ("maker", "bob"):
                links = {"approver": approver}
                assert (await server.post(f"/approvals/{approval}/links", links, headers=maker)).status_code == 403
            vote = {"decision": "approve"}
            assert (await server.post(f"/approvals/{approval}/decide", vote, headers=maker)).status_code == 403
            for roles, scopes in (
                (["admin"], []),
                (["approver"], []),
                (["viewer"], []),
                (["admin"], ["keys:admin", "approvals:decide"]),
                (["admin", "approver"], ["approvals:decide"]),
                (["viewer"], ["runs:read"]),
            ):
                body = {"name": "more", "roles": roles, "scopes": scopes}
                refused = await server.post("/keys", body, headers=maker)
                assert refused.status_code == 403, (roles, scopes, refused.text)
            body = {"name": "same", "roles": ["admin"], "scopes": ["keys:admin"]}
            same = await server.ok("/keys", body, headers=maker)
            again = {"Authorization": f"Bearer {same['key']}"}
            assert (await server.post("/keys", {"name": "x", "roles": ["admin"]}, headers=again)).status_code == 403
            assert (await server.get("/runs", headers=again)).status_code == 403
            assert (await server.ok(f"/approvals/{approval}", headers=root))["state"] == "pending"
    finally:
        await engine.close(0.5)
