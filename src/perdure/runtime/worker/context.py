"""`perdure.Context`: what a handler may ask of the worker that runs it.

It owns the user's view of one attempt: ids, keys, checkpoints, steps, heartbeat, cancellation, log. It must not know
transports or how the handler is run; a worker and an isolated process each have a subclass that does.

`checkpoint` and `step` work in both worlds: on the worker's loop they give something to await, in a thread they block
until the value is durable.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from perdure.kernel.segments import HasSegments, has_refs
from perdure.plain_text import cut, find_text_trouble
from perdure.runtime.worker.capture import describe
from perdure.runtime.worker.encoder import is_light
from perdure.runtime.worker.handler_inputs import copy_plain
from perdure.runtime.worker.outputs import check_output, check_step
from perdure.runtime.worker.sayings import LONGEST_STEP
from perdure.threads import aside
from perdure.transport import Task

_logger = logging.getLogger("perdure.task")


class Context:
    """One attempt, as its handler sees it."""

    __slots__ = ("_data", "_inputs", "_steps", "_task", "_used", "cancelled")
    __perdure_context__ = True
    _alone = False
    """Whether the process does nothing else, so that no other work waits while much is read."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._inputs: dict[str, Any] | None = None
        self._data, self._steps = _split(task.checkpoint)
        self._used: set[str] | None = None
        self.cancelled = False
        """Whether this attempt has been asked to stop. A handler that gives up for that reason should raise: one that
        returns has completed."""

    @property
    def run_id(self) -> str:
        return self._task.run_id

    @property
    def node(self) -> str:
        return self._task.node

    @property
    def tenant(self) -> str:
        return self._task.tenant

    @property
    def scope(self) -> tuple[int, ...]:
        """The iteration of each loop around this node."""
        return self._task.scope

    @property
    def item(self) -> int | None:
        """The index of the item, inside a map; None elsewhere."""
        return self._task.item

    @property
    def attempt(self) -> int:
        """The number of this attempt as people count it: one that was only held or handed back does not count."""
        return self._task.tries or self._task.attempt

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same over all attempts (rule 3)."""
        return self._task.idempotency_key

    @property
    def correlation_id(self) -> str:
        """The name the caller gave this work when it started the run; empty if none. Children have their parent's."""
        return self._task.correlation_id

    @property
    def timeout_seconds(self) -> float | None:
        """How long the node allows an attempt to take before the worker ends it; None if it sets no limit."""
        return self._task.timeout_seconds

    def key(self, name: str) -> str:
        """A further idempotency key, for a handler that makes several calls."""
        return f"{self._task.idempotency_key}/{name}"

    @property
    def inputs(self) -> dict[str, Any]:
        """The outputs that came along the taken edges, by node. It is a copy: changing it changes nothing else."""
        if self._inputs is None:
            try:
                self._inputs = copy_plain(self._task.inputs)
            except HasSegments:
                if self._on_loop():
                    raise RuntimeError(
                        "some inputs are so large that they are stored elsewhere: write `await ctx.load_inputs()`"
                    ) from None
                self._inputs = self._fetch_inputs()
        return self._inputs

    async def load_inputs(self) -> dict[str, Any]:
        """The same as `inputs`, for async node types that load inputs on demand."""
        return self.inputs

    async def prepare_inputs(self) -> None:
        """Load what is stored elsewhere, if anything is, so that `inputs` can be read on the loop."""
        if self._inputs is None and has_refs(self._task.inputs):
            await self.load_inputs()

    def _fetch_inputs(self) -> dict[str, Any]:
        """Load the inputs that are stored elsewhere. Called in a thread."""
        raise NotImplementedError

    @property
    def last_checkpoint(self) -> Any:
        """The checkpoint that this or an earlier attempt stored last; None at first."""
        return self._data

    @property
    def log(self) -> Log:
        """The log of the run: `ctx.log("…")`, `ctx.log.warning("…")`. Lines from `info` on are kept with the run, and
        all go where Python's logging sends them."""
        about = {"run_id": self.run_id, "node": self.node, "attempt": self._task.attempt, "tenant": self._task.tenant}
        return Log(_logger, about, self._keep_line)

    def _keep_line(self, level: int, text: str) -> None:
        """Keep a line with the run; outside of a worker there is no place to keep it."""

    def heartbeat(self) -> None:
        """Say that the handler is still alive, which starts `heartbeat_timeout_seconds` anew."""
        raise NotImplementedError

    def checkpoint(self, data: Any) -> Any:
        """Keep a value for the next attempt, replacing the last one. To be awaited on the loop; blocks in a thread."""
        if self._on_loop() and not is_light(data):
            return self._checkpoint_beside(data)
        checked = check_output(data, "checkpoint", alone=self._alone).value
        self._data = checked
        return self._save(checked)

    async def _checkpoint_beside(self, data: Any) -> None:
        self._data = (await aside(self._task.tenant, check_output, data, "checkpoint", alone=self._alone)).value
        await self._save(self._data)

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function, unless an earlier attempt already has, and give its result once that is durable.

        Names are unique within a handler and the same in every attempt: a result is found by the name of its step. To
        be awaited on the loop; blocks in a thread. The function may be sync or async (async only in an async handler).
        """
        given: object = name  # an annotation does not keep a caller from passing something else
        if not isinstance(given, str) or not given:
            raise TypeError(f"a step needs a name, got {name!r}: ctx.step('charge', charge, order)")
        if (trouble := find_text_trouble(name, LONGEST_STEP)) is not None:
            raise ValueError(f"a step cannot be named {cut(ascii(name), 100)}: {trouble}")
        name = str.__str__(name)  # of a subclass, what is stored would not be the text
        if not callable(function):
            raise TypeError(
                f"step {name!r} got a {type(function).__name__}, not a function: write ctx.step({name!r}, function, argument), "
                "without calling it"
            )
        check_step(name)
        if self._used is None:
            self._used = set()
        if name in self._used:
            raise ValueError(f"step {name!r} was used before in this attempt; give each step a name of its own")
        self._used.add(name)
        if self._on_loop():
            return self._step(name, function, args, kwargs)
        if name in self._steps:
            return msgspec.to_builtins(self._steps[name])
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(f"step {name!r} got an async function in a sync handler; make the handler async")
        return self._keep(name, value)[0]

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a blocking function off the loop, in the worker's bounded pool. For node types.

        A request to stop does not interrupt the function; look at `cancelled` afterwards.
        """
        raise NotImplementedError

    def watched(self, awaited: Awaitable[Any], function: str) -> Awaitable[Any]:
        """Watch the awaitable of an async function, lest it block the loop that other attempts need. For node types."""
        return awaited

    async def _step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if name in self._steps:
            return msgspec.to_builtins(self._steps[name])
        if inspect.iscoroutinefunction(function):
            value = await function(*args, **kwargs)
        else:
            value = await self.run_in_thread(function, *args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
        if is_light(value):
            kept, saved = self._keep(name, value)
        else:
            checked, kept = await aside(self._task.tenant, self._check_step, name, value)
            self._steps[name], saved = checked, self._save(checked, name)
        await saved
        if self.cancelled:  # asked to stop while the step ran in a thread: it is kept, the next one does not begin
            raise asyncio.CancelledError(f"stopped after step {name!r}")
        return kept

    def _keep(self, name: str, value: Any) -> tuple[Any, Awaitable[None]]:
        checked, kept = self._check_step(name, value)
        self._steps[name] = checked
        # Only this step is sent, so that what a handler with a thousand steps sends does not grow with their square.
        return kept, self._save(checked, name)

    def _check_step(self, name: str, value: Any) -> tuple[Any, Any]:
        """What a step gave as data, and a copy of it for the handler."""
        checked = check_output(value, f"step {name!r}", alone=self._alone).value
        return checked, msgspec.to_builtins(checked)

    def _save(self, checkpoint: Any, step: str = "") -> Any:
        """Send the result of a step, or the checkpoint if it has no name. Awaitable on the loop; blocks in a thread."""
        raise NotImplementedError

    def _on_loop(self) -> bool:
        raise NotImplementedError


class LocalContext(Context):
    """The context of a function called directly, outside of any run: steps and checkpoints work but are not kept."""

    __slots__ = ("_is_async",)

    def __init__(self, name: str, *, is_async: bool) -> None:
        super().__init__(Task(run_id="local", node=name, type="task", idempotency_key=f"local/{name}/do"))
        self._is_async = is_async

    def heartbeat(self) -> None:
        pass

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    def _save(self, checkpoint: Any, step: str = "") -> Any:
        return _done() if self._on_loop() else None

    def _on_loop(self) -> bool:
        return self._is_async


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


def _split(checkpoint: Any) -> tuple[Any, dict[str, Any]]:
    """Split what the journal keeps into checkpoint and steps, which share one place. What a worker in another language
    wrote is all checkpoint."""
    if checkpoint is None:
        return None, {}
    if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"}:
        return msgspec.to_builtins(checkpoint["data"]), dict(checkpoint["steps"])
    return msgspec.to_builtins(checkpoint), {}


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry `run_id`, `node`, `attempt` and `tenant` besides what the caller adds."""

    def __init__(self, logger: logging.Logger, extra: dict[str, Any], keep: Callable[[int, str], None]) -> None:
        super().__init__(logger, extra)
        self._keep = keep

    def __call__(self, msg: object, *args: object, **kwargs: Any) -> None:
        """`ctx.log("…")` is `ctx.log.info("…")`."""
        self.log(logging.INFO, msg, *args, **kwargs)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO:
            if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
                self._keep(level, describe(msg, args[0], kwargs.get("exc_info")))  # "%(name)s", as in logging
            else:
                self._keep(level, describe(msg, args, kwargs.get("exc_info")))
        super().log(level, msg, *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
