"""`perdure llm-server` runs a command while it serves, and says what is wrong with its script."""

import json
import sys

import pytest
from click.testing import CliRunner

from perdure.cli.llm_server import llm_server

ASK = """
import json, sys, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/v1/chat/completions", body)) as answer:
    said = json.load(answer)["choices"][0]["message"]["content"]
with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/requests")) as answer:
    asked = json.load(answer)[0]["body"]["model"]
open(sys.argv[2], "w").write(json.dumps([said, asked]))
sys.exit(7)
"""


@pytest.mark.slow
def test_a_command_runs_while_the_server_is_up_and_its_exit_is_the_servers(tmp_path, unused_tcp_port):
    (tmp_path / "script.yaml").write_text("rules: [{say: scripted}]")
    (tmp_path / "ask.py").write_text(ASK)
    arguments = ["--script", str(tmp_path / "script.yaml"), "--port", str(unused_tcp_port)]
    command = [sys.executable, str(tmp_path / "ask.py"), str(unused_tcp_port), str(tmp_path / "said")]
    done = CliRunner().invoke(llm_server, [*arguments, *command])
    assert done.exit_code == 7
    assert json.loads((tmp_path / "said").read_text()) == ["scripted", "m"]


@pytest.mark.slow
def test_a_command_that_is_killed_has_the_exit_code_of_shells(unused_tcp_port):
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert CliRunner().invoke(llm_server, ["--port", str(unused_tcp_port), *command]).exit_code == 137


def test_a_script_that_cannot_be_read_is_named(tmp_path):
    done = CliRunner().invoke(llm_server, ["--script", str(tmp_path / "none.yaml")])
    assert "none.yaml: No such file" in str(done.exception)
