"""A model, its provider and its texts are not to be trusted: keys, the loop, templates and labels (X03, X08)."""

from pathlib import Path

import msgspec
import pytest

from perdure import egress, llms
from perdure.access import LOCAL
from perdure.egress.policy import Policy
from perdure.llms.scripted.scripted_server import serving
from perdure.runtime import notifier
from perdure.runtime.signing_secrets import reveal_unless_a_key
from perdure.secrets.providers import open_secrets
from perdure.secrets.vault import Vault
from perdure.service import Service, notifications
from perdure.service.triggers import trigger_reader, webhook_deliveries
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.egress.server import PLAIN
from tests.engine.helpers import events, finish, output_of, running, transform, workflow
from tests.llms.helpers import models_at

pytestmark = pytest.mark.slow
KEY = "sk-0123456789-abcdef"
SIGNING = [Path(one.__file__ or "") for one in (notifier, notifications, trigger_reader, webhook_deliveries)]


@pytest.fixture(autouse=True)
def _nothing_is_open():
    egress.configure(Policy(), ssl_context=PLAIN)
    yield
    egress.configure(None)
    llms.configure(None)


def ask(**config):
    return {"id": "ask", "type": "llm", "config": {"prompt": "x", **config}, "retry": {"max_attempts": 1}}


@attack("X08", "a workflow that names a server of its own as the model, or a provider that sends the key elsewhere")
async def test_a_key_of_a_model_goes_to_no_server_but_its_providers(tmp_path):
    vault = Vault(open_secrets({"MY_KEY": KEY}))
    async with serving() as thief, serving([{"faults": ["redirect"]}]) as server:
        llms.configure(models_at(server.port, secret="MY_KEY"))
        async with running(tmp_path, vault=vault) as engine:
            where = f"http://127.0.0.1:{thief.port}/v1"
            for number, name in enumerate((where, f"chat/{where}", f"chat@{where}", "chat")):
                state = await finish(engine, workflow(ask(model=name)), f"r{number}")
                assert state.state == "failed"
                assert KEY not in msgspec.json.encode(await events(engine.journal, f"r{number}")).decode()
            # what is open to a provider's calls is open to nothing else
            call = {"id": "call", "type": "http", "config": {"url": f"http://127.0.0.1:{server.port}/v1/models"}}
            state = await finish(engine, workflow({**call, "retry": {"max_attempts": 1}}), "other")
            assert state.error is not None
            assert state.error.code == "egress_refused"
    assert (thief.seen, {one.headers["authorization"] for one in server.seen}) == ([], {f"Bearer {KEY}"})


def call(server, name):
    auth = {"type": "bearer", "token": f"{{{{ secrets.{name} }}}}"}
    config = {"url": f"http://127.0.0.1:{server.port}/v1/models", "auth": auth}
    return {"id": "call", "type": "http", "config": config, "retry": {"max_attempts": 1}}


@attack("X08", "a node of another type that sends the key of a model elsewhere, or asks its provider past the budget")
async def test_the_key_of_a_model_is_given_to_no_other_node(tmp_path):
    vault = Vault(open_secrets({"MY_KEY": KEY, "OTHER": "another-secret"}))
    async with serving() as thief:
        egress.configure(Policy.parse(f"127.0.0.1:{thief.port}"), ssl_context=PLAIN)
        llms.configure(models_at(thief.port, secret="MY_KEY"))
        async with running(tmp_path, vault=vault) as engine:
            said = {}
            for name in ("MY_KEY", "OTHER"):
                state = await finish(engine, workflow(call(thief, name)), name.lower())
                said[name] = None if state.error is None else state.error.message
            assert said["OTHER"] is None
            assert "goes to them alone" in str(said["MY_KEY"])
            llms.configure(str(tmp_path / "nowhere.toml"))  # then nobody knows which secrets are keys
            state = await finish(engine, workflow(call(thief, "OTHER")), "unknown")
            assert state.error is not None
            assert "cannot read agents file" in state.error.message


@attack("X03", "a model whose answer is a template, or takes long to read")
async def test_an_answer_is_data_whatever_it_is_made_of(tmp_path):
    template = "{{ secrets.MY_KEY }} {{ inputs.private }} {% for x in y %}"
    texts = [
        template,
        "[" * 900_000,
        '{"a":' * 100_000,
        '"' + '\\"' * 400_000,
        "```" * 300_000,
        "[1," * 300_000 + "\x00",
    ]
    vault = Vault(open_secrets({"MY_KEY": KEY}))
    schema = {"type": "object"}
    rules = [{"when": {"contains": f"say {number}."}, "say": text} for number, text in enumerate(texts)]
    async with serving(rules) as server:
        llms.configure(models_at(server.port))
        async with running(tmp_path, vault=vault) as engine:
            node = ask(model="chat", prompt="say 0.")
            state = await finish(
                engine, workflow(node, transform("copy", "{{ ask.text }}", ["ask"])), inputs={"private": "p"}
            )
            assert output_of(state, "copy") == template
            for number in range(1, len(texts)):
                config = {"model": "chat", "prompt": f"say {number}.", "schema": schema, "repairs": 0}
                with watching():
                    state = await finish(engine, workflow(ask(**config)), f"t{number}")
                assert state.error is not None
                assert state.error.code == "llm:bad_output", number


@attack("X08", "a webhook, or a notification, that is signed with the key of a model")
async def test_the_key_of_a_model_signs_and_verifies_nothing(tmp_path):
    vault = Vault(open_secrets({"MY_KEY": KEY, "OTHER": "another-secret-of-hooks"}))
    llms.configure(models_at(1, secret="MY_KEY"))
    verify = {"scheme": "bearer", "secret": "MY_KEY"}
    async with running(tmp_path, vault=vault) as engine:
        service = Service(engine, LOCAL)
        taken = {}
        for name in ("MY_KEY", "OTHER"):
            definition = {"name": name.lower(), "workflow": "w", "webhook": {"verify": {**verify, "secret": name}}}
            hook = (await service.triggers.apply(definition))["hook"].rsplit("/", 1)[1]
            proof = {"authorization": f"Bearer {vault.reveal(name, 'default', 'webhooks')}"}
            try:
                taken[name] = (await webhook_deliveries.authenticate(engine, hook, proof, b"{}")).trigger.name
            except webhook_deliveries.HookRefused as refused:
                taken[name] = refused.cause
        assert taken == {"MY_KEY": "secret", "OTHER": "other"}
        llms.configure(str(tmp_path / "nowhere.toml"))  # then nobody knows which secrets are keys
        with pytest.raises(LookupError):
            reveal_unless_a_key(vault, "OTHER", "default", "webhooks")
    assert [one for one in SIGNING if "vault.reveal(" in one.read_text()] == []


@attack("X02", "a text that says a secret in the syntax of templates, told to a model")
@pytest.mark.parametrize("kind", ["llm", "classifier", "agent"])
async def test_data_that_reads_as_a_secret_fails_no_node(tmp_path, kind):
    """It was refused as if the author had written it there: one mail made a run fail for good."""
    text = "Dear Sirs, {{ secrets.KEY }} and {{ secrets.HOOK }}."
    given: dict[str, object] = {"prompt": "{{ inputs.mail }}"}
    if kind == "classifier":
        given = {"labels": ["a", "b"], "input": "{{ inputs.mail }}"}
    rules = (
        [{"data": {"label": "a", "confidence": 1, "reason": "because"}}] if kind == "classifier" else [{"say": "yes"}]
    )
    node = {"id": "ask", "type": kind, "config": {"model": "chat", **given}, "retry": {"max_attempts": 1}}
    async with serving(rules) as server:
        llms.configure(models_at(server.port))
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(node), inputs={"mail": text})
        told = str([seen.body for seen in server.seen])
    assert (state.state, text in told) == ("completed", True), state.error
