"""A port that was handed out is nobody else's: not the system's to give, not another process's to find."""

import socket
import subprocess
import sys

import pytest

from tests.ports import FIRST, _first_given_away, _lock, free_port


def test_ports_differ_and_the_system_does_not_give_them_away():
    found = [free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert all(FIRST <= port < _first_given_away() for port in found)


@pytest.mark.slow
def test_a_port_that_was_handed_out_is_locked_for_others():
    port = free_port()
    assert _lock(port) is None
    asking = f"from tests.ports import _lock; print(_lock({port}) is None)"
    done = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_port_that_somebody_listens_on_is_not_handed_out(monkeypatch):
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        monkeypatch.setattr("tests.ports.FIRST", port)
        monkeypatch.setattr("tests.ports._first_given_away", lambda: port + 1)
        monkeypatch.setattr("tests.ports._lock", lambda port: open("/dev/null"))  # noqa: SIM115
        with pytest.raises(AssertionError, match="is free"):
            free_port()
