"""Workflows as files, commands in this process and in others, and waiting for conditions."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path

from click.testing import CliRunner

from perdure.cli.app import app
from tests.forking import Forked
from tests.processes import python_path
from tests.waiting import PATIENCE_SECONDS as DEADLINE_SECONDS
from tests.waiting import wait_until

__all__ = ["DEADLINE_SECONDS", "wait_until"]

ROOT = Path(__file__).parent.parent.parent


FAILING = {"boom", "fail_until"}
"""Functions that fail whatever is tried: how long one waits before is for those tests to say that look at it."""


def task(node_id, function, *dependencies, args=None, **more):
    if function in FAILING:
        more = {"retry": {"max_attempts": 3, "backoff_ms": 1}} | more
    config = {"function": f"tests.cli.work:{function}", "args": args or {}}
    return {"id": node_id, "type": "task", "dependencies": list(dependencies), "config": config, **more}


def human(node_id, *dependencies, **config):
    return {"id": node_id, "type": "human", "dependencies": list(dependencies), "config": config}


def workflow(folder, name, *nodes, **more):
    path = Path(folder) / f"{name}.json"
    path.write_text(json.dumps({"name": name, "nodes": list(nodes), **more}, indent=1))
    return str(path)


class Shell:
    """The commands of one folder, with a database of its own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.children = []

    # in this process

    def run(self, *args, code=0, input=None):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=input, catch_exceptions=False)
        assert result.exit_code == code, f"exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result

    def json(self, *args, code=0, input=None):
        return json.loads(self.run(*args, "--json", code=code, input=input).stdout)

    def error(self, *args, code=1):
        result = self.run(*args, code=code)
        assert "Traceback" not in result.stderr
        return result.stderr

    # in another one: forked, as what is tested is seldom how an interpreter starts (`tests/forking.py`)

    @property
    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        return {**kept, "PYTHONPATH": python_path(), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}

    def start(self, *args):
        ours, theirs = os.pipe()
        try:
            words = [str(arg) for arg in args]
            popen = Forked(words, cwd=self.folder, env=self.environment, stdout=theirs, stderr=theirs)
        finally:
            os.close(theirs)
        return self._keep(Process(popen, ours))

    def start_interpreter(self, *args):
        """As anybody starts it."""
        ours, theirs = os.pipe()
        popen = subprocess.Popen(
            [sys.executable, "-m", "perdure", *map(str, args)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        return self._keep(Process(popen, ours))

    def start_on_terminal(self, *args, size=(100, 30), environment=None):
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (size[1], size[0]))
        environment = {**self.environment, "COLUMNS": str(size[0]), "LINES": str(size[1]), **(environment or {})}
        words = [str(arg) for arg in args]
        popen = Forked(words, cwd=self.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        return self._keep(Process(popen, ours))

    def _keep(self, process):
        self.children.append(process)
        return process

    def close(self):
        for process in self.children:
            process.close()


class Process:
    def __init__(self, popen, source):
        """`source`: what is written comes from there, and what is typed goes there."""
        self.popen = popen
        self._source = source
        self._text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                data = os.read(self._source, 65536)
            except OSError:  # a terminal ends like this
                return
            if not data:
                return
            self._text += data.decode(errors="replace")

    @property
    def text(self):
        return self._text

    @property
    def pid(self):
        return self.popen.pid

    def wait_for(self, text):
        wait_until(lambda: text in self._text or self.popen.poll() is not None, f"{text!r} in:\n{self._text}")
        assert text in self._text, self._text
        return self

    def type(self, text):
        os.write(self._source, text.encode())

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, code=0):
        assert self.popen.wait(DEADLINE_SECONDS) == code, self._text
        self._reader.join(DEADLINE_SECONDS)
        return self._text

    def kill(self):
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(DEADLINE_SECONDS)

    def close(self):
        if self.popen.poll() is None:
            self.kill()
        self._reader.join(DEADLINE_SECONDS)
        os.close(self._source)
