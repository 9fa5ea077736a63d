"""Python functions by name: `module:name`, or the name they were registered under.

It owns the table of registered functions and importing the others. It must not know nodes, contexts or workers.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from weft.errors import NotFound

Function = Callable[..., Any]

_lock = threading.Lock()
_registered: dict[str, Function] = {}
_resolved: dict[str, Function] = {}


class FunctionNotFound(NotFound):
    code = "function_not_found"


def register(name: str, function: Function) -> None:
    """The same function may come again, as it does when a module is imported under two names or reloaded."""
    with _lock:
        known = _registered.get(name)
        if known is not None and _origin(known) != _origin(function):
            raise ValueError(
                f"function name {name!r} is taken by {_origin(known)}; give {_origin(function)} a name of its own"
            )
        _registered[name] = function
        _resolved.pop(name, None)


def names() -> tuple[str, ...]:
    with _lock:
        return tuple(sorted(_registered))


def modules() -> tuple[str, ...]:
    """Where the registered functions stand: what another process has to import to know the same names."""
    with _lock:
        return tuple(sorted({function.__module__ for function in _registered.values()}))


def resolve(reference: str) -> Function:
    """The function a definition names. Found once, then remembered; what was not found is looked for again."""
    function = _resolved.get(reference)
    if function is None:
        function = _registered.get(reference) or _import(reference)
        _resolved[reference] = function
    return function


def _import(reference: str) -> Function:
    module_name, colon, path = reference.partition(":")
    if not colon or not module_name or not path:
        known = ", ".join(names()[:10]) or "none"
        raise FunctionNotFound(
            f"function {reference!r} is not registered; name it as 'module:name', or register it with @weft.task in a "
            f"module this worker imports (registered: {known})"
        )
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise FunctionNotFound(
            f"function {reference!r}: importing module {module_name!r} failed with {type(error).__name__}: {error}; "
            f"is it installed where the worker runs, or on its path ({len(sys.path)} entries, the first is "
            f"{sys.path[0] if sys.path else ''!r})?"
        ) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise FunctionNotFound(
                f"function {reference!r}: module {module_name!r} has no {path!r}; check the name, or export it there"
            ) from None
    if not callable(found):
        raise FunctionNotFound(f"function {reference!r} is a {type(found).__name__}; expected something callable")
    return _unwrap(found)


def _unwrap(found: Any) -> Function:
    """A decorated task builds graphs when called; the function to execute stands behind it."""
    function = getattr(found, "__weft_function__", found)
    return function if callable(function) else found  # type: ignore[no-any-return]


def _origin(function: Function) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"
