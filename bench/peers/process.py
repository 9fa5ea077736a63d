"""A subject that runs: its program and all the processes under it, obeyed by lines of JSON, killed as one."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.peers.environments import ROOT, python_of
from bench.peers.subjects import Subject
from perdure.private_servers.system_user import as_user

START_SECONDS = 120.0


class Failed(Exception):
    """A program ended, or took longer than it may; the message says which."""


class TooSlow(Failed):
    pass


class Process:
    def __init__(self, subject: Subject, folder: Path, environment: dict[str, str]) -> None:
        self.subject = subject
        self.folder = folder
        self._log = folder / "program.log"
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "PEERS_"))}
        own |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "HOME": str(folder), **environment}
        command = [str(python_of(subject)), "-m", f"bench.peers.{subject.name}", str(folder)]
        self.launched = time.time()
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(
                as_user(os.getuid(), os.getgid(), *command),
                cwd=folder,
                env=own,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # a group of its own, to be killed as one
            )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ready(self) -> None:
        self.answer(START_SECONDS)

    def order(self, **what: Any) -> None:
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(what) + "\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None

    def answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TooSlow(f"more than {seconds:.0f} s") from None
        if not line:
            raise Failed(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, limit: float, /, **what: Any) -> dict[str, Any]:
        self.order(**what)
        return self.answer(limit)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"its program ended: {lines[-1] if lines else 'it said nothing'}"

    def pids(self) -> list[int]:
        return descendants(self._popen.pid)

    def close(self) -> None:
        """Orderly; then whatever is left is killed."""
        if self._popen.poll() is None:
            with contextlib.suppress(Failed):
                self.ask(60, do="close")
        self.kill()

    def kill(self) -> None:
        """`kill -9` of everything: the group, and who left it."""
        left = self.pids()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait(60)
        end = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in left) and time.monotonic() < end:
            time.sleep(0.01)


def descendants(pid: int) -> list[int]:
    """A process and all under it."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def memory_mb(pids: Iterable[int]) -> float:
    """Memory of these processes, with what they share counted once (PSS)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1e3
