"""POST /hooks/{hook}: deliveries to webhooks are genuine or answered with one 404, start one run per id, and wait where they must."""

import asyncio
import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

import pytest

from perdure.api import Options
from perdure.clock import system
from perdure.secrets.providers import Secrets, SecretsFile
from perdure.secrets.signatures import read_keys, sign
from perdure.secrets.vault import Vault
from perdure.service.triggers import webhook_deliveries as webhooks
from perdure.triggers import deliveries
from tests.api.helpers import bearer, mounted, with_tokens
from tests.attack.marks import attack
from tests.engine.helpers import opened, transform, until_true, workflow

SECRET = "a-secret-of-orders-long-enough"
THEIRS = "another-tenant-has-this-secret"
REPORT = workflow(transform("a", {"day": "{{ inputs.day }}"}), name="report")
WAITS = workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}, name="report")
ORDERS: dict[str, Any] = {
    "name": "orders",
    "workflow": "report",
    "webhook": {"verify": {"scheme": "standard", "secret": "ORDERS"}},
    "inputs": {"day": "{{ item.body.day }}"},
}
GITHUB = {**ORDERS, "webhook": {"verify": {"scheme": "github", "secret": "ORDERS"}}}
REFUSAL = "there is no webhook here that takes this delivery: its address or its signature is wrong, or too old"


def vault(tmp_path):
    file = tmp_path / "secrets.toml"
    file.write_text(
        f'[[scope]]\ntenant = "acme"\nqueue = "webhooks"\nsecrets = {{ ORDERS = "{SECRET}", WEAK = "short" }}\n'
        f'[[scope]]\ntenant = "acme"\nqueue = "default"\nsecrets = {{ ELSEWHERE = "{SECRET}" }}\n'
        f'[[scope]]\ntenant = "other"\nsecrets = {{ ORDERS = "{THEIRS}" }}\n'
    )
    file.chmod(0o600)
    return Vault(Secrets([("file", SecretsFile(file))]))


@pytest.fixture
async def server(tmp_path):
    engine = await opened(tmp_path, vault=vault(tmp_path))
    try:
        await engine.hold()
        options = Options(hook_rate=0, hook_max_bytes=400_000)
        async with mounted(engine, authenticator=with_tokens(engine), options=options) as made:
            await made.ok("/workflows", REPORT, headers=bearer())
            yield made
    finally:
        await engine.close(0.5)


async def register(server, definition=ORDERS, tenant="acme"):
    return (await server.ok("/triggers", definition, headers=bearer(tenant=tenant)))["hook"]


async def send(server, hook, body, id="m1", *, secret=SECRET, late=0.0, headers=None, query=""):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signed = sign(read_keys(secret), id, int(system.now() - late), raw)
    every = {"Content-Type": "application/json", **signed, **(headers or {})}
    return await server.client.post(hook + query, content=raw, headers=every)


async def figures(server):
    text = (await server.client.get("/metrics", headers=bearer())).text
    lines = [line for line in text.splitlines() if line.startswith("perdure_hooks_total{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines if not line.endswith(" 0.0")}


async def finished(server, count, trigger="orders"):
    async def look():
        found = (await server.ok(f"/runs?tag=trigger={trigger}", headers=bearer()))["items"]
        done = len(found) == count and all(one["state"] == "completed" for one in found)
        return found if done else None

    return await until_true(look, f"{count} runs have ended")


async def test_a_delivery_starts_a_run_and_the_same_id_is_answered_alike(server):
    hook = await register(server)
    first = await send(server, hook, {"day": "monday"})
    assert first.status_code == 202
    assert first.json() == {"number": 1, "run_id": first.json()["run_id"], "duplicate": False}
    again = await send(server, hook, {"day": "another body"})
    assert (again.status_code, again.json()) == (202, {**first.json(), "duplicate": True})
    other = await send(server, hook, {"day": "tuesday"}, "m2")
    assert other.json()["number"] == 2
    runs = await finished(server, 2)
    assert {one["run_id"] for one in runs} == {first.json()["run_id"], other.json()["run_id"]}
    shown = await server.ok(f"/runs/{first.json()['run_id']}", headers=bearer())
    assert shown["inputs"] == {"day": "monday"}
    assert await figures(server) == {"taken": 2.0, "duplicate": 1.0}


async def test_a_delivery_has_the_time_it_came_at_and_its_id(server):
    inputs = {"day": "{{ trigger.at }}", "id": "{{ trigger.id }}", "by": "{{ trigger.name }}"}
    hook = await register(server, {**ORDERS, "inputs": inputs})
    before = int(system.now())
    await send(server, hook, {})
    (run,) = await finished(server, 1)
    found = (await server.ok(f"/runs/{run['run_id']}", headers=bearer()))["inputs"]
    assert (found["id"], found["by"]) == ("m1", "orders")
    assert before <= datetime.fromisoformat(found["day"]).timestamp() <= system.now()


async def test_what_templates_read_of_a_delivery_has_no_proof_in_it(server):
    every = {"what": "{{ item }}"}
    await server.ok("/workflows", workflow(transform("a", "{{ inputs.what }}"), name="report"), headers=bearer())
    hook = await register(server, {**ORDERS, "inputs": every})
    headers = {
        "X-Event": "made",
        "Authorization": "Bearer x",
        "Cookie": "a=b",
        "X-Api-Key": "k",
        "X-Forwarded-For": "1",
    }
    answer = await send(server, hook, {"a": 1}, headers={**headers, "Accept": "*/*"}, query="?shop=7&shop=8")
    await finished(server, 1)
    what = (await server.ok(f"/runs/{answer.json()['run_id']}", headers=bearer()))["inputs"]["what"]
    assert (what["body"], what["query"]) == ({"a": 1}, {"shop": "8"})
    assert what["headers"].keys() - {"user-agent"} == {"content-type", "x-event", "webhook-id", "webhook-timestamp"}


@attack("X30", "forge, replay or date back a delivery to a webhook")
@pytest.mark.parametrize(
    ("cause", "more"),
    [
        ("signature", {"secret": "x" * 24}),
        ("signature", {"secret": THEIRS}),
        ("old", {"late": 301}),
        ("missing", {"headers": {"webhook-signature": ""}}),
        ("unknown", {"hook": "/api/v1/hooks/" + "A" * 22}),
        ("unknown", {"hook": "/api/v1/hooks/" + "A" * 900}),
    ],
)
async def test_every_refusal_is_the_same_and_starts_nothing(server, cause, more):
    hook = await register(server)
    answer = await send(server, more.pop("hook", hook), {"day": "x"}, **more)
    assert (answer.status_code, answer.json()["detail"]) == (404, REFUSAL)
    assert answer.json()["code"] == "not_found"
    assert await figures(server) == {cause: 1.0}
    assert (await server.ok("/triggers/orders", headers=bearer()))["last_at"] is None


@pytest.mark.parametrize("name", ["NOWHERE", "WEAK", "ELSEWHERE"])
async def test_without_a_good_secret_of_the_queue_of_webhooks_nothing_is_taken(server, name):
    hook = await register(server, {**ORDERS, "webhook": {"verify": {"scheme": "bearer", "secret": name}}})
    for given in (SECRET, "short", ""):
        answer = await server.client.post(hook, content=b"{}", headers={"Authorization": f"Bearer {given}"})
        assert (answer.status_code, answer.json()["detail"]) == (404, REFUSAL)
    assert await figures(server) == {"secret": 3.0}


async def test_who_registers_a_webhook_is_told_that_its_secret_is_too_short(server):
    found = {}
    for name in ("WEAK", "ORDERS", "NOWHERE"):
        hook = {"verify": {"scheme": "bearer", "secret": name}}
        made = await server.ok("/triggers", {**ORDERS, "webhook": hook}, headers=bearer())
        found[name] = [(one["path"], one["message"]) for one in made["problems"]]
    said = "deliveries are refused while secret WEAK is as it is: a secret of webhooks has at least 16 bytes; make one at random"
    assert found == {"WEAK": [("webhook.verify.secret", said)], "ORDERS": [], "NOWHERE": []}


@attack("X22", "learn from the time of a refusal which webhooks there are")
async def test_refusals_cost_the_same_work(server, monkeypatch):
    """Timing by structure: each refusal looks the hook up once and verifies the whole body once."""
    hook = await register(server, GITHUB)
    looked, verified = [], []
    real_find, real_verify = server.engine.journal.find_hook, deliveries.verify

    async def find(name):
        looked.append(name)
        return await real_find(name)

    def verify(how, headers, body, secrets, now):
        verified.append((len(body), len(secrets)))
        return real_verify(how, headers, body, secrets, now)

    monkeypatch.setattr(server.engine.journal, "find_hook", find)
    monkeypatch.setattr(webhooks, "verify", verify)
    raw = b'{"day": 1}'
    for target, headers in (
        (hook, {}),
        (hook, {"X-Hub-Signature-256": "sha256=" + "0" * 64}),
        ("/api/v1/hooks/" + "B" * 22, {}),
    ):
        answer = await server.client.post(target, content=raw, headers=headers)
        assert answer.status_code == 404
    assert len(looked) == 3
    assert verified == [(len(raw), 1)] * 3


@attack("X18", "start runs of another tenant through its webhook")
async def test_a_hook_of_another_tenant_takes_only_its_own_secret(server):
    await server.ok("/workflows", REPORT, headers=bearer(tenant="other"))
    mine, theirs = await register(server), await register(server, tenant="other")
    assert (await send(server, theirs, {"day": "1", "tenant": "acme"}, secret=SECRET)).status_code == 404
    taken = await send(server, theirs, {"day": "1", "tenant": "acme"}, secret=THEIRS)
    assert taken.status_code == 202
    assert (await server.get(f"/runs/{taken.json()['run_id']}", headers=bearer())).status_code == 404
    assert (await send(server, mine, {"day": "1"})).json()["run_id"] != taken.json()["run_id"]


@attack("X12", "send a webhook more than it may take, before it is known who sends")
async def test_size_comes_before_the_signature_and_compression_is_refused(server):
    hook = await register(server)
    large = await send(server, hook, b'"' + b"x" * 400_000 + b'"', secret="x" * 24)
    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")

    async def pieces():
        for _ in range(5):
            yield b"x" * 100_000

    endless = await server.client.post(hook, content=pieces(), headers={"Content-Type": "application/json"})
    assert endless.status_code == 413
    packed = await send(server, hook, b"x", headers={"Content-Encoding": "gzip"})
    assert packed.status_code == 415
    assert await figures(server) == {}
    fits = await send(server, hook, {"day": "x" * 390_000})
    assert fits.status_code == 202
    await finished(server, 1)
    assert len((await server.ok(f"/runs/{fits.json()['run_id']}", headers=bearer()))["inputs"]["day"]) == 390_000


async def test_what_is_no_json_is_told_to_a_genuine_sender_alone(server):
    hook = await register(server)
    assert (await send(server, hook, b"{", secret="x" * 24)).status_code == 404
    answer = await send(server, hook, b"{")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")


async def test_a_hook_takes_no_more_a_second_than_it_may(server):
    hook = await register(server)
    server.app.state.site.hook_rates = type(server.app.state.site.hook_rates)(server.engine.clock, 0.001, 1)
    assert (await send(server, hook, {"day": "1"})).status_code == 202
    answer = await send(server, hook, {"day": "2"}, "m2", secret="x" * 24)
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) > 0


@attack("X30", "use up the rate of a webhook with deliveries that prove nothing")
async def test_what_proves_nothing_uses_up_no_rate_and_counts_against_its_sender(server):
    site = server.app.state.site
    hook = await register(server)
    site.hook_rates = type(site.hook_rates)(server.engine.clock, 0.001, 1)
    site.failures = type(site.failures)(server.engine.clock, 0.001, 3)
    forged = [(await send(server, hook, {"day": "1"}, f"f{n}", secret="x" * 24)).status_code for n in range(5)]
    assert forged == [404, 404, 404, 429, 429]
    assert (await send(server, hook, {"day": "1"})).status_code == 202
    assert (await send(server, hook, {"day": "2"}, "m2")).status_code == 429


async def test_deliveries_at_the_same_time_are_no_more_than_the_rate(server):
    site = server.app.state.site
    hook = await register(server)
    site.hook_rates = type(site.hook_rates)(server.engine.clock, 0.001, 2)
    answers = await asyncio.gather(*(send(server, hook, {"day": "1"}, f"m{n}") for n in range(6)))
    assert sorted(one.status_code for one in answers) == [202, 202, 429, 429, 429, 429]


async def test_a_filter_that_is_false_is_answered_with_200_and_nothing_is_recorded(server):
    hook = await register(server, {**ORDERS, "filter": "item.body.type == 'made'"})
    answer = await send(server, hook, {"type": "gone", "day": "1"})
    assert (answer.status_code, answer.json()) == (200, {"filtered": True})
    assert (await send(server, hook, {"type": "made", "day": "1"}, "m2")).json()["number"] == 1


async def test_a_paused_trigger_takes_in_until_it_is_full(server):
    hook = await register(server, {**ORDERS, "limits": {"buffer": 2}})
    await server.ok("/triggers/orders/pause", {}, headers=bearer())
    for number in (1, 2):
        answer = await send(server, hook, {"day": "1"}, f"m{number}")
        assert (answer.status_code, answer.json()["number"]) == (202, number)
    full = await send(server, hook, {"day": "1"}, "m3")
    assert (full.status_code, full.json()["code"]) == (503, "trigger_full")
    assert full.headers["retry-after"] == "1"
    assert (await send(server, hook, {"day": "1"}, "m1")).json()["duplicate"]
    await server.ok("/triggers/orders/resume", {}, headers=bearer())
    await finished(server, 2)
    assert (await send(server, hook, {"day": "1"}, "m3")).status_code == 202


async def test_what_cannot_be_mapped_is_parked_as_it_came(server):
    hook = await register(server)
    answer = await send(server, hook, {"date": "monday"})
    assert (answer.status_code, answer.json()["number"]) == (202, 1)
    (item,) = (await server.ok("/triggers/orders/items?state=parked", headers=bearer()))["items"]
    assert (item["id"], item["error"]["code"]) == ("m1", "unmapped")
    mended = {**ORDERS, "inputs": {"day": "{{ item.body.date }}"}}
    await register(server, mended)
    await server.ok("/triggers/orders/items/1/requeue", {}, headers=bearer())
    (run,) = await finished(server, 1)
    assert (await server.ok(f"/runs/{run['run_id']}", headers=bearer()))["inputs"] == {"day": "monday"}


async def test_a_revision_that_comes_between_mapping_and_taking_maps_anew(server, monkeypatch):
    hook = await register(server)
    real = webhooks._map

    async def slow(engine, caller, item, size, facts):
        made = await real(engine, caller, item, size, facts)
        if caller.row.revision == 1:
            await register(server, {**ORDERS, "inputs": {"day": "second"}})
        return made

    monkeypatch.setattr(webhooks, "_map", slow)
    answer = await send(server, hook, {"day": "first"})
    assert answer.status_code == 202, answer.text
    await finished(server, 1)
    assert (await server.ok(f"/runs/{answer.json()['run_id']}", headers=bearer()))["inputs"] == {"day": "second"}


async def test_an_answer_waits_for_the_run_that_was_started_at_once(server):
    webhook = {
        **ORDERS["webhook"],
        "answer": {"wait": "60s", "body": {"made": "{{ run.outputs.a.day }}", "of": "{{ item.body.day }}"}},
    }
    hook = await register(server, {**ORDERS, "webhook": webhook})
    answer = await send(server, hook, {"day": "monday"})
    assert (answer.status_code, answer.json()) == (200, {"made": "monday", "of": "monday"})
    assert (await send(server, hook, {"day": "monday"})).status_code == 202


async def test_an_answer_says_that_the_run_failed_where_it_asks(server):
    fails = workflow(transform("f", {"day": "{{ inputs.night }}"}), name="report")
    await server.ok("/workflows", fails, headers=bearer())
    said = {"state": "{{ run.state }}", "why": "{{ run.error.message }}"}
    hook = await register(server, {**ORDERS, "webhook": {**ORDERS["webhook"], "answer": {"wait": "60s", "body": said}}})
    answer = await send(server, hook, {"day": "monday"})
    assert (answer.status_code, answer.json()["state"]) == (200, "failed")
    assert "'inputs.night' is missing" in answer.json()["why"]
    plain = {**ORDERS["webhook"], "answer": {"wait": "60s"}}
    await register(server, {**ORDERS, "webhook": plain})
    whole = (await send(server, hook, {"day": "monday"}, "m2")).json()
    assert whole.keys() == {"run_id", "workflow", "version", "state", "outputs", "error"}


async def test_an_answer_that_takes_too_long_is_what_is_durable(server):
    await server.ok("/workflows", WAITS, headers=bearer())
    webhook = {**ORDERS["webhook"], "answer": {"wait": 0.2}}
    hook = await register(server, {**ORDERS, "webhook": webhook})
    answer = await send(server, hook, {"day": "monday"})
    assert (answer.status_code, answer.json()["number"]) == (202, 1)


async def test_other_schemes_and_contents(server):
    hook = await register(server, {**GITHUB, "inputs": {"day": "{{ item.body.payload }}"}})
    raw = b"payload=%7B%22a%22%3A1%7D&b=2"
    signature = "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": signature, "Content-Type": "application/x-www-form-urlencoded"}
    answer = await server.client.post(hook, content=raw, headers={**headers, "X-GitHub-Delivery": "d1"})
    assert answer.status_code == 202
    await finished(server, 1)
    assert (await server.ok(f"/runs/{answer.json()['run_id']}", headers=bearer()))["inputs"] == {"day": '{"a":1}'}
    without = [await server.client.post(hook, content=raw, headers=headers) for _ in range(2)]
    assert [one.json()["number"] for one in without] == [2, 3]  # no id: each is a delivery of its own


@attack("X19", "a user who may only look starts a run by the address of a webhook that proves nothing")
async def test_an_address_that_proves_everything_is_shown_to_those_who_may_start_runs(server):
    server.engine.triggers.allow_unsigned = True
    hook = await register(server, {**ORDERS, "webhook": {"verify": {"scheme": "none"}}})
    for role, shown in (("viewer", None), ("approver", None), ("operator", hook), ("author", hook)):
        assert (await server.ok("/triggers/orders", headers=bearer("n", role)))["hook"] == shown
        assert [one["hook"] for one in (await server.ok("/triggers", headers=bearer("n", role)))["items"]] == [shown]
    signed = await register(server)
    assert (await server.ok("/triggers/orders", headers=bearer("n", "viewer")))["hook"] == signed


@attack("X13", "a NUL in a form or a query of a delivery, as %00")
async def test_no_nul_comes_in_by_a_form_or_a_query(server):
    hook = await register(server, {**ORDERS, "inputs": {"day": ["{{ item.body }}", "{{ item.query }}"]}})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await send(server, hook, b"a=1%002&b%00=3", headers=form, query="?q=%00&%00=r")
    assert answer.status_code == 202, answer.text
    await finished(server, 1)
    run = await server.ok(f"/runs/{answer.json()['run_id']}", headers=bearer())
    assert run["inputs"]["day"] == [{"a": "1\ufffd2", "b\ufffd": "3"}, {"q": "\ufffd", "\ufffd": "r"}]


@attack("X30", "a delivery of GitHub that was seen, sent again under another id")
async def test_a_delivery_of_github_under_another_id_is_known_by_its_digest(server):
    """GitHub signs the body alone. By default the id is GitHub's word; a trigger may take it from what is signed."""
    raw = b'{"day": 1}'
    signature = "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": signature, "Content-Type": "application/json"}
    signed = {**GITHUB, "name": "signed", "webhook": {**GITHUB["webhook"], "id": "{{ item.digest }}"}}
    for definition, runs in ((GITHUB, 2), (signed, 1)):
        hook = await register(server, definition)
        sent = [
            await server.client.post(hook, content=raw, headers={**headers, "X-GitHub-Delivery": id})
            for id in ("d1", "d2", "d1")
        ]
        assert [one.status_code for one in sent] == [202] * 3
        assert len({one.json()["run_id"] for one in sent}) == runs
        assert [one.json()["duplicate"] for one in sent] == [False, runs == 1, True]


@pytest.mark.slow
async def test_many_at_once_with_repeats_are_one_run_each(server):
    hook = await register(server)
    names = [f"m{number % 20}" for number in range(60)]
    answers = await asyncio.gather(*(send(server, hook, {"day": name}, name) for name in names))
    assert {one.status_code for one in answers} == {202}
    runs = {
        name: {one.json()["run_id"] for one, sent in zip(answers, names, strict=True) if sent == name} for name in names
    }
    assert all(len(found) == 1 for found in runs.values())
    assert sum(not one.json()["duplicate"] for one in answers) == 20
    await finished(server, 20)


async def test_an_unsigned_hook_is_taken_only_where_that_is_allowed(server):
    server.engine.triggers.allow_unsigned = True
    hook = await register(server, {**ORDERS, "webhook": {"verify": {"scheme": "none"}}})
    assert (await server.client.post(hook, json={"day": "1"})).status_code == 202
    server.engine.triggers.allow_unsigned = False
    assert (await server.client.post(hook, json={"day": "1"})).status_code == 404


async def test_a_deleted_one_takes_nothing(server):
    hook = await register(server)
    await server.ok("/triggers/orders", method="DELETE", headers=bearer())
    assert (await send(server, hook, {"day": "1"})).status_code == 404
