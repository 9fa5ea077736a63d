"""The context of a function that is called directly, outside of any run. It keeps nothing."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.model import money
from perdure.runtime.worker.context import Context
from perdure.spending import Terms
from perdure.transport import Task


class LocalContext(Context):
    """The context of a function called directly, outside of any run: steps and checkpoints work but are not kept."""

    __slots__ = ("_is_async",)

    def __init__(self, name: str, *, is_async: bool) -> None:
        super().__init__(Task(run_id="local", node=name, type="task", idempotency_key=f"local/{name}/do"))
        self._is_async = is_async

    def heartbeat(self) -> None:
        pass

    def _new_wish(self) -> str:
        return "local"

    async def _say(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        pass

    def _say_in_thread(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        pass

    def _stop_for(self, asks: list[dict[str, Any]]) -> None:
        raise RuntimeError("a function that is called directly cannot ask: there is no run that waits for the answer")

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    def _save(self, checkpoint: Any, step: str = "", usage: money.Usage | None = None) -> Any:
        return _done() if self._on_loop() else None

    def _get_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="perdure-"))

    def _on_loop(self) -> bool:
        return self._is_async


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
