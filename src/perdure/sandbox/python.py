"""Python conditions: `evaluate(output, context)` in a process of its own, by pydantic-monty.

Monty is an interpreter without files, network, environment or host objects, run in worker processes. Its synchronous
pool is driven from threads here, because the asynchronous one aborts the host interpreter when it ends. Clock and seed
are fixed, so that the same job has the same answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from perdure.capacity import SANDBOX_MEMORY_MB
from perdure.errors import PerdureError
from perdure.expressions.at_hand import Lost
from perdure.expressions.python_code import Job
from perdure.places import Places
from perdure.plain_text import cut
from perdure.sandbox.process_limits import confine

T = TypeVar("T")
PROCESSES = 4
"""How many conditions run side by side; slow ones hold up those beyond that."""
"""How much memory one condition may have, unless the operator says otherwise."""
GRACE_SECONDS = 0.2
"""How long the interpreter has to notice that its time is up; then its process is killed."""
_CALLS_PER_PROCESS = 1000
_OVERHEAD_BYTES = 1 << 30
"""The address space the interpreter takes for itself; memory is counted exactly inside."""

_POLICY: dict[str, Any] = {
    "datetime": datetime(2000, 1, 1, tzinfo=UTC),
    "timezone": "utc",
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}
# The result is a bool or a short text, whatever the code returns or redefines.
_CALL = """

import json as _json
_result = evaluate(*_json.loads(_arguments))
_result if _result is True or _result is False else f"{type(_result).__name__:.40}"
"""
# What a function gave, as JSON; what JSON cannot hold is an error.
_COMPUTE = """

import json as _json
_json.dumps(main(*_json.loads(_arguments)))
"""
MAX_RESULT = 8 * 1024 * 1024
# Messages of these errors name code, not data. Others may quote the data, and stay out of the journal.
_SAFE = frozenset({"NameError", "AttributeError", "TypeError", "ImportError", "ModuleNotFoundError", "SyntaxError"})
_KIND = re.compile(r"[A-Za-z_][\w.]{0,80}")

_log = logging.getLogger(__name__)


_most_memory_mb = SANDBOX_MEMORY_MB


def configure(memory_mb: int) -> None:
    """Set what code in sandboxes of this process may have at most, where nothing else is said."""
    global _most_memory_mb  # noqa: PLW0603  how much memory there is is a fact about the process
    _most_memory_mb = memory_mb


class SandboxUnavailable(PerdureError):
    """No process could be had; the condition was not evaluated and can be tried again."""

    code = "sandbox_unavailable"
    status = 503


class Sandbox:
    """A few processes, started when they are first needed. Safe to use from several tasks and threads."""

    def __init__(self, *, processes: int = PROCESSES, memory_mb: int | None = None) -> None:
        """`memory_mb` is what a condition may have at most, whatever it says; None: what the process is configured for."""
        self._processes = processes
        self._memory_mb = memory_mb
        self._places = Places(processes)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="perdure-sandbox")
        self._lock = threading.Lock()
        self._pool: Any = None
        self._running: set[int] = set()
        self._known: set[int] = set()
        self._closed = False

    async def run(self, job: Job, tenant: str = "default") -> bool | Lost:
        """The verdict, or why there is none. Tenants take turns. Raises SandboxUnavailable if asking again may help."""
        return await self._in_turn(self.decide, job, tenant)

    async def run_main(self, job: Job, tenant: str = "default") -> str | Lost:
        """What `main` of the code gives, as JSON: as `run`."""
        return await self._in_turn(self.compute, job, tenant)

    async def _in_turn(self, work: Callable[[Job], T], job: Job, tenant: str) -> T:
        loop = asyncio.get_running_loop()
        await self._places.wait(tenant)
        try:
            future = loop.run_in_executor(self._threads, work, job)
        except RuntimeError:  # the threads are shut down
            self._places.leave(tenant)
            raise SandboxUnavailable("the sandbox is closed") from None
        # The place is left when its thread is done, even if the caller no longer waits.
        future.add_done_callback(lambda _: self._places.leave(tenant))
        return await future

    async def close(self) -> None:
        self.shut()

    def shut(self) -> None:
        """Close the sandbox: conditions that run are killed."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for pid in running:
            _kill(pid)
        self._threads.shutdown(cancel_futures=True)  # they return at once: what they wait for is dead
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.__exit__(None, None, None)

    def processes(self) -> set[int]:
        """The processes that live, idle or not."""
        self._known = {pid for pid in self._known if _is_alive(pid)}
        return set(self._known)

    def busy(self) -> int:
        return len(self._running)

    def decide(self, job: Job) -> bool | Lost:
        """Like `run`, but blocks."""
        found = self._try(job, _CALL)
        return found if isinstance(found, Lost) else self._read(found)

    def compute(self, job: Job) -> str | Lost:
        """What `main` of the code gives, as JSON, or why there is nothing. Blocks. Raises as `run` does."""
        found = self._try(job, _COMPUTE)
        if isinstance(found, Lost):
            return found
        if type(found) is not str or len(found) > MAX_RESULT:
            return Lost("condition_error", f"main gave more than {MAX_RESULT:,} characters of JSON, or none")
        return found

    def _try(self, job: Job, call: str) -> Any:
        most = _most_memory_mb if self._memory_mb is None else self._memory_mb
        if job.max_memory_mb > most:
            return Lost(
                "condition_memory",
                f"max_memory_mb is {job.max_memory_mb}, and this deployment allows {most} (setting sandbox_memory_mb)",
            )
        try:
            import pydantic_monty as monty
        except ImportError as error:
            return Lost("sandbox_unavailable", f"Python conditions cannot run on this platform ({error})")
        for attempt in (1, 2):
            try:
                return self._feed(job, call)
            except monty.MontyCrashedError as error:
                if error.timed_out:
                    return _timeout(job)
                if self._closed:
                    raise SandboxUnavailable("the sandbox was closed while a condition ran") from None
                # Perhaps killed from outside, and another process may do. If it was the code, it will happen again.
                _log.warning("a sandbox process died (attempt %d): %s", attempt, error)
            except (monty.MontySyntaxError, monty.MontyRuntimeError) as error:
                return _explain(job, error)
            except monty.MontyError as error:
                return Lost("condition_error", f"the sandbox cannot take this: {type(error).__name__}")
        return Lost("condition_crashed", "the sandbox process died of it, twice")

    def _feed(self, job: Job, call: str) -> Any:
        limits = {
            "max_feed_duration_secs": job.timeout_ms / 1000,
            "max_memory": job.max_memory_mb * 1024 * 1024,
            "max_recursion_depth": 500,
            "max_suspensions": 100,
        }
        try:
            session = self._open().checkout(script_name="condition.py", limits=limits, os_policy=_POLICY)
            session.__enter__()
        except (OSError, RuntimeError, TimeoutError) as error:
            raise SandboxUnavailable(f"no sandbox process could be started: {error}") from error
        pid = session.worker_pid
        try:
            if pid is not None:
                self._enter(pid)
                confine(
                    pid,
                    memory_bytes=_OVERHEAD_BYTES + 2 * job.max_memory_mb * 1024 * 1024,
                    cpu_seconds=job.timeout_ms / 1000 + 2 * GRACE_SECONDS,
                )
            return session.feed_run(
                job.code + call, inputs={"_arguments": job.arguments.decode()}, print_callback=_ignore
            )
        finally:
            self._running.discard(pid)
            session.__exit__(None, None, None)

    def _enter(self, pid: int) -> None:
        with self._lock:
            if self._closed:
                raise SandboxUnavailable("the sandbox is closed")
            self._running.add(pid)
            self._known.add(pid)

    def _open(self) -> Any:
        import pydantic_monty as monty

        with self._lock:
            if self._closed:
                raise SandboxUnavailable("the sandbox is closed")
            if self._pool is None:
                pool = monty.Monty(
                    min_processes=0,
                    max_processes=self._processes,
                    max_checkouts_per_worker=_CALLS_PER_PROCESS,
                    feed_duration_limit_grace=GRACE_SECONDS,
                )
                self._pool = pool.__enter__()
            return self._pool

    @staticmethod
    def _read(value: Any) -> bool | Lost:
        if value is True or value is False:
            return bool(value)
        kind = value if type(value) is str and _KIND.fullmatch(value) else "something else"
        return Lost("condition_error", f"evaluate gave {kind}, not True or False")


def _timeout(job: Job) -> Lost:
    return Lost("condition_timeout", f"it ran longer than its {job.timeout_ms} ms; raise timeout_ms, or let it do less")


def _explain(job: Job, error: Any) -> Lost:
    kind, _, text = error.display("type-msg").partition(":")
    if kind == "TimeoutError":
        return _timeout(job)
    if kind == "MemoryError":
        return Lost(
            "condition_memory",
            f"it took more than its {job.max_memory_mb} MB; raise max_memory_mb, or let it keep less",
        )
    frames = error.traceback()
    lines = job.code.count("\n") + 1
    line = f" (line {frames[-1].line})" if frames and frames[-1].line <= lines else ""
    what = f"{kind}:{cut(text, 200)}" if kind in _SAFE else kind if _KIND.fullmatch(kind) else "an error"
    return Lost("condition_error", f"the code raised {what}{line}")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _ignore(stream: str, text: str) -> None:
    """Discard what a condition prints."""
