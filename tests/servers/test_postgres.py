"""The servers of tests: private, and gone with the process that started them, however it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import wait_until
from tests.processes import python_path
from tests.servers.postgres import FAST, PostgresServer, installations

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0

PROGRAM = """
import sys
from tests.servers.postgres import FAST, PostgresServer
server = PostgresServer(sys.argv[1], **FAST)
server.start()
print(server._process.pid, server.folder, flush=True)
sys.stdin.readline()
"""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("installation", sorted(installations()))
def test_a_server_ends_with_the_process_that_started_it_even_if_that_is_killed(installation):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, installation],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": python_path()},
    ) as process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().split()
        try:
            assert not is_gone(int(pid))
            process.kill()
            wait_until(lambda: is_gone(int(pid)), "the server to end with its parent", PATIENCE_SECONDS)
        finally:
            subprocess.run(["rm", "-rf", folder], check=True)


IGNORING = """
import signal, subprocess, sys
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-m", "tests.servers.launcher", "0", "0", sys.executable, "-c", WAITING])
child.wait()
"""
WAITING = "import os, sys; print(os.getpid(), flush=True); sys.stdin.readline()"


def test_a_server_ends_with_a_process_that_a_script_started_in_the_background():
    program = f"WAITING = {WAITING!r}" + IGNORING
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        wait_until(lambda: is_gone(pid), "the server to end with its parent", PATIENCE_SECONDS)


def test_two_servers_do_not_meet():
    servers = [PostgresServer(**FAST) for _ in range(2)]
    try:
        for server in servers:
            server.start()
        assert len({server.port for server in servers}) == 2
        assert len({server.folder for server in servers}) == 2
    finally:
        for server in servers:
            server.remove()
    assert not any(server.folder.exists() for server in servers)
