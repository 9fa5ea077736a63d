"""`@perdure.task`: a function that can be a node."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from perdure import functions
from perdure.chunks import Stream
from perdure.nodes.class_tasks import ClassTask, is_class_task
from perdure.nodes.task import Shape, explain_misfit
from perdure.runtime.worker.context import Context
from perdure.runtime.worker.local_context import LocalContext
from perdure.sdk.annotations import converter, hints_of, schema_of
from perdure.sdk.builder import Builder, Reads, find_current, whole_node
from perdure.sdk.errors import BuildError
from perdure.sdk.options import NODE_OPTIONS, TASK_OPTIONS, NodeOptions, TaskOptions, check_names, is_lenient, make_node
from perdure.sdk.stream_arguments import split_arguments

if TYPE_CHECKING:
    from perdure.model import Compiled

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
"""Covariant, so that a task whose call gives pyright's `CoroutineType` counts as one whose call gives a `Coroutine`."""
T = TypeVar("T")


class Task(Generic[P, R_co]):
    """A function that can be a node. Inside a workflow, a call makes a node and gives a handle; elsewhere it calls the
    function.

    For a type checker, a call gives what the function gives (an async function: what awaiting it gives), so that one
    task's result can be another's argument. `fn` is the function itself.
    """

    def __init__(self, function: Callable[..., R_co], name: str | None, options: TaskOptions) -> None:
        if isinstance(function, Task):
            raise BuildError(f"{function.name} is a task already; use task.options(…) to change it for one call")
        is_partial = isinstance(function, functools.partial)  # since Python 3.14 it looks like a method
        called: Any = ClassTask(function).call if is_class_task(function) else function
        if inspect.isclass(function) and called is function:
            raise BuildError(f"class {function.__name__} has no __call__, which a worker would call; write one")
        if is_partial or not inspect.isroutine(called):
            raise BuildError(
                f"@perdure.task is for functions and classes, got {type(function).__name__}; wrap it in one"
            )
        check_names(options, TASK_OPTIONS, "@perdure.task")
        self.fn: Callable[..., R_co] = function
        self.name: str = name or function.__name__
        self._about = _About(function, self.name, name)
        self._options: dict[str, Any] = dict(options)
        functools.update_wrapper(self, function, updated=() if inspect.isclass(function) else ("__dict__",))

    def options(self, **options: Unpack[NodeOptions]) -> Task[P, R_co]:
        """The same task with other options, for one call: `fetch.options(id="first", retry=perdure.Retry(…))(city)`."""
        check_names(options, NODE_OPTIONS, f"{self.name}.options")
        changed: Task[P, R_co] = object.__new__(Task)
        changed.__dict__.update(self.__dict__)
        changed._options = {**self._options, **options}
        return changed

    # For a type checker an async function gives what awaiting it gives.
    # What another function yields is what a parameter that reads a stream takes.
    @overload
    def __call__(self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def __call__(self: Task[P, AsyncIterator[T]], *args: P.args, **kwargs: P.kwargs) -> Stream[T]: ...
    @overload
    def __call__(self: Task[P, Iterator[T]], *args: P.args, **kwargs: P.kwargs) -> Stream[T]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = find_current()
        if builder is None:
            return self._about.call(args, kwargs)
        return self._make(builder, args, kwargs)

    def _make(self, builder: Builder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        about, reads = self._about, Reads()
        arguments = split_arguments(builder, self.name, about.hints, about.bind(args, kwargs), reads)
        lenient = is_lenient(self._options)
        config: dict[str, Any] = {"function": about.reference}
        if arguments:
            config["args"] = {
                name: builder.render(value, reads, lenient=lenient, place=f"argument {name!r} of {self.name}")
                for name, value in arguments.items()
            }
        options = self._options
        if "output_schema" not in options and about.output_schema is not None:
            options = {**options, "output_schema": about.output_schema}
        elif options.get("output_schema") is False:
            options = {**options, "output_schema": None}
        handle = make_node(builder, self.name, {"type": "task", "config": config}, options, reads)
        if about.shape.yields and (node := whole_node(handle)) is not None:
            node.yields = True
        return handle

    # Wherever a workflow is expected, a task stands for a workflow of a single node.

    def definition(self) -> dict[str, Any]:
        """The definition of the task as a workflow of one node."""
        from perdure.sdk.single import as_workflow

        return as_workflow(self).definition()

    @property
    def compiled(self) -> Compiled:
        from perdure.sdk.single import as_workflow

        return as_workflow(self).compiled

    def children(self) -> list[Any]:
        return []

    @property
    def __perdure_function__(self) -> Callable[..., Any]:
        return self._about.called

    @property
    def about(self) -> _About:
        return self._about

    def __repr__(self) -> str:
        return f"<perdure task {self._about.reference}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is not None:
            raise BuildError(f"{self.name} is a method; a task is a plain function, so that a worker can import it")
        return self


class _About:
    """Facts about the function, independent of the task's options."""

    def __init__(self, function: Callable[..., Any], name: str, registered: str | None) -> None:
        self.function = function
        self.name = name
        self.shape = Shape(function)
        if self.shape.signature is None:
            raise BuildError(f"the parameters of {name} cannot be known; wrap it in a function of your own")
        for parameter in self.shape.signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise BuildError(
                    f"parameter {parameter} of {name} cannot be given by name, as a definition does; write it without "
                    "/ and *"
                )
        kept = [p for p in self.shape.signature.parameters.values() if p.name != self.shape.context]
        # `ctx` may stand first although parameters without a default follow, so their order is not checked again.
        self.signature = self.shape.signature.replace(parameters=kept)
        self.called: Callable[..., Any]
        if is_class_task(function):
            self.called = ClassTask(function, converter)
            self._annotated = self.called.call
        else:
            self.called = _Late(function).called if getattr(function, "__annotations__", None) else function
            self._annotated = function
        self.reference = functions.define(function, self.called, registered)

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        return hints_of(self._annotated)

    @functools.cached_property
    def output_schema(self) -> dict[str, Any] | None:
        kind = self.hints.get("return")
        return None if kind is None or kind is type(None) else schema_of(kind)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self.shape.context in kwargs or any(isinstance(arg, Context) for arg in args):
            raise BuildError(f"{self.name} gets its context from the worker; leave it out of the call")
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BuildError(f"{self.name}{self.signature}: {explain_misfit(self.signature, kwargs, error)}") from None
        arguments = bound.arguments
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD and parameter.name in arguments:
                arguments = {**arguments, **arguments[parameter.name]}
                del arguments[parameter.name]
        return arguments

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function outside of a workflow, with a new context if it wants one and none was given."""
        if isinstance(self.called, ClassTask):
            raise BuildError(
                f"{self.name} is a class: outside of a workflow, make an object of {self.name}.fn and call that"
            )
        context = self.shape.context
        if context is None or context in kwargs or any(isinstance(arg, Context) for arg in args):
            return self.function(*args, **kwargs)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {explain_misfit(self.signature, kwargs, error)}") from None
        return self.function(**bound.arguments, **{context: LocalContext(self.name, is_async=self.shape.is_async)})


class _Late:
    """The function as a worker calls it. Annotations are read on the first call, when their names are defined."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(**arguments: Any) -> Any:
                return await self._converting(**arguments)

            self.called: Callable[..., Any] = call_async
        else:

            @functools.wraps(function)
            def call(**arguments: Any) -> Any:
                return self._converting(**arguments)

            self.called = call

    @functools.cached_property
    def _converting(self) -> Callable[..., Any]:
        return converter(self._function)


class _CalledWithCtx(Protocol[P, R_co]):
    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class _Called(Protocol[P, R_co]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class _Decorator(Protocol):
    @overload
    def __call__(self, function: type[_CalledWithCtx[P, R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: type[_Called[P, R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(function: type[_CalledWithCtx[P, R]], /) -> Task[P, R]: ...
@overload
def task(function: type[_Called[P, R]], /) -> Task[P, R]: ...
@overload
def task(function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(*, name: str | None = None, **options: Unpack[TaskOptions]) -> _Decorator: ...
def task(function: Any = None, /, *, name: str | None = None, **options: Unpack[TaskOptions]) -> Any:
    """Make a function usable as a node: `@perdure.task`, or `@perdure.task(retry=perdure.Retry(max_attempts=3),
    timeout=30)`.

    A class with `__call__` is a task too: each worker process makes one object before the first attempt, calls its `open`,
    calls the object for every attempt, several at a time where the worker has several slots, and calls its `close` at the end.

    With `name=`, definitions can also use it under that name. A parameter annotated `perdure.Context` (write it first)
    gets the context of the attempt.
    """
    if function is None:
        return lambda function: Task(function, name, options)
    return Task(function, name, options)
