"""`@perdure.workflow`: a function that is called once, to build a definition."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from perdure.model import Compiled, compile_definition
from perdure.model.garbage import no_collection
from perdure.nodes.task import explain_misfit
from perdure.plain import NotData, to_data
from perdure.sdk.annotations import allows_null, hints_of, lift_definitions, schema_of
from perdure.sdk.builder import Builder, Reads, find_current
from perdure.sdk.errors import BuildError
from perdure.sdk.handles import Handle, InputRoot, parts_of, root_of
from perdure.sdk.options import NODE_OPTIONS, NodeOptions, check_names, make_node
from perdure.sdk.tasks import Task

P = ParamSpec("P")
R = TypeVar("R")

RESULT = "result"
"""The output under which a workflow gives a value that is not an object of outputs."""


class WorkflowOptions(TypedDict, total=False):
    name: str
    description: str
    deadline_seconds: float
    max_hops: int
    max_fanout: int
    max_bytes: int
    budget: Mapping[str, Any]
    on_failure: Literal["compensate"] | Mapping[str, Any]
    endless: bool


_building = threading.RLock()
"""One lock for all workflows: building one builds those it starts, and several threads may ask for them."""
_LIMITS = ("max_hops", "max_fanout", "deadline_seconds", "max_bytes", "budget")


class Built:
    """The result of building a workflow function."""

    def __init__(self, definition: dict[str, Any], children: dict[str, Workflow[..., Any]], *, single: bool) -> None:
        self.definition = definition
        self.children = children
        self.single = single
        """The function returned one value, not an object of outputs."""


class Workflow(Generic[P, R]):
    """A workflow written in Python. `perdure.run` runs it; called inside another workflow it is a child run."""

    def __init__(self, function: Callable[P, R], options: WorkflowOptions) -> None:
        if isinstance(function, Task):
            raise BuildError(f"{function.name} is a task; perdure.run runs it as it is, and a workflow calls it")
        if not inspect.isfunction(function):
            raise BuildError(f"@perdure.workflow is for functions, got {type(function).__name__}")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BuildError(
                f"{function.__name__} is async; a workflow function only describes a graph: write def, and call async tasks "
                "without await"
            )
        check_names(options, WorkflowOptions.__annotations__, "@perdure.workflow")
        self.function = function
        self.name = options.get("name") or function.__name__
        self._options = options
        self._signature = _read_signature(function, self.name)
        self._built: Built | None = None
        self._is_building = False
        self._triggers: list[dict[str, Any]] = []
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.options()(*args, **kwargs)

    def options(self, **options: Unpack[NodeOptions]) -> Callable[P, R]:
        """The same workflow with options for one call inside another workflow: `report.options(id="weekly",
        after=load)(…)`."""
        check_names(options, NODE_OPTIONS, f"{self.name}.options")
        return cast("Callable[P, R]", functools.partial(self._make, options))

    def _make(self, options: NodeOptions, *args: Any, **kwargs: Any) -> Any:
        builder = find_current()
        if builder is None:
            raise BuildError(
                f"{self.name} is a workflow; run it with perdure.run({self.name}, …), or call it inside another workflow to make "
                "it a child run"
            )
        try:
            arguments = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise BuildError(
                f"{self.name}{self._signature}: {explain_misfit(self._signature, kwargs, error)}"
            ) from None
        built = self.build()
        known = builder.children.setdefault(self.name, self)
        if known is not self and known.build().definition != built.definition:
            raise BuildError(f"two different workflows are called {self.name}; give one of them another name=")
        reads = Reads()
        config: dict[str, Any] = {"workflow": self.name}
        if arguments:
            config["inputs"] = {
                name: builder.render(value, reads, place=f"argument {name!r} of {self.name}")
                for name, value in arguments.items()
            }
        handle = make_node(builder, self.name, {"type": "workflow", "config": config}, options, reads)
        if built.single and builder.capture is None:
            return Handle(builder, root_of(handle), (*parts_of(handle), RESULT))
        return handle

    # -- building ------------------------------------------------------------------------------------------------------

    def build(self) -> Built:
        with _building:
            if self._built is None:
                if self._is_building:
                    raise BuildError(f"{self.name} calls itself; a loop inside it is written with perdure.loop")
                self._is_building = True
                try:
                    self._built = self._build()
                finally:
                    self._is_building = False
            return self._built

    def _build(self) -> Built:
        builder = Builder(self.name)
        inputs = dict(_inputs(builder, self._signature, self.function, self.name))
        with builder.building(), no_collection():
            value = self.function(**{name: handle for name, (handle, _, _) in inputs.items()})
            outputs, single = _outputs(builder, value)
        definition: dict[str, Any] = {"name": self.name}
        description = self._options.get("description") or inspect.getdoc(self.function)
        if description:
            definition["description"] = description
        definition["inputs"] = _inputs_schema(inputs)
        limits = {name: self._options[name] for name in _LIMITS if name in self._options}  # type: ignore[literal-required]
        if limits:
            definition["limits"] = limits
        on_failure = self._options.get("on_failure")
        if on_failure is not None:
            definition["on_failure"] = {"compensate": True} if on_failure == "compensate" else on_failure
        if self._options.get("endless"):
            definition["endless"] = True
        definition["nodes"] = builder.definition()
        if edges := builder.edges():
            definition["edges"] = edges
        if outputs is not None:
            definition["outputs"] = outputs
        return Built(definition, builder.children, single=single)

    def definition(self) -> dict[str, Any]:
        """The definition as data, the same as a YAML file that a person would have written."""
        return cast("dict[str, Any]", msgspec.to_builtins(self._whole()))

    def _whole(self) -> dict[str, Any]:
        built = self.build().definition
        return {**built, "triggers": self._triggers} if self._triggers else built

    def add_trigger(self, data: dict[str, Any]) -> None:
        """Add a trigger that was declared for this workflow: it is one of its definition."""
        self._triggers.append(data)
        self.__dict__.pop("compiled", None)

    def to_yaml(self) -> str:
        import yaml

        return yaml.safe_dump(self.definition(), sort_keys=False, allow_unicode=True, width=120)

    @functools.cached_property
    def compiled(self) -> Compiled:
        return compile_definition(self._whole())

    def children(self) -> list[Workflow[..., Any]]:
        """The workflows that this one starts as child runs, and those that they start in turn, each once."""
        found: dict[str, Workflow[..., Any]] = {}
        open_ = [self.build()]
        while open_:
            for name, child in open_.pop().children.items():
                if name != self.name and name not in found:
                    found[name] = child
                    open_.append(child.build())
        return list(found.values())

    @property
    def signature(self) -> inspect.Signature:
        return self._signature

    def result_of(self, outputs: Any) -> Any:
        """What the function returned, from the outputs of a run."""
        if self.build().single and isinstance(outputs, dict):
            return outputs.get(RESULT)
        return outputs

    @functools.cached_property
    def returns(self) -> Any:
        return hints_of(self.function).get("return")

    def __repr__(self) -> str:
        return f"<perdure workflow {self.name}>"


def _read_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BuildError(
                f"parameter {parameter} of workflow {name} has no name; inputs are named, write each of them"
            )
    return signature


def _inputs(
    builder: Builder, signature: inspect.Signature, function: Callable[..., Any], workflow: str
) -> Iterator[tuple[str, tuple[Handle, dict[str, Any], bool]]]:
    """Each parameter with its handle, its schema, and whether it must be given."""
    hints = hints_of(function)
    for name, parameter in signature.parameters.items():
        schema = schema_of(hints[name]) if name in hints else None
        required = parameter.default is parameter.empty
        property_: dict[str, Any] = dict(schema or {})
        default = None
        if not required:
            default = plain(parameter.default, f"the default of {name!r} of {workflow}")
            if default is not None:
                property_["default"] = default
        root = InputRoot(name, has_default=not required, default=default, nullable=allows_null(schema))
        yield name, (Handle(builder, root), property_, required)


def plain(value: Any, what: str) -> Any:
    try:
        return to_data(value)
    except NotData as error:
        raise BuildError(f"{what} is of type {type(value).__qualname__}, which JSON cannot hold: {error}") from error


def _inputs_schema(inputs: Mapping[str, tuple[Handle, dict[str, Any], bool]]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    required = [name for name, (_, _, needed) in inputs.items() if needed]
    if required:
        schema["required"] = required
    if inputs:
        schema["properties"] = {name: property_ for name, (_, property_, _) in inputs.items()}
    schema["additionalProperties"] = False
    return lift_definitions(schema)


def _outputs(builder: Builder, value: Any) -> tuple[dict[str, Any] | None, bool]:
    """The outputs for a returned value, and whether it was a single value."""
    if value is None:
        return None, False
    reads = Reads()
    rendered = builder.render(value, reads, place="what the workflow returns")
    if isinstance(rendered, dict):
        return rendered, False
    return {RESULT: rendered}, True


@overload
def workflow(function: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(**options: Unpack[WorkflowOptions]) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(function: Any = None, /, **options: Unpack[WorkflowOptions]) -> Any:
    """Make a function a workflow: its parameters become the inputs, its return value becomes the outputs.

    The function is called once, with handles for its parameters; calls of tasks inside it make nodes, and nothing runs.
    """
    if function is None:
        return lambda function: Workflow(function, options)
    return Workflow(function, options)
