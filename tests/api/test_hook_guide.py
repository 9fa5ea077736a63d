"""The guide to webhooks sends a delivery by each scheme, with curl and openssl: what it shows is executed on a real server."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
import yaml

from perdure.model.trigger_sources import SCHEMES
from perdure.secrets.providers import Secrets, SecretsFile
from perdure.secrets.vault import Vault
from tests.api.helpers import served
from tests.engine.helpers import opened, transform, workflow

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "webhooks.md"
SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS1zaG9wLTMyLWJ5dGVzLWxvbmc="
BEGIN, *SENT = re.findall(
    r"```sh\n(.*?)```", GUIDE.read_text().partition("## Send one by hand")[2].partition("\n## ")[0], re.DOTALL
)
SHOWN = re.findall(r"^`verify: (\{.*?\})`.*\n\n```sh", GUIDE.read_text(), re.MULTILINE)
VERIFY = {said["scheme"]: (said, sent) for said, sent in zip(map(yaml.safe_load, SHOWN), SENT, strict=True)}


def test_every_scheme_is_shown():
    assert set(VERIFY) == set(SCHEMES)


@pytest.fixture
async def server(tmp_path):
    file = tmp_path / "secrets.toml"
    file.write_text(f'[[scope]]\nqueue = "webhooks"\nsecrets = {{ SHOP = "{SECRET}" }}\n')
    file.chmod(0o600)
    engine = await opened(tmp_path, vault=Vault(Secrets([("file", SecretsFile(file))])))
    try:
        await engine.hold()
        engine.triggers.allow_unsigned = True
        async with served(engine) as made:
            await made.ok("/workflows", workflow(transform("a", "{{ inputs.item }}"), name="take-order"))
            yield made
    finally:
        await engine.close(0.5)


async def run(script, hook, secret):
    begin = BEGIN.replace("http://127.0.0.1:8700/api/v1/hooks/…", hook)
    shell = await asyncio.create_subprocess_exec(
        "bash",
        "-euc",
        begin + script,
        env={**os.environ, "PERDURE_SECRET_SHOP": secret},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await shell.communicate()
    assert shell.returncode == 0
    return json.loads(said)


@pytest.mark.parametrize("scheme", VERIFY)
async def test_what_the_guide_sends_is_taken_and_once_where_there_is_an_id(server, scheme):
    verify, script = VERIFY[scheme]
    webhook = {
        "name": "orders",
        "workflow": "take-order",
        "webhook": {"verify": verify},
        "inputs": {"item": "{{ item.body.item }}"},
    }
    hook = server.url + (await server.ok("/triggers", webhook))["hook"]
    first = await run(script, hook, SECRET)
    assert (first["number"], first["duplicate"]) == (1, False)
    known = scheme not in ("bearer", "none")
    again = await run(script, hook, SECRET)
    assert (again["duplicate"], again["run_id"] == first["run_id"]) == (known, known)
    if scheme != "none":
        assert (await run(script, hook, SECRET[:-3] + "aaa"))["status"] == 404
