"""The enrichment example: a wrong secret is an answer, and no secret is written down."""

import json
import re
import socket
import subprocess
import sys

import pytest

from tests.examples.helpers import copy, environment
from tests.forking import commands

pytestmark = pytest.mark.slow


def enrich(folder, token, customer="acme"):
    command = [f"{commands()}/perdure", "run", "customer.yaml", "--run-id", customer, "--json"]
    inputs = ["-i", f"customer={customer}"]
    done = subprocess.run(
        [sys.executable, "server.py", *command, *inputs],
        cwd=folder,
        env=environment(PERDURE_SECRET_REGISTER_TOKEN=token),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout)


def test_the_token_is_used_and_written_down_nowhere(tmp_path):
    folder = copy("enrichment", tmp_path)
    before = set(folder.rglob("*"))
    code, run = enrich(folder, "sesame")
    assert code == 0
    assert run["outputs"]["reminded"] == 1
    written = [path for path in folder.rglob("*") if path.is_file() and path not in before]
    assert written
    assert [path.name for path in written if b"sesame" in path.read_bytes()] == []


def test_a_wrong_token_fails_the_run_at_once(tmp_path):
    code, run = enrich(copy("enrichment", tmp_path), "open up")
    assert code == 1
    assert run["error"]["code"] == "http:401"
    assert run["nodes"]["company"]["attempt"] == 1


def test_a_company_that_nobody_knows_fails_the_run(tmp_path):
    code, run = enrich(copy("enrichment", tmp_path), "sesame", "nobody")
    assert code == 1
    assert run["error"]["code"] == "http:404"


def test_a_port_that_is_taken_is_named_with_the_way_out(tmp_path):
    folder = copy("enrichment", tmp_path)
    port = re.findall(r":(\d+)/", (folder / "customer.yaml").read_text())[0]
    with socket.create_server(("127.0.0.1", int(port))):
        done = subprocess.run([sys.executable, "server.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == f"127.0.0.1:{port}: Address already in use; write another port into customer.yaml\n"
