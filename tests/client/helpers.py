"""A server in a thread of its own, and the two clients behind one face, so that every test is a test of both."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from perdure import AsyncClient, Client
from perdure.access import issue_key
from perdure.api import create_app
from perdure.api.server import serve
from perdure.client.operations import AsyncPages
from perdure.engine import Engine

DEADLINE = 30.0

ONE = {"name": "one", "nodes": [{"id": "a", "type": "transform", "config": {"value": "{{ inputs.n }}"}}]}
TWO = {
    "name": "two",
    "inputs": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    "nodes": [
        {"id": "a", "type": "transform", "config": {"value": "{{ inputs.n }}"}},
        {"id": "b", "type": "transform", "dependencies": ["a"], "config": {"value": ["{{ a.output }}"]}},
    ],
}
SIGNALLED = {"name": "signalled", "nodes": [{"id": "wait", "type": "wait", "config": {"signal": "go"}}]}


class Background:
    """`with Background(folder) as server:` an engine on SQLite that works, behind uvicorn on a free port; `server.url`."""

    def __init__(self, folder: Any, *, port: int = 0, **more: Any) -> None:
        self.folder = folder
        self._more = more
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="perdure server")
        self._failed: BaseException | None = None
        self.url = ""
        self.port = port

    def __enter__(self) -> Background:
        self._thread.start()
        assert self._started.wait(DEADLINE)
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """On the loop of the server."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE)

    @property
    def archive(self) -> Any:
        return self.engine.archive

    def make_key(self, name: str, role: str) -> str:
        made = issue_key(self.archive, self.engine.clock, tenant="default", name=name, roles=(role,), by="test")
        text: str = self.do(made).text
        return text

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            self.engine = await Engine.open(f"sqlite:///{self.folder / 'perdure.db'}")
            try:
                await self.engine.hold()
                self.app = create_app(self.engine, **self._more)
                await serve(self.app, "127.0.0.1", self.port, self._ready, self._stop)
            finally:
                await self.engine.close(0.5)
        except BaseException as error:
            self._failed = error
            self._started.set()
            raise

    def _ready(self, port: int) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self._started.set()


class Face:
    """An `AsyncClient` that looks like a `Client`: what is awaited there is waited for here."""

    def __init__(self, inner: Any, runner: asyncio.Runner) -> None:
        self._inner = inner
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found if isinstance(found, str) else Face(found, self._runner)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._now(found(*args, **kwargs))

        return call

    def _now(self, result: Any) -> Any:
        if inspect.iscoroutine(result):
            return self._runner.run(result)
        if isinstance(result, AsyncPages):
            return FacePages(result, self._runner)
        return iterate(result, self._runner) if hasattr(result, "__aiter__") else result


class FacePages(Face):
    def __iter__(self) -> Iterator[Any]:
        return iterate(self._inner, self._runner)


def iterate(source: Any, runner: asyncio.Runner) -> Iterator[Any]:
    found: AsyncIterator[Any] = source.__aiter__()

    async def step() -> Any:
        return await anext(found, None)

    async def close() -> None:
        await found.aclose()  # type: ignore[attr-defined]

    try:
        while (one := runner.run(step())) is not None:
            yield one
    finally:
        runner.run(close())


def _coroutine(function: Callable[[float], Any]) -> Callable[[float], Coroutine[Any, Any, None]]:
    async def call(seconds: float) -> None:
        function(seconds)

    return call


class Clients:
    """Makes clients of one kind and closes them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._runner = asyncio.Runner()
        self._made: list[Any] = []

    def __call__(self, url: str | None = None, *, pause: Callable[[float], Any] | None = None, **options: Any) -> Any:
        """`pause` is called instead of pausing."""
        made: Any = (Client if self.kind == "Client" else AsyncClient)(url, **{"timeout": DEADLINE, **options})
        if pause is not None:
            made._sender.pause = pause if self.kind == "Client" else _coroutine(pause)
        made = made if self.kind == "Client" else Face(made, self._runner)
        self._made.append(made)
        return made

    def close(self) -> None:
        for client in self._made:
            client.close()
        self._runner.close()
