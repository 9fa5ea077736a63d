"""The adapters the suite runs against, each as two attempts have it: one that yields, and one that reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from perdure.streams import Streams
from perdure.transports.local_streams import LocalStreams


class Store(NamedTuple):
    streams: Streams
    forget: Callable[[], object]
    """Lose everything."""


@asynccontextmanager
async def local() -> AsyncIterator[Store]:
    streams = LocalStreams()
    yield Store(streams, lambda: streams._runs.clear())
    assert streams._waiting == {}, "somebody waits who is not there any more"


ADAPTERS: dict[str, Callable[[], AbstractAsyncContextManager[Store]]] = {"local": local}
