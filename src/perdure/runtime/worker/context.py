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
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from perdure.asks import (
    LARGEST_ASKS,
    MOST_ASKS,
    Ask,
    AskChanged,
    Signal,
    Sleep,
    Suspended,
    ask_data,
    content_of,
)
from perdure.assets import Asset, NotStored, find_unstored, given_asset
from perdure.chunks import On
from perdure.kernel.segments import HasSegments, has_refs
from perdure.model import money
from perdure.nodes.shared_values import Opener, opened
from perdure.outcomes import Failure, NotDone, StepAmbiguous
from perdure.plain_text import cut, find_text_trouble
from perdure.runtime.worker.context_values import payload, read_later, split, unpack
from perdure.runtime.worker.encoder import is_light
from perdure.runtime.worker.handler_inputs import copy_plain
from perdure.runtime.worker.outputs import check_output, check_step, encode_output
from perdure.runtime.worker.run_log import Log
from perdure.runtime.worker.sayings import LONGEST_STEP, progress_of
from perdure.spending import Refused, Short, Terms, read_terms
from perdure.threads import aside
from perdure.transport import Task

_logger = logging.getLogger("perdure.task")


class Context:
    """One attempt, as its handler sees it."""

    __slots__ = (
        *("_asks", "_call_ended", "_calls", "_data", "_flying", "_idle"),
        *("_inputs", "_short", "_steps", "_task", "_used"),
        *("answers", "cancelled", "memory", "terms"),
        "shared",
    )
    __perdure_context__ = True
    _alone = False
    """Whether the process does nothing else, so that no other work waits while much is read."""

    def __init__(self, task: Task) -> None:
        self._task, self.memory, self.terms = task, task.memory, task.terms  # for agents
        self.answers: Any = None  # where answers of models are found again
        self._inputs: dict[str, Any] | None = None
        self._data, self._steps = split(task.checkpoint)
        self._used: set[str] | None = None
        self._asks: list[dict[str, Any]] | None = None
        """What the handler has asked for: once there is something, the attempt is over (rule 77)."""
        self._short: Short | None = None
        """The step for which the budget had no room: the attempt is over, and is given back (rule 82)."""
        self._calls = 0
        """Steps on the loop that something is set aside for and that have not ended."""
        self._call_ended: asyncio.Future[None] | None = None
        self._flying = 0
        """Steps on the loop that have begun and not ended."""
        self._idle: asyncio.Future[None] | None = None
        self.shared: Any = None
        """What the `open` of the node type gave in this process; None if the type has none."""
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

    @property
    def device(self) -> str:
        """The device that `perdure worker --device` gave this process; empty if it gave none."""
        return ""

    @property
    def folder(self) -> Path:
        """A folder of this attempt, for files that become assets; it is removed when the attempt ends."""
        return self._get_folder()

    def _get_folder(self) -> Path:
        raise NotImplementedError

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
    def streams(self) -> Mapping[str, Any]:
        """The streams it reads, by parameter. For node types."""
        return {}

    async def give(self, made: Any) -> Any:
        """Take what a generator yields, and give what becomes of it: here, a list. For node types."""
        if inspect.isasyncgen(made):
            return [value async for value in made if not isinstance(value, On)]
        values: list[Any] = await self.run_in_thread(list, made)
        return [value for value in values if not isinstance(value, On)]

    @property
    def last_checkpoint(self) -> Any:
        """The checkpoint that this or an earlier attempt stored last; None at first."""
        return self._data

    @property
    def is_undoing(self) -> bool:
        """Whether this is an attempt of a compensator: no budget holds it up, and none counts it. For node types."""
        return self._task.undo

    def find_step(self, name: str) -> Any | None:
        """The result of a step that this or an earlier attempt has kept; None if there is none. For node types."""
        return msgspec.to_builtins(self._steps[name]) if name in self._steps else None

    def list_steps(self, prefix: str) -> list[str]:
        """The names of the steps that have been kept and begin so. For node types."""
        return [name for name in self._steps if name.startswith(prefix)]

    @property
    def asks(self) -> list[dict[str, Any]] | None:
        """What the handler has asked for, as it travels; None while it has asked for nothing. For workers."""
        return self._asks

    @property
    def short(self) -> Short | None:
        """The step for which the budget had no room; None if there is none. For workers."""
        return self._short

    @property
    def has_stopped(self) -> bool:
        """Whether the attempt is over, though its handler may not know: it has asked, or was refused. For workers."""
        return self._asks is not None or self._short is not None

    @property
    def metered(self) -> bool:
        """Whether there is a budget in money, so that no call of unknown price may be made."""
        return self._task.metered

    @property
    def routes(self) -> tuple[str, ...]:
        """The nodes that the handler may choose (`Chosen`), where its branch is `agent_driven`. For node types."""
        return self._task.routes

    @property
    def label(self) -> str:
        """How far what the config was made of is to be believed. For node types."""
        return self._task.label

    @property
    def log(self) -> Log:
        """The log of the run: `ctx.log("…")`, `ctx.log.warning("…")`. Lines from `info` on are kept with the run, and
        all go where Python's logging sends them."""
        about = {"run_id": self.run_id, "node": self.node, "attempt": self._task.attempt, "tenant": self._task.tenant}
        return Log(_logger, about, self._keep_line)

    def _keep_line(self, level: int, text: str) -> None:
        """Keep a line with the run; outside of a worker there is no place to keep it."""

    def progress(self, value: Any) -> None:
        """Show how far the handler is, while it runs: a text, a number, or an object such as `{"done": 3, "total": 10}`.

        The latest value is shown with the run wherever that is looked at, about twice a second, and is kept nowhere. It is a
        heartbeat too. A value that is no JSON or has more than 2,000 characters is not shown, and the log says so."""
        try:
            said = progress_of(value)
        except ValueError as problem:
            self.heartbeat()
            self.log.warning(str(problem))
        else:
            self._tell_progress(said)

    def _tell_progress(self, said: str) -> None:
        """Show it; outside of a worker nobody looks."""

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

        With `effect="at_most_once"` the step begins only once that is durable, and never again by itself: if its result
        is not known, a later attempt raises `StepAmbiguous` here, which a handler may catch, to ask a person, for
        example; otherwise the node is parked. `NotDone`, raised by the function, says that it did not happen.

        With `reserve=Usage(…)` the step begins only once the run's budget has set so much aside for it. It returns
        `Spent(value, Usage(…))`, which says what it used; otherwise all that was set aside counts as used. `limit`, a budget,
        is what the node may use; `model` is what the usage is counted under besides the node.

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
        self._use(name)
        terms, kwargs = read_terms(kwargs)
        if self._on_loop():
            return self._step(name, function, args, kwargs, terms)
        if self.has_stopped:
            raise Suspended
        if name in self._steps:
            return given_asset(msgspec.to_builtins(self._steps[name]))
        wish = self._begin_in_thread(name, terms) if terms.ask else ""
        inside = _in_step.set(self)
        try:
            value = function(*args, **kwargs)
        except NotDone:
            if terms.ask:
                self._say_in_thread(name, wish, terms, not_done=True)
            raise
        finally:
            _in_step.reset(inside)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(f"step {name!r} got an async function in a sync handler; make the handler async")
        usage, value = unpack(value)
        try:
            return self._keep(name, value, usage)[0]
        except NotStored:
            self._keep_assets_in_thread(find_unstored(lambda: encode_output(value)))
            return self._keep(name, value, usage)[0]

    def _wish(self, step: str) -> str:
        """The name of a wish to begin a step that may happen at most once. Raises StepAmbiguous."""
        if step in self._task.begun:
            raise StepAmbiguous(step)
        return self._new_wish()

    def _new_wish(self) -> str:
        message = "a step with effect='at_most_once' or reserve cannot begin in an isolated process yet; give the node `isolation: thread`"
        raise Failure("cannot_begin", message, retryable=False)

    async def _say(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        """Make the beginning of a step durable, or the word that it did not happen. Raises Refused if there is no room."""
        raise NotImplementedError

    def _say_in_thread(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        raise NotImplementedError

    async def _begin(self, step: str, terms: Terms) -> str:
        """Begin a step by leave of the journal, and give the wish by which it began. Without room, the calls of this attempt
        that are under way may make some; otherwise the attempt is over."""
        while True:
            wish = self._wish(step) if terms.once else self._new_wish()
            try:
                await self._say(step, wish, terms)
            except Refused:
                if self._calls and not self.has_stopped:
                    if self._call_ended is None or self._call_ended.done():
                        self._call_ended = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._call_ended)
                    continue
                self._short = self._short or Short(step, terms)
                raise Suspended(f"no room in the budget for {step}") from None
            self._calls += terms.reserve is not None
            return wish

    def _begin_in_thread(self, step: str, terms: Terms) -> str:
        wish = self._wish(step) if terms.once else self._new_wish()
        try:
            self._say_in_thread(step, wish, terms)
        except Refused:
            self._short = Short(step, terms)
            raise Suspended(f"no room in the budget for {step}") from None
        return wish

    def _use(self, name: str) -> None:
        if self._used is None:
            self._used = set()
        if name in self._used:
            raise ValueError(f"step {name!r} was used before in this attempt; give each step a name of its own")
        self._used.add(name)

    def ask(self, asks: Mapping[str, Ask], /) -> Any:
        """Ask for approvals, child runs, times or signals, all at once, and give their answers by name.

        Names are as those of steps. If something has no answer yet the attempt ends here, and no worker is kept waiting:
        `Suspended` is raised, which is not to be caught, and the handler is entered again when all answers are there. To
        be awaited on the loop.
        """
        named: object = asks
        if not isinstance(named, Mapping) or not named:
            raise TypeError("ctx.ask needs what is asked for, by name: ctx.ask({'ok': perdure.Approval(…)})")
        if _in_step.get() is self:
            raise RuntimeError("a step cannot ask: it would be done again after the answer; ask before or after it")
        given = check_output([ask_data(name, ask) for name, ask in asks.items()], "what is asked for").value
        for data in given:
            check_step(data["name"])
            self._use(data["name"])
            data["content"] = content_of(data)
        return self._ask(given) if self._on_loop() else self._answer(given)

    def sleep(self, name: str, seconds: float) -> Any:
        """Let time pass, any length of it, without keeping a worker: as `ask`."""
        return self._ask_one(name, Sleep(seconds), lambda answer: None)

    def signal(self, signal: str, *, name: str = "", timeout_seconds: float | None = None) -> Any:
        """Wait for a signal and give its payload: as `ask`, under the signal's name if no other is given. Raises
        TimeoutError if it does not come in time."""
        return self._ask_one(name or signal, Signal(signal, timeout_seconds), payload)

    def _ask_one(self, name: str, ask: Ask, read: Callable[[Any], Any]) -> Any:
        answers = self.ask({name: ask})
        return read_later(answers, name, read) if inspect.isawaitable(answers) else read(answers[name])

    async def _ask(self, given: list[dict[str, Any]]) -> dict[str, Any]:
        try:
            return self._answer(given)
        except Suspended:
            await self._land()
            raise

    def _answer(self, given: list[dict[str, Any]]) -> dict[str, Any]:
        """The answers. Raises Suspended if one is missing, or the handler asked for something before."""
        if self.has_stopped:
            raise Suspended
        asked, names = self._task.asked, [data["name"] for data in given]
        for data in given:
            name = data["name"]
            if name in self._steps and name not in asked:
                raise ValueError(f"{name!r} is a step of this handler; ask under another name")
            if name in self._steps and asked[name] not in ("", data["content"]):
                raise AskChanged(name)
        missing = [data for data in given if data["name"] not in self._steps]
        if not missing:
            return {name: msgspec.to_builtins(self._steps[name]) for name in names}
        self._stop_for(missing[:MOST_ASKS])
        raise Suspended(f"waits for {', '.join(data['name'] for data in missing)}")

    def _stop_for(self, asks: list[dict[str, Any]]) -> None:
        """End the attempt: from here on no step begins."""
        size = len(msgspec.json.encode(asks))
        if size > LARGEST_ASKS:
            message = (
                f"what is asked for takes {size:,} bytes, and {LARGEST_ASKS:,} are allowed; store it and show where"
            )
            raise Failure("bad_ask", message, retryable=False)
        self._asks = asks

    async def _land(self) -> None:
        """Wait for the steps that have begun: they are kept, and none of them is cancelled by the end of the handler."""
        while self._flying:
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def using(self, opener: Opener) -> AbstractAsyncContextManager[Any]:
        """What all attempts of this process share, opened if it is not yet; outside of a worker, for this call alone. For
        node types."""
        return opened(opener, self.run_in_thread)

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a blocking function off the loop, in the worker's bounded pool. For node types.

        A request to stop does not interrupt the function; look at `cancelled` afterwards.
        """
        raise NotImplementedError

    def reveal_secret(self, name: str) -> str:
        """The value of a secret that the operator, and not the workflow, has named. For node types. Raises LookupError."""
        raise Failure(
            "cannot_reveal", f"{self.node} needs a secret of the worker; give it `isolation: thread`", retryable=False
        )

    async def get_blob(self, ref: str) -> bytes | bytearray:
        """The content of a blob of the tenant. For node types. Raises Failure."""
        raise Failure(
            "no_blob_store",
            f"{self.node} needs blob {cut(ascii(ref), 100)}; give it `isolation: thread`",
            retryable=False,
        )

    @property
    def was_sealed(self) -> bool:
        """Whether something in the config was sealed, and has been opened for the handler. For node types."""
        return self._task.sealed

    @property
    def is_sealing(self) -> bool:
        """Whether steps and checkpoints of this node are sealed, because it has sensitive fields. For node types."""
        return bool(self._task.sensitive)

    def watched(self, awaited: Awaitable[Any], function: str) -> Awaitable[Any]:
        """Watch the awaitable of an async function, lest it block the loop that other attempts need. For node types."""
        return awaited

    async def _step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], terms: Terms
    ) -> Any:
        if self.has_stopped:
            await self._land()
            raise Suspended
        if name in self._steps:
            return given_asset(msgspec.to_builtins(self._steps[name]))
        self._flying += 1
        stopped = False
        try:
            if not terms.ask:
                return await self._do_step(name, function, args, kwargs)
            return await self._ask_and_do(name, function, args, kwargs, terms)
        except Suspended:
            stopped = True
            raise
        finally:
            self._flying -= 1
            if not self._flying and self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            if stopped:
                await self._land()

    async def _ask_and_do(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], terms: Terms
    ) -> Any:
        wish = await self._begin(name, terms)
        try:
            return await self._do_step(name, function, args, kwargs)
        except NotDone:
            await self._say(name, wish, terms, not_done=True)
            raise
        finally:
            if terms.reserve is not None:
                self._calls -= 1
                if self._call_ended is not None and not self._call_ended.done():
                    self._call_ended.set_result(None)

    async def _keep_assets(self, found: list[Asset]) -> None:
        """Store what a step returned, so that its result can name it. Outside of a run nothing is stored."""
        raise NotStored

    def _keep_assets_in_thread(self, found: list[Asset]) -> None:
        raise NotStored

    async def _do_step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        inside = _in_step.set(self)
        try:
            if inspect.iscoroutinefunction(function):
                value = await function(*args, **kwargs)
            else:
                value = await self.run_in_thread(function, *args, **kwargs)
                if inspect.isawaitable(value):
                    value = await value
        finally:
            _in_step.reset(inside)
        usage, value = unpack(value)
        try:
            kept, saved = await self._check_and_keep(name, value, usage)
        except NotStored:
            await self._keep_assets(await aside(self._task.tenant, find_unstored, lambda: encode_output(value)))
            kept, saved = await self._check_and_keep(name, value, usage)
        await saved
        if self.cancelled:  # asked to stop while the step ran in a thread: it is kept, the next one does not begin
            raise asyncio.CancelledError(f"stopped after step {name!r}")
        return kept

    async def _check_and_keep(self, name: str, value: Any, usage: money.Usage | None) -> tuple[Any, Awaitable[None]]:
        if is_light(value):
            return self._keep(name, value, usage)
        checked, kept = await aside(self._task.tenant, self._check_step, name, value)
        self._steps[name] = checked
        return kept, self._save(checked, name, usage)

    def _keep(self, name: str, value: Any, usage: money.Usage | None = None) -> tuple[Any, Awaitable[None]]:
        checked, kept = self._check_step(name, value)
        self._steps[name] = checked
        # Only this step is sent, so that what a handler with a thousand steps sends does not grow with their square.
        return kept, self._save(checked, name, usage)

    def _check_step(self, name: str, value: Any) -> tuple[Any, Any]:
        """What a step gave as data, and a copy of it for the handler."""
        checked = check_output(value, f"step {name!r}", alone=self._alone).value
        return checked, given_asset(msgspec.to_builtins(checked))

    def _save(self, checkpoint: Any, step: str = "", usage: money.Usage | None = None) -> Any:
        """Send the result of a step, or the checkpoint if it has no name. Awaitable on the loop; blocks in a thread."""
        raise NotImplementedError

    def _on_loop(self) -> bool:
        raise NotImplementedError


_in_step: ContextVar[Context | None] = ContextVar("perdure_in_step", default=None)
"""The context whose step is being done."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
