"""A task as a workflow of one node: for programs that are steps in a function and need no graph."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from perdure.sdk.tasks import Task
from perdure.sdk.workflows import Workflow


def as_workflow(task: Task[..., Any]) -> Workflow[..., Any]:
    """A workflow of this one task. Its inputs are the parameters of the task, except those whose default is not JSON:
    they keep their default."""
    parameters = [
        parameter
        for parameter in task.about.signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD and _is_plain(parameter.default)
    ]

    def call(**inputs: Any) -> Any:
        return task(**inputs)

    call.__name__ = call.__qualname__ = task.name
    call.__module__, call.__doc__ = task.fn.__module__, task.fn.__doc__
    call.__signature__ = task.about.signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = dict(task.about.hints)
    return Workflow(call, {})


def _is_plain(default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return True
    try:
        msgspec.to_builtins(default, str_keys=True)
    except (TypeError, ValueError):
        return False
    return True
