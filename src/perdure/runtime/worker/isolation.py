"""Isolated processes: a handler with `isolation: process` runs in one of these, which can be killed.

This file owns the processes and the wire to them, a socket pair. A message is four bytes of length and then JSON; one
with `bytes` is followed by that many, which are passed on as they are (the JSON of an output, the content of a blob).
Nothing is pickled.

A process is started when first needed and reused while it behaves. It is killed, with everything it started, when its
attempt times out, is stopped, or breaks the protocol. What it prints passes through the worker's process, which takes
out the secrets it revealed. There is at most one process per slot of the worker. One whose parent died sees its socket
end and exits.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import contextvars
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from perdure import functions
from perdure.assets import Asset, StoredAsset
from perdure.clock import Clock
from perdure.kernel.segments import pack
from perdure.nodes.shared_values import Opener
from perdure.outcomes import Chosen, Failure, Renewed
from perdure.plain_text import clean_text, find_text_trouble
from perdure.runtime.failures import describe
from perdure.runtime.patience import wait_at_most
from perdure.runtime.worker.outputs import MAX_BYTES, Encoded
from perdure.runtime.worker.sayings import LONGEST_STEP
from perdure.runtime.worker.spooled_content import check_size
from perdure.settings import without_secrets
from perdure.transport import LONGEST_PROGRESS, Task

START_SECONDS = 60.0
REAP_SECONDS = 5.0
MAX_FRAME = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_LARGEST_PART = 64 * 1024 * 1024
_LONGEST_LINE = 1024 * 1024

_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); descriptor = int(sys.argv[1]); del sys.argv[1:]; "
    "from perdure.runtime.worker.isolated_process import main; main(descriptor)"
)


class Duties(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker does for an attempt in another process, whenever that process asks for it."""

    heartbeat: Callable[[], None]
    progress: Callable[[str], None]
    checkpoint: Callable[[Any, str], Awaitable[None]]
    blob: Callable[[str], Awaitable[bytes | bytearray]]
    keep_line: Callable[[int, str], None]
    part: Callable[..., Awaitable[bytes | bytearray]]
    """Read `count` bytes of a blob from `first` on."""
    asset: Callable[[Asset], Awaitable[StoredAsset]]
    most: int
    """The bytes that one asset may have."""


class ProcessPool:
    def __init__(self, clock: Clock, clean: Callable[[str], str] = str) -> None:
        """`clean` takes secrets out of what the processes print."""
        self._clock = clock
        self._clean = clean
        self._idle: list[IsolatedProcess] = []
        self._all: set[IsolatedProcess] = set()

    @property
    def count(self) -> int:
        return len(self._all)

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[IsolatedProcess]:
        """A process for the caller alone. It is killed if the body fails in any way but by a failure of the handler."""
        process = self._find_idle() or await self._start()
        try:
            yield process
        except Failure:
            if process.is_clean:
                self._idle.append(process)
            else:
                await self._discard(process)
            raise
        except BaseException:
            await self._discard(process)
            raise
        self._idle.append(process)

    async def close(self) -> None:
        for process in self._idle:
            if process.has_open and process.is_alive:
                await wait_at_most(self._clock, REAP_SECONDS, process.end)
        for process in list(self._all):
            process.kill()
        for process in list(self._all):
            await self._discard(process)

    def _find_idle(self) -> IsolatedProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            process.kill()
            process.close()
            self._all.discard(process)
        return None

    async def _start(self) -> IsolatedProcess:
        process = await IsolatedProcess.start(self._clean)
        self._all.add(process)
        try:
            if not await wait_at_most(self._clock, START_SECONDS, process.ready):
                raise Failure("process_not_started", f"the isolated process was not ready after {START_SECONDS:g} s")
        except BaseExceptionGroup as group:
            await self._discard(process)
            raise _only(group) from None
        except BaseException:
            await self._discard(process)
            raise
        return process

    async def _discard(self, process: IsolatedProcess) -> None:
        process.kill()
        try:
            await process.reap()
            await wait_at_most(self._clock, REAP_SECONDS, process.heard)
        finally:
            process.close()
            self._all.discard(process)


class IsolatedProcess:
    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        said: Sequence[asyncio.Task[None]],
    ) -> None:
        self._popen = popen
        self._said = said
        self._reader = reader
        self._writer = writer
        self.is_clean = True
        """Whether no call is under way, so that the process can take the next one."""
        self.has_open = False
        """Whether handlers share something in it that is to be closed."""

    @classmethod
    async def start(cls, clean: Callable[[str], str]) -> IsolatedProcess:
        ours, theirs = socket.socketpair()
        try:
            popen = subprocess.Popen(  # noqa: S603, ASYNC220  our own interpreter; forking takes a millisecond or two
                [sys.executable, "-c", _BOOTSTRAP, str(theirs.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=without_secrets(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C does not reach it, and killing it kills what it started
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        said = [
            # In a context of its own: the process itself keeps the lines with its attempt, and once is enough.
            asyncio.get_running_loop().create_task(_pass_on(pipe, name, clean), context=contextvars.Context())
            for pipe, name in ((popen.stdout, "stdout"), (popen.stderr, "stderr"))
        ]
        return cls(popen, reader, writer, said)

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None and not self._reader.at_eof()

    async def ready(self) -> None:
        message = await self._receive()
        if message.get("op") != "ready":
            raise self._broken("its first message was not 'ready'")

    async def call(
        self, handler: Callable[..., Any], task: Task, duties: Duties, opener: Opener | None = None, device: str = ""
    ) -> Any:
        """Call the handler in the process and give what it returns. Raises `Failure` with what it raised."""
        self.is_clean = False
        await self._send(
            {
                "handler": _place_of(handler),
                "opener": None if opener is None else (opener.name, _place_of(opener.open), _place_of(opener.close)),
                "device": device,
                "task": msgspec.structs.replace(task, config=None, inputs={}, checkpoint=None),
                "values": pack([task.config, task.inputs, task.checkpoint]),
                "modules": functions.modules(),
                "allowed": functions.allowed(),
                "reloads": functions.loads_changes(),
                "main": getattr(sys.modules.get("__main__"), "__file__", None),
            }
        )
        while True:
            message = await self._receive()
            match message.get("op"):
                case "heartbeat":
                    duties.heartbeat()
                case "progress":
                    duties.heartbeat()
                    duties.progress(str(message.get("said", ""))[:LONGEST_PROGRESS])
                case "log":
                    duties.keep_line(int(message.get("level", 0)), str(message.get("text", "")))
                case "checkpoint":
                    await duties.checkpoint(await self._receive_bytes(message), self._step_of(message))
                    await self._send({"op": "saved"})
                case "blob":
                    await self._send_blob(str(message.get("ref", "")), duties.blob)
                case "part":
                    first, count = int(message.get("first", 0)), min(int(message.get("count", 0)), _LARGEST_PART)
                    await self._send_blob(str(message.get("ref", "")), partial(duties.part, first=first, count=count))
                case "asset":
                    await self._keep_asset(message, duties)
                case "completed":
                    value = await self._receive_bytes(message)
                    self.has_open = bool(message.get("has_open"))
                    self.is_clean = True
                    return _with_choice(message, value)
                case "failed":
                    self.has_open = bool(message.get("has_open"))
                    self.is_clean = True
                    raise _failure(message.get("error"))
                case _:
                    raise self._broken("it sent something that is not a message")

    def _step_of(self, message: dict[str, Any]) -> str:
        step = message.get("step", "")
        if step == "" or find_text_trouble(step, LONGEST_STEP) is None:
            return str(step)
        raise self._broken("it sent a step without a name that can be kept")

    async def _keep_asset(self, about: dict[str, Any], duties: Duties) -> None:
        """Take the content of an asset that the handler returned, piece by piece, and store it."""
        with tempfile.NamedTemporaryFile(prefix="perdure-") as file:
            size = 0
            while (message := await self._receive()).get("op") == "piece":
                piece = (await self._receive_bytes(message)).data
                size += len(piece)
                if size <= duties.most:  # the rest is read, and refused below
                    await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(file.flush)
            try:
                check_size(size, duties.most)
                asset = Asset(Path(file.name), str(about.get("media_type")), str(about.get("name")) or "asset")
                asset.name = str(about.get("name"))
                answer = {"stored": msgspec.to_builtins(await duties.asset(asset))}
            except ValueError as error:
                raise self._broken(f"it sent an asset that is none: {error}") from None
            except Failure as error:
                answer = {"error": describe(error)}
        await self._send({"op": "asset", **answer})

    async def _send_blob(self, ref: str, get: Callable[[str], Awaitable[bytes | bytearray]]) -> None:
        try:
            data = await get(ref)
        except Failure as error:
            await self._send({"op": "blob", "error": describe(error)})
            return
        await self._send({"op": "blob", "bytes": len(data)}, data)

    async def end(self) -> None:
        """Let the process close what handlers share in it, and end."""
        with contextlib.suppress(Failure):  # it is killed next
            await self._send({"op": "close"})
            await self._receive()

    def kill(self) -> None:
        """Kill the process and whatever it started, at once."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    async def reap(self) -> None:
        try:
            await asyncio.to_thread(self._popen.wait, REAP_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # stuck in the kernel: it counts as dead, and `Popen` collects it when the next one starts

    async def heard(self) -> None:
        """Wait until everything the process printed has been passed on."""
        await asyncio.wait(self._said)

    def close(self) -> None:
        for one in self._said:
            one.cancel()
        self._writer.transport.abort()

    async def _send(self, message: Any, data: bytes | bytearray = b"") -> None:
        body = msgspec.json.encode(message)
        try:
            self._writer.write(len(body).to_bytes(4, "big") + body)
            await self._writer.drain()
            for start in range(0, len(data), _CHUNK):  # in parts, or the writer would hold a copy of the whole
                self._writer.write(data[start : start + _CHUNK])
                await self._writer.drain()
        except OSError as error:
            raise await self._died() from error

    async def _receive_bytes(self, message: dict[str, Any]) -> Encoded:
        """Receive what follows a message: the JSON of a value."""
        length = message.get("bytes")
        if not isinstance(length, int) or not 0 < length <= MAX_BYTES:
            raise self._broken(f"it announced {length!r} bytes, at most {MAX_BYTES} are allowed")
        data, filled = bytearray(length), 0
        try:
            while filled < length:
                part = await self._reader.read(min(_CHUNK, length - filled))
                if not part:
                    raise await self._died()
                data[filled : filled + len(part)] = part
                filled += len(part)
        except OSError as error:
            raise await self._died() from error
        return Encoded(data)

    async def _receive(self) -> dict[str, Any]:
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            if length > MAX_FRAME:
                raise self._broken(f"it sent {length} bytes at once, {MAX_FRAME} are allowed")
            message = msgspec.json.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise await self._died() from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._broken("it sent something that is not JSON") from error
        if not isinstance(message, dict):
            raise self._broken("it sent something that is not a message")
        return message

    async def _died(self) -> Failure:
        self.is_clean = False
        # The socket may close a moment before the process ends: it gets half a second, then it is killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._popen.wait, 0.5)
        self.kill()
        await self.reap()
        code = self._popen.returncode
        if code is not None and code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        else:
            how = f"ended with exit code {code}"
        return Failure("process_died", f"the isolated process {how} before the handler returned")

    def _broken(self, what: str) -> Failure:
        self.is_clean = False
        return Failure("process_died", f"the isolated process broke its protocol: {what}; it was killed")


async def _pass_on(pipe: Any, name: str, clean: Callable[[str], str]) -> None:
    """Pass what a pipe says on to the stream of that name, in whole lines: half a secret would not be recognized."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        rest = ""
        while part := await reader.read(_CHUNK):
            whole, end, rest = (rest + decoder.decode(part)).rpartition("\n")
            if len(rest) > _LONGEST_LINE:
                whole, end, rest = whole + end + rest, "", ""
            _print(name, clean(whole + end))
        _print(name, clean(rest + decoder.decode(b"", True)))
    finally:
        transport.close()


def _print(name: str, text: str) -> None:
    stream = getattr(sys, name)
    if text and stream is not None:
        stream.write(clean_text(text) if stream.isatty() else text)
        stream.flush()


def _place_of(function: Callable[..., Any] | None) -> str:
    return "" if function is None else f"{function.__module__}:{function.__qualname__}"


def _with_choice(message: dict[str, Any], value: Encoded) -> Any:
    if message.get("renews"):
        return Renewed(value)
    if message.get("next_nodes") is None:
        return value
    return Chosen(value, message["next_nodes"], message.get("reasoning", ""))  # checked as a handler's own is


def _failure(fields: Any) -> Failure:
    if not isinstance(fields, dict) or not isinstance(fields.get("code"), str):
        return Failure("error", "the handler failed and could not say how")
    return Failure(
        fields["code"],
        str(fields.get("message", "")),
        retryable=bool(fields.get("retryable", True)),
        retry_after=fields.get("retry_after"),
        not_done=bool(fields.get("not_done", False)),
        details=fields.get("details"),
    )


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only error of a group that `wait_at_most` wrapped it in; the group if there are several."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group
