"""The handlers of a user's world: stubs play every type that needs a worker, or on request its real handler does."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.model.ir import IR, Node
from perdure.model.money import Usage
from perdure.nodes import builtin, installed
from perdure.nodes.registry import NodeType, Registry
from perdure.outcomes import Abort, Chosen, Failure
from perdure.runtime.worker.context import Context
from perdure.simulation.history_checks import Failed
from perdure.simulation.stage import stubs as s
from perdure.simulation.stage.samples import sample
from perdure.spending import Terms

if TYPE_CHECKING:
    from perdure.simulation.stage.user_stage import UserStage

REAL = builtin()
INSTALLED = installed()


class Player:
    def __init__(self, world: UserStage, stubs: Mapping[str, Any], real: bool | frozenset[str]) -> None:
        self._world = world
        self._stubs = stubs
        self._real = real

    def registry(self, workflows: Iterable[IR]) -> Registry:
        """The node types: built-in ones that need no worker as they are; every other one in the workflows is played."""
        registry = Registry()
        for node_type in REAL:
            if node_type.handler is None:
                registry.add(node_type)
            elif node_type.answer is not None:  # the part of it that takes a worker is played too
                registry.add(msgspec.structs.replace(node_type, handler=self.handle, close=None))
        names = {name for ir in workflows for node in ir.nodes if node is not None for name in _types(node)}
        for name in sorted(names | {"task", s.STUBBED}):
            if registry.find(name) is None:
                registry.add(NodeType(name=name, description="Played by a stub.", handler=self.handle))
        return registry

    async def handle(self, config: Any, ctx: Any) -> Any:
        world, task = self._world, ctx._task
        world.checks.executed(ctx)
        call = s.Call(
            node=task.node,
            config=config,
            inputs=ctx.inputs,
            attempt=task.attempt,
            iteration=task.scope[-1] if task.scope else None,
            item=task.item,
            key=task.idempotency_key,
            run_id=task.run_id,
            undo=task.undo,
        )
        world.calls.append(call)
        node = world.node_of(task.run_id, task.node)
        name = f"{task.node}{s.COMPENSATOR}" if task.undo else task.node
        found = s.find(self._stubs, world.workflow_of(task.run_id), name)
        try:
            if found is not None:
                return await self._play(found[0], call)
            if self._real is True or (self._real and task.node in self._real):
                return await self._call_real(task.type, config, ctx)
            if world.lenient:
                return self._default(node, call)
        except AssertionError as error:  # of a test, in its stub: the test must see it
            world.blamed.append(error)
            world.fail(Failed("assert", str(error)))
            raise
        message = f"node {name!r} (type {task.type!r}) was reached and has no stub; give stubs={{{name!r}: …}}"
        world.fail(Failed("stub", f"{message}, or real=True to call its handler"))
        raise Abort(message)

    async def _play(self, stub: Any, call: s.Call) -> Any:
        match stub:
            case s.Stub():
                await self._sleep(stub.delay)
                if call.attempt <= stub.fails:
                    raise _error(stub.error)
                return await self._play(stub.then, call)
            case s.OneOf():
                choice = Random(f"{self._world.plan.seed} {call.key} {call.attempt}").randrange(len(stub.stubs))
                return await self._play(stub.stubs[choice], call)
            case Chosen():
                return stub
            case BaseException():
                raise _error(stub)
            case _ if callable(stub):
                value = stub(call)
                if inspect.isawaitable(value):
                    value = await self._counted(value)
                return await self._play(value, call) if isinstance(value, s.Stub | s.OneOf) else value
        return copy.deepcopy(stub)

    async def _sleep(self, seconds: float) -> None:
        world = self._world
        if seconds <= 0:
            return
        if math.isinf(seconds):
            await world.loop.create_future()
        world.slept_until = max(world.slept_until, world.loop.time() + seconds)
        await asyncio.sleep(seconds)

    def _default(self, node: Node, call: s.Call) -> Any:
        """A success, with an output that fits the node's schema if it has one."""
        random = Random(f"{self._world.plan.seed} {call.key}")
        output = {} if node.output_schema is None else sample(node.output_schema)
        available = self._world.available(call.run_id, call.node) if call.item is None and not call.undo else None
        if available is None:
            return output
        return Chosen(output, tuple(name for name in available if random.random() < 0.5), "chosen by the seed")

    async def _call_real(self, name: str, config: Any, ctx: Any) -> Any:
        found = REAL.find(name) or INSTALLED.find(name)
        if found is None or found.handler is None:
            raise Failure("unknown_type", f"node type {name!r} has no handler here; stub it", retryable=False)
        inline = _Inline(ctx)
        try:
            if inspect.iscoroutinefunction(found.handler):
                return await self._counted(found.handler(config, inline))
            return await self._counted(inline.run_in_thread(found.handler, config, inline))
        finally:
            ctx._asks, ctx._short = inline.asks, inline.short

    async def _counted(self, work: Awaitable[Any]) -> Any:
        self._world.calling += 1
        try:
            return await work
        finally:
            self._world.calling -= 1


class _Inline(Context):
    """The context of a real handler. There are no threads in virtual time: a blocking function is called on the spot."""

    __slots__ = ("_calling", "_ctx")

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self._calling = False
        super().__init__(ctx._task)

    def heartbeat(self) -> None:
        self.cancelled = self._ctx.cancelled
        self._ctx.heartbeat()

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._calling = True
        try:
            return function(*args, **kwargs)
        finally:
            self._calling = False

    @property
    def streams(self) -> Mapping[str, Any]:
        streams: Mapping[str, Any] = self._ctx.streams
        return streams

    async def give(self, made: Any) -> Any:
        return await self._ctx.give(made)

    def _new_wish(self) -> str:
        wish: str = self._ctx._new_wish()
        return wish

    async def _say(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        await self._ctx._say(step, wish, terms, not_done=not_done)

    def _say_in_thread(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        raise NotImplementedError("there are no threads in virtual time: make the handler async")

    def _save(self, checkpoint: Any, step: str = "", usage: Usage | None = None) -> Any:
        saved = self._ctx._save(checkpoint, step, usage)
        return None if self._calling else saved  # delivered soon; this call could not wait for it

    def _on_loop(self) -> bool:
        return not self._calling


def _types(node: Node) -> set[str]:
    inner = _types(node.item) if node.item is not None else set()
    return {node.type} | inner | ({node.compensator.type} if node.compensator is not None else set())


def _error(error: BaseException | str) -> BaseException:
    if isinstance(error, str):
        return Failure(error, "by its stub")
    return error.with_traceback(None)
