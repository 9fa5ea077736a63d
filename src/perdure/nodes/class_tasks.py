"""Classes as tasks: a class with `__call__` has one object in each process that executes it, made before the first attempt.

It owns what of a class is called when. It must not know how the object is kept.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from perdure.nodes.shared_values import Opener

Prepare = Callable[[Callable[..., Any]], Callable[..., Any]]


class ClassTask:
    """A class whose object is called. `prepare` makes of the object's `__call__` what is called with the arguments."""

    def __init__(self, owner: Any, prepare: Prepare | None = None) -> None:
        functools.update_wrapper(self, owner, updated=())
        self.owner: Callable[[], Any] = owner
        self.call: Callable[..., Any] = owner.__call__
        self._prepare = prepare
        self.opener = Opener(f"{owner.__module__}:{owner.__qualname__}", owner, self._make, self._begin, self._end)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.opener.name} is called by a worker, which keeps an object of it")

    def _make(self) -> Any:
        made = self.owner()
        call = made.__call__
        return made, call if self._prepare is None else self._prepare(call)

    def _begin(self, opened: Any) -> Any:
        return _call_if_there(opened[0], "open")

    def _end(self, opened: Any) -> Any:
        return _call_if_there(opened[0], "close")


def _call_if_there(made: object, name: str) -> Any:
    """What a method gives, which is to be awaited if it is async; None if the class has no such method."""
    method = getattr(made, name, None)
    return method() if callable(method) else None


def is_class_task(function: Any) -> bool:
    """Whether this is a class whose objects can be called; other classes are called themselves, as functions are."""
    return inspect.isclass(function) and any("__call__" in vars(base) for base in function.__mro__)


@functools.lru_cache(maxsize=1024)
def _of_class(owner: Any) -> ClassTask:
    return ClassTask(owner)


def find_class_task(function: Any) -> ClassTask | None:
    if isinstance(function, ClassTask):
        return function
    return _of_class(function) if is_class_task(function) else None
