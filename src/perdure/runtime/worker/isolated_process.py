"""The other end of `isolation.py`: the process that a handler with `isolation: process` runs in.

It owns nothing that matters, since it may be killed at any moment. It serves one call at a time; when the socket ends,
the parent is dead or done, and this process exits at once, whatever it was doing.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import io
import logging
import os
import queue
import runpy
import socket
import sys
import threading
import types
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from perdure import functions
from perdure.assets import PIECE, Asset, NotStored, StoredAsset, find_unstored, reading
from perdure.clock import SystemClock
from perdure.kernel.segments import unpack
from perdure.model.money import Usage
from perdure.nodes.shared_values import Opener, SharedValues
from perdure.outcomes import Chosen, Failure, Renewed
from perdure.plain_text import LOOKED_AT
from perdure.runtime.failures import describe
from perdure.runtime.worker import capture
from perdure.runtime.worker.attempt_files import AttemptFiles
from perdure.runtime.worker.context import Context, running_loop
from perdure.runtime.worker.handler_inputs import load
from perdure.runtime.worker.outputs import encode_output
from perdure.runtime.worker.sayings import choice_of, inputs_of, plain
from perdure.runtime.worker.spooled_content import spooled
from perdure.transport import Task

_log = logging.getLogger(__name__)


class Channel:
    """The socket to the parent, and the thread that reads it."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        os.set_inheritable(descriptor, False)
        self._sending = threading.Lock()
        self._saving = threading.Lock()
        self._asking = threading.Lock()
        self.calls: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._saved: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stored: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._blobs: queue.SimpleQueue[bytes | dict[str, Any]] = queue.SimpleQueue()

    def start(self) -> None:
        threading.Thread(target=self._read, name="perdure-parent", daemon=True).start()

    def send(self, message: dict[str, Any], data: bytes | bytearray = b"") -> None:
        if data:
            message["bytes"] = len(data)
        body = msgspec.json.encode(message)
        with self._sending:
            self._socket.sendall(len(body).to_bytes(4, "big") + body)
            if data:
                self._socket.sendall(data)

    def save(self, checkpoint: Any, step: str) -> None:
        with self._saving:
            self.send({"op": "checkpoint", "step": step}, msgspec.json.encode(checkpoint))
            self._saved.get()

    def fetch(self, ref: str) -> bytes:
        """The content of a blob, fetched by the parent. Raises Failure."""
        with self._asking:
            self.send({"op": "blob", "ref": ref})
            answer = self._blobs.get()
        if isinstance(answer, bytes):
            return answer
        raise Failure(**answer)

    def fetch_part(self, ref: str, first: int, count: int) -> bytes:
        """Read `count` bytes of a blob from `first` on. Raises Failure."""
        with self._asking:
            self.send({"op": "part", "ref": ref, "first": first, "count": count})
            answer = self._blobs.get()
        if isinstance(answer, bytes):
            return answer
        raise Failure(**answer)

    def keep_asset(self, asset: Asset, data: bytes | Path) -> None:
        """Let the parent store an asset with this content. Raises Failure."""
        with self._asking, io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
            self.send({"op": "asset", "media_type": asset.media_type, "name": asset.name})
            while piece := file.read(PIECE):
                self.send({"op": "piece"}, piece)
            self.send({"op": "end"})
            answer = self._stored.get()
        if "error" in answer:
            raise Failure(**answer["error"])
        asset.stored = msgspec.convert(answer["stored"], StoredAsset)

    def _read(self) -> None:
        with self._socket.makefile("rb") as stream:
            while True:
                length = stream.read(4)
                body = stream.read(int.from_bytes(length, "big")) if len(length) == 4 else b""
                if not body:
                    os._exit(0)
                message = msgspec.json.decode(body)
                match message.get("op"):
                    case "saved":
                        self._saved.put(None)
                    case "asset":
                        self._stored.put(message)
                    case "blob" if "error" in message:
                        self._blobs.put(message["error"])
                    case "blob":
                        self._blobs.put(stream.read(message["bytes"]))
                    case _:
                        self.calls.put(message)


class ChildContext(Context):
    __slots__ = ("_channel", "_device", "_loop", "_shared_values", "files")
    _alone = True

    def __init__(self, task: Task, channel: Channel, shared: SharedValues, device: str) -> None:
        super().__init__(task)
        self._channel = channel
        self._shared_values = shared
        self._device = device
        self._loop = asyncio.get_running_loop()
        self.files = AttemptFiles(self._read_part, self._loop)

    async def _read_part(self, ref: str, first: int, count: int) -> bytes:
        return await self._loop.run_in_executor(None, self._channel.fetch_part, ref, first, count)

    def _get_folder(self) -> Path:
        return self.files.folder()

    async def _keep_assets(self, found: list[Asset]) -> None:
        for asset in found:
            async with spooled(asset, sys.maxsize) as (data, _):  # the parent knows how large one may be
                await self._loop.run_in_executor(None, self._channel.keep_asset, asset, data)

    def _keep_assets_in_thread(self, found: list[Asset]) -> None:
        asyncio.run_coroutine_threadsafe(self._keep_assets(found), self._loop).result()

    def _keep_line(self, level: int, text: str) -> None:
        self._channel.send({"op": "log", "level": level, "text": plain(text[:LOOKED_AT])})

    def heartbeat(self) -> None:
        self._channel.send({"op": "heartbeat"})

    def _tell_progress(self, said: str) -> None:
        self._channel.send({"op": "progress", "said": said})

    def _stop_for(self, asks: list[dict[str, Any]]) -> None:
        message = "a handler with `isolation: process` cannot ask yet; ask in a node before it"
        raise Failure("cannot_suspend", message, retryable=False)

    @property
    def device(self) -> str:
        return self._device

    def using(self, opener: Opener) -> AbstractAsyncContextManager[Any]:
        return self._shared_values.use(opener)

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await _in_thread(functools.partial(function, *args, **kwargs))

    async def load_inputs(self) -> dict[str, Any]:
        if self._inputs is None:
            self._inputs = await self._loop.run_in_executor(None, self._fetch_inputs)
        return self._inputs

    def _fetch_inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = load(self._task.inputs, self._channel.fetch)
        return inputs

    def _save(self, checkpoint: Any, step: str = "", usage: Usage | None = None) -> Any:
        if usage is not None:
            self._new_wish()  # what it used could not be counted: as for a step that is to begin by leave
        if self._on_loop():
            return self._loop.run_in_executor(None, functools.partial(self._channel.save, checkpoint, step))
        return self._channel.save(checkpoint, step)

    def _on_loop(self) -> bool:
        return running_loop() is self._loop


async def _in_thread(function: Callable[[], Any]) -> Any:
    def call() -> tuple[bool, Any]:  # StopIteration cannot pass through a future, so errors come as values
        try:
            return True, function()
        except BaseException as error:  # noqa: BLE001
            return False, error

    returned, value = await asyncio.to_thread(call)
    if returned:
        return value
    raise value


async def _execute(
    message: dict[str, Any], channel: Channel, shared: SharedValues
) -> tuple[dict[str, Any], bytes | bytearray]:
    context: ChildContext | None = None
    try:
        config, inputs, checkpoint = unpack(message["values"])
        loop = asyncio.get_running_loop()
        config = await loop.run_in_executor(None, load, config, channel.fetch)
        checkpoint = await loop.run_in_executor(None, load, checkpoint, channel.fetch)
        task = msgspec.convert(message["task"], Task)
        task = msgspec.structs.replace(task, config=config, inputs=inputs, checkpoint=checkpoint)
        _prepare(message, task)
        handler = _load(message["handler"])
        context = ChildContext(task, channel, shared, message["device"])
        with capture.heard(context._keep_line), reading(context.files):
            async with AsyncExitStack() as stack:
                if message["opener"] is not None:
                    name, opening, closing = message["opener"]
                    found = _load(opening)
                    opener = Opener(name, found, found, None, _load(closing) if closing else None)
                    context.shared = await stack.enter_async_context(shared.use(opener))
                if inspect.iscoroutinefunction(handler):
                    await context.prepare_inputs()
                    value = await handler(config, context)
                else:
                    value = await context.run_in_thread(handler, config, context)
        answer: dict[str, Any] = {"op": "completed", "has_open": shared.has_open}
        if isinstance(value, Chosen):
            next_nodes, reasoning = choice_of(value, knows_secrets=False)
            answer |= {"next_nodes": next_nodes, "reasoning": reasoning}
            value = value.output
        if isinstance(value, Renewed):
            answer["renews"] = True
            value = inputs_of(value, task)
        try:
            return answer, encode_output(value)
        except NotStored:
            found = find_unstored(lambda: encode_output(value))
            await context._keep_assets(found)
            return answer, encode_output(value)
    except BaseException as error:  # noqa: BLE001  any error is the handler's, and the parent is told
        return {"op": "failed", "error": describe(error, knows_secrets=False), "has_open": shared.has_open}, b""
    finally:
        if context is not None:
            await context.files.clear()


def _load(place: str) -> Any:
    module, _, path = place.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _prepare(message: dict[str, Any], task: Task) -> None:
    """Import the modules that registered functions in the parent, so that their names are known here too."""
    if (allowed := message.get("allowed")) is not None:
        functions.restrict(allowed)
    if message.get("reloads"):
        functions.watch(lambda files: None, load=True)
        functions.reload()
    modules = set(message.get("modules") or ())
    config = task.config if isinstance(task.config, dict) else {}
    if str(config.get("function", "")).startswith("__main__:"):
        modules.add("__main__")
    for name in sorted(modules):
        try:
            if name == "__main__":
                _load_main(message.get("main"))
            else:
                functions.load_module(name)
        except Exception:  # noqa: BLE001  if this call needs it, the lookup fails with better words
            _log.warning("importing %s in an isolated process failed", name, exc_info=True)


@functools.cache
def _load_main(path: str | None) -> None:
    """Run the parent's script under another name, as `multiprocessing` does, so that its main guard stays shut."""
    if path is not None:
        module = types.ModuleType("__perdure_main__")
        sys.modules["__main__"] = sys.modules["__perdure_main__"] = module
        with functions.loading(path):
            module.__dict__.update(runpy.run_path(path, run_name="__perdure_main__"))


def main(descriptor: int) -> None:
    channel = Channel(descriptor)
    channel.start()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # the parent passes on whole lines
    capture.begin()
    shared = SharedValues(SystemClock(), _in_thread)
    with asyncio.Runner() as runner:
        runner.get_loop()
        channel.send({"op": "ready"})
        while True:
            message = channel.calls.get()
            if message.get("op") == "close":
                runner.run(shared.close())
                channel.send({"op": "closed"})
                continue  # until the parent ends it
            channel.send(*runner.run(_execute(message, channel, shared)))
