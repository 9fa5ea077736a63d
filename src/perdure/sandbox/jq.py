"""jq programs, in processes of their own: no environment, no files, limited memory, killed when their time is up.

libjq would read modules and data files and give the environment to any program that asks; and a program may never end,
while it holds the interpreter that runs it. So it runs in `jq_child.py`, one call at a time. Processes are kept for the
next call while they behave.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from perdure import weight
from perdure.places import Places
from perdure.plain_text import cut

PROCESSES = 2
SECONDS = 10.0
MEMORY_MB = 256
MAX_PROGRAM = 20_000
MAX_INPUT = 32 * 1024 * 1024
MAX_OUTPUT = 32 * 1024 * 1024
START_SECONDS = 30.0
_CALLS_PER_PROCESS = 500
_SHOWN = 300
# jq quotes the values it stumbles over; messages go to the journal, values do not.
_QUOTED_VALUE = re.compile(r""" \((?:["{\[\d-]|true|false|null).*?\)(?= |$|,|;)""", re.DOTALL)
# Modules are files. The process can open none, but asking for one would tell whether it exists.
_MODULES = re.compile(r"\A(?:\s|#[^\n]*(?:\n|\Z))*(?:module|import|include)\b|(?<![.\w\"$])modulemeta\b")

_CHILD = Path(__file__).with_name("jq_child.py")


class JqError(Exception):
    """A program gave nothing of use. `code` says which kind of failure it is; the text is for people."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        """Whether another attempt may help: the failure is not the program's fault."""


class Jq:
    """A few processes, started when they are first needed. Safe to use from several threads."""

    def __init__(self, *, processes: int = PROCESSES, memory_mb: int = MEMORY_MB) -> None:
        self._memory_bytes = memory_mb * 1024 * 1024
        self._places = Places(processes)
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    def call(
        self, program: str, value: Any, seconds: float = SECONDS, call: Call | None = None, tenant: str = "default"
    ) -> Any:
        """The one value that the program gives; raises JqError. Blocks, also until it is this tenant's turn; `call`
        lets another thread end it."""
        check_program(program)
        try:
            body = msgspec.json.encode({"program": program, "input": value, "seconds": seconds})
        except (TypeError, ValueError, UnicodeError, RecursionError) as error:
            raise JqError("bad_input", f"the input is not JSON: {type(error).__name__}") from None
        if len(body) > MAX_INPUT:
            raise JqError("bad_input", f"the input has {len(body):,} bytes as JSON, {MAX_INPUT:,} are allowed")
        ready = threading.Event()
        self._places.ask(tenant, ready.set)
        ready.wait()
        try:
            return _read(self._ask(body, seconds, call or Call()))
        finally:
            self._places.leave(tenant)

    def close(self) -> None:
        """Kill what runs; the next call starts anew."""
        with self._lock:
            idle, busy = self._idle, list(self._busy)
            self._idle = []
        for process in (*idle, *busy):
            process.stop()
        for process in idle:
            process.reap()

    def _ask(self, body: bytes, seconds: float, call: Call) -> bytes:
        process = self._take()
        if not call.begin(process):
            self._drop(process)
            raise _stopped()
        try:
            answer = process.ask(body, seconds)
        except TimeoutError:
            self._drop(process)
            raise JqError("jq_timeout", f"it ran longer than {seconds:g} s and was stopped") from None
        except (OSError, EOFError):
            self._drop(process)
            raise self._explain_death(process) from None
        except JqError:
            self._drop(process)
            raise
        self._give_back(process)
        return answer

    def _take(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    self._busy.add(process)
                    return process
                process.reap()
        process = _Process(self._memory_bytes)
        with self._lock:
            self._busy.add(process)
        return process

    def _give_back(self, process: _Process) -> None:
        with self._lock:
            self._busy.discard(process)
            if not process.stopped and process.calls < _CALLS_PER_PROCESS:
                self._idle.append(process)
                return
        process.kill()
        process.reap()

    def _drop(self, process: _Process) -> None:
        process.kill()
        process.reap()
        with self._lock:
            self._busy.discard(process)

    def _explain_death(self, process: _Process) -> JqError:
        if process.stopped:
            return _stopped()
        megabytes = self._memory_bytes // (1024 * 1024)
        return JqError("jq_memory", f"its process died, most likely because it needed more than {megabytes} MB")


class Call:
    """A handle to end a call from another thread, whichever process it got."""

    __slots__ = ("_ended", "_process")

    def __init__(self) -> None:
        self._ended = False
        self._process: _Process | None = None

    def begin(self, process: _Process) -> bool:
        """Note the process of the call; False if the call was ended before it began."""
        self._process = process
        return not self._ended

    def end(self) -> None:
        self._ended = True
        if self._process is not None:
            self._process.stop()


def check_program(program: str) -> None:
    """Raise JqError for a program that is not even tried. Whether it compiles, only jq can say."""
    if len(program) > MAX_PROGRAM:
        raise JqError("bad_program", f"the program has {len(program):,} characters, {MAX_PROGRAM:,} are allowed")
    if _MODULES.search(program):
        raise JqError("bad_program", "modules (import, include, modulemeta) are not available")


class _Process:
    """One child and the socket to it."""

    def __init__(self, memory_bytes: int) -> None:
        self.calls = 0
        self.stopped = False
        """Whether it was stopped from here, and not for what it did."""
        ours, theirs = socket.socketpair()
        self._socket = ours
        try:
            self._popen = subprocess.Popen(  # noqa: S603  our own interpreter and our own file
                [sys.executable, "-I", "-S", str(_CHILD), _get_jq(), str(memory_bytes)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd=os.path.abspath(os.sep),
                close_fds=True,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise JqError("jq_unavailable", f"no process for jq could be started: {error}", retryable=True) from None
        finally:
            theirs.close()
        try:
            self._socket.settimeout(START_SECONDS)
            self._receive(4)
        except (OSError, EOFError):
            self.kill()
            self.reap()
            raise JqError("jq_unavailable", "the process for jq did not start", retryable=True) from None

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, body: bytes, seconds: float) -> bytes:
        """Send a request, return the answer. Raises TimeoutError, OSError, EOFError; JqError if it is too large."""
        self.calls += 1
        self._socket.settimeout(seconds)
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        length = int.from_bytes(self._receive(4), "big")
        if length > MAX_OUTPUT:
            raise JqError("jq_output", f"it gave {length:,} bytes of JSON, {MAX_OUTPUT:,} are allowed")
        return self._receive(length)

    def _receive(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def stop(self) -> None:
        self.stopped = True
        self.kill()

    def kill(self) -> None:
        """Kill the process at once; may be called from any thread."""
        if self._popen.poll() is None:
            self._popen.kill()

    def reap(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5)
        self._socket.close()


@cache
def _get_jq() -> str:
    """The folder of the library, which is not loaded here."""
    spec = importlib.util.find_spec("jq")
    if spec is None or spec.origin is None or sys.platform == "win32":
        raise JqError("jq_unavailable", "jq is not available on this platform")
    return str(Path(spec.origin).parent)


def _read(answer: bytes) -> Any:
    if weight.is_heavy(answer):
        raise JqError("jq_output", f"what it gave is too much to be read: {weight.WHY}")
    try:
        message = msgspec.json.decode(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise JqError("jq_output", "it gave something that is not JSON, or nested too deep") from None
    if "value" in message:
        return message["value"]
    text = _QUOTED_VALUE.sub(" (…)", message["error"].removeprefix("jq: error: ").partition("\n")[0])
    hint = "; put it in [ … ]" if message["code"] == "jq_many_values" else ""
    raise JqError(message["code"], f"{cut(text, _SHOWN)}{hint}")


def _stopped() -> JqError:
    return JqError("jq_stopped", "it was stopped", retryable=True)
