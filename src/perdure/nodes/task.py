"""Node type `task`: calls a Python function.

It owns how a function is found, what it is called with, and whether it runs on the loop or in a thread.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from perdure import functions
from perdure.assets import given_asset
from perdure.nodes.class_tasks import find_class_task
from perdure.nodes.registry import NodeType, Path
from perdure.outcomes import ContinueAsNew, Failure, Renewed
from perdure.spelling import find_close

_COLLECTING = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class Shape:
    """What a function takes, looked at once."""

    __slots__ = ("called", "context", "is_async", "names", "required", "signature", "yields")

    def __init__(self, function: functions.Function) -> None:
        called = self.called = find_class_task(function)
        call = function if called is None else called.call
        self.is_async = (
            inspect.iscoroutinefunction(call)
            or inspect.isasyncgenfunction(call)
            or (
                called is None
                and inspect.iscoroutinefunction(
                    getattr(function, "__call__", None)  # noqa: B004  an object with an async __call__
                )
            )
        )
        made = inspect.unwrap(call)  # of a task, its function
        self.yields = inspect.isasyncgenfunction(made) or inspect.isgeneratorfunction(made)
        self.signature: inspect.Signature | None
        try:
            self.signature = inspect.signature(call)
        except (TypeError, ValueError):  # some built-ins have no signature
            self.signature = None
        if self.signature is not None and called is not None:
            self.signature = self.signature.replace(
                parameters=list(self.signature.parameters.values())[1:]
            )  # no `self`
        self.context = _find_context(self.signature)
        parameters = self.signature.parameters.values() if self.signature is not None else ()
        self.required = {
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty and parameter.kind not in _COLLECTING
        }
        self.names: set[str] | None = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            self.names = None

    def find_mistake(self, arguments: dict[str, Any]) -> str | None:
        """What is wrong with these arguments. Two set comparisons if nothing is; otherwise `bind` finds the words."""
        if self.signature is None:
            return None
        given = arguments.keys()
        if given >= self.required and (self.names is None or given <= self.names):
            return None
        try:
            self.signature.bind(**arguments)
        except TypeError as error:
            return explain_misfit(self.signature, arguments, error)
        return None


def explain_misfit(signature: inspect.Signature, given: Iterable[str], error: TypeError) -> str:
    """What `bind` says of these named arguments, with the wrong name too: it names the argument that is missing for it."""
    said = str(error)
    parameters = signature.parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in _BY_NAME]
    wrong = next((name for name in given if name not in names), None)
    if wrong is None or "unexpected" in said or any(one.kind is one.VAR_KEYWORD for one in parameters):
        return said
    close = find_close(wrong, names)
    return f"unexpected keyword argument '{wrong}', {said}" + (f"; did you mean '{close}'?" if close else "")


def _find_context(signature: inspect.Signature | None) -> str | None:
    """The parameter that takes the context: annotated `perdure.Context`, or else called `ctx`."""
    if signature is None:
        return None
    for parameter in signature.parameters.values():
        annotation = parameter.annotation
        if getattr(annotation, "__perdure_context__", False):
            return parameter.name
        if isinstance(annotation, str) and annotation.strip("'\"") in {"perdure.Context", "Context"}:
            return parameter.name
    return "ctx" if "ctx" in signature.parameters else None


@functools.lru_cache(maxsize=4096)
def _shape(function: functions.Function) -> Shape:
    return Shape(function)


async def handle(config: Any, ctx: Any) -> Any:
    if not config:  # a join: it gives what it was given, by node
        await ctx.load_inputs()
        return ctx.inputs
    if not isinstance(config, dict):
        raise Failure("bad_config", "a task needs config {function: 'module:name'}", retryable=False)
    reference = config.get("function") or config.get("action")
    if not isinstance(reference, str):
        raise Failure("bad_config", "a task needs config.function: 'module:name', or config.action", retryable=False)
    try:
        function = functions.resolve(reference)
    except functions.FunctionNotFound as error:
        raise Failure(error.code, error.message, retryable=False) from error
    arguments = config.get("args") or {}
    if not isinstance(arguments, dict):
        raise Failure("bad_config", f"task {reference!r}: expected args to be an object", retryable=False)
    if ctx.streams:
        _check_ports(_shape(function), ctx.streams, reference)
        arguments = {**arguments, **ctx.streams}
    return await call_function(function, arguments, reference, ctx, ctx)


async def call_function(
    function: functions.Function, arguments: dict[str, Any], reference: str, ctx: Any, given: Any
) -> Any:
    """Call a function as a task does; `given` is what it gets where it takes a context. Raises Failure."""
    shape = _shape(function)
    if arguments and any(type(value) is dict for value in arguments.values()):
        arguments = {name: given_asset(value) for name, value in arguments.items()}
    if shape.context is not None:
        arguments = {**arguments, shape.context: given}
    mistake = shape.find_mistake(arguments)
    if mistake is not None:
        raise Failure("bad_arguments", f"task {reference!r}: {mistake}", retryable=False)
    called = shape.called
    try:
        if called is None:
            return await _call(shape, function, arguments, reference, ctx)
        async with ctx.using(called.opener) as (_, call):
            return await _call(shape, call, arguments, reference, ctx)
    except ContinueAsNew as wish:
        return Renewed(wish.inputs)


def _check_ports(shape: Shape, ports: Iterable[str], reference: str) -> None:
    """Refuse a stream edge that leads to no parameter of the function (rule 71)."""
    wrong = [port for port in ports if shape.names is not None and port not in shape.names]
    if wrong:
        message = (
            f"task {reference!r} has no parameter {wrong[0]!r}, to which an edge leads; name one that takes a stream"
        )
        raise Failure("no_such_port", message, retryable=False)


async def _call(shape: Shape, function: functions.Function, arguments: dict[str, Any], reference: str, ctx: Any) -> Any:
    if shape.yields:
        if shape.context is not None:
            await ctx.prepare_inputs()
        return await ctx.give(function(**arguments))
    if shape.is_async:
        if shape.context is not None:
            await ctx.prepare_inputs()
        return await ctx.watched(function(**arguments), reference)
    value = await ctx.run_in_thread(function, **arguments)
    return await value if inspect.isawaitable(value) else value


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if config and config.get("function") is None and config.get("action") is None:
        yield (), NO_FUNCTION
    for key in ("function", "action"):
        name = config.get(key)
        if isinstance(name, str) and "{{" not in name and (refusal := functions.find_refusal(name)) is not None:
            yield (key,), refusal


NO_FUNCTION = "a task needs config.function: 'module:name', or config.action"

TYPE = NodeType(
    name="task",
    description="Calls a Python function, or an object of a class, which the worker imports; without a config, gives its inputs.",
    config_schema={
        "type": "object",
        "properties": {
            "function": {"type": "string", "minLength": 1, "description": "module:name, or a registered name"},
            "action": {"type": "string", "minLength": 1, "description": "a registered name"},
            "args": {"type": ["object", "null"], "description": "keyword arguments"},
        },
        "additionalProperties": False,
    },
    output_schema={"description": "what the function returned; without a config, the outputs that led here by node"},
    capabilities=frozenset({"code", "effect", "network", "files"}),
    example={"type": "task", "config": {"function": "math:hypot", "args": {}}},
    unknown_hint="put what the function is called with under args",
    check=_check,
    handler=handle,
    inputs_on_demand=True,
)
