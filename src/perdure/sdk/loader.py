"""Loading workflows from Python: `FILE.py`, `FILE.py:name`, or `module:name`, found from the working directory on."""

from __future__ import annotations

import re
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from perdure import functions
from perdure.errors import PerdureError
from perdure.model import Compiled, Problem
from perdure.sdk.declared_triggers import Declared, declared_in
from perdure.sdk.single import as_workflow
from perdure.sdk.tasks import Task
from perdure.sdk.workflows import Workflow
from perdure.spelling import suggest

_REFERENCE = re.compile(r"(?P<file>.*\.py)(?::(?P<name>[^:/\\]*))?\Z", re.DOTALL)
_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


class LoadError(PerdureError):
    """A file that gives no workflow: it cannot be imported, has none, or has several."""

    code = "load_error"
    status = 422


class Loaded:
    """A workflow from a file, built and compiled together with those it starts; its problems are in `compiled`."""

    def __init__(self, text: str, compiled: Compiled, children: tuple[Compiled, ...]) -> None:
        self.text = text
        self.compiled = compiled
        self.children = children


def is_python(file: str) -> bool:
    return _REFERENCE.match(file) is not None or (_MODULE.fullmatch(file) is not None and not Path(file).exists())


def load(file: str) -> Loaded:
    """Import a file and build its workflow. Raises LoadError; problems of the workflow itself are in the result."""
    found = _REFERENCE.match(file)
    if found is not None:
        path = Path(found["file"])
        module, where = _import(path), found["file"]
    else:
        found = _MODULE.fullmatch(file)
        if found is None:
            raise LoadError(f"{file} is no Python file; write FILE.py, FILE.py:workflow or module:workflow")
        module, where = _import_module(found["module"]), found["module"]
        path = Path(module.__file__ or where)
    workflow = _choose(module, found["name"] or "", where)
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        compiled = workflow.compiled
        children = tuple(child.compiled for child in workflow.children())
    except Exception as error:  # noqa: BLE001  the user's function runs while it is built, and may raise anything
        return Loaded(text, Compiled(None, (_problem(error, path),), None), ())
    wrong = [problem for child in children if child.ir is None for problem in child.problems]
    if wrong:
        compiled = Compiled(None, (*compiled.problems, *wrong), None)
    return Loaded(text, compiled, children)


def _import(path: Path) -> types.ModuleType:
    try:
        return functions.load_file(path)
    except FileNotFoundError as error:
        if error.filename is None:
            raise LoadError(str(error)) from error
        raise LoadError(_explain(path, error)) from error
    except Exception as error:
        raise LoadError(_explain(path, error)) from error


def _import_module(name: str) -> types.ModuleType:
    """Import a module from the working directory or as installed, the way servers of web applications do."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return functions.load_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise LoadError(f"cannot import {name}: {error}") from error
        raise LoadError(
            f"there is no module {name}: it was looked for in {here}, and among what is installed; a file is written FILE.py"
        ) from error
    except Exception as error:
        what = error.message if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
        raise LoadError(f"cannot import {name}: {what}") from error


def _explain(path: Path, error: BaseException) -> str:
    line, _ = _place_in(path, error)
    what = error.message if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
    return f"cannot import {path}{f', line {line}' if line else ''}: {what}"


def _choose(module: types.ModuleType, name: str, file: str) -> Workflow[..., Any]:
    known = {key: value for key, value in vars(module).items() if isinstance(value, Workflow | Task)}
    if name:
        if name not in known:
            raise LoadError(f"{file} has no workflow or task {name}; {suggest(name, known)}")
        return _as_workflow(known[name], module)
    own = {key: value for key, value in known.items() if _module_of(value) == module.__name__}
    workflows = {key: value for key, value in own.items() if isinstance(value, Workflow)}
    candidates = workflows or own
    if len(candidates) == 1:
        return _as_workflow(next(iter(candidates.values())), module)
    if not candidates:
        raise LoadError(
            f"{file} has no workflow; decorate a function with @perdure.workflow, or a single one with @perdure.task"
        )
    what = "workflows" if workflows else "tasks"
    raise LoadError(
        f"{file} has {len(candidates)} {what}: {_list(candidates)}; name one, such as {file}:{next(iter(candidates))}"
    )


def _list(known: dict[str, Any]) -> str:
    return ", ".join(known) if known else "none"


def _module_of(value: Workflow[..., Any] | Task[..., Any]) -> str:
    return value.function.__module__ if isinstance(value, Workflow) else value.fn.__module__


def _as_workflow(value: Workflow[..., Any] | Task[..., Any], module: types.ModuleType) -> Workflow[..., Any]:
    if isinstance(value, Workflow):
        return value
    workflow = as_workflow(value)
    for declared in declared_in(module):
        if declared.target is not None and declared.workflow == workflow.name:
            workflow.add_trigger(declared.data)
    return workflow


def load_triggers(file: str) -> list[Declared]:
    """Import a file or a module, and list the triggers that it declares. Raises LoadError."""
    found = _REFERENCE.match(file)
    module = _import(Path(found["file"])) if found is not None else _import_module(file.partition(":")[0])
    wanted = (found["name"] or "") if found is not None else file.partition(":")[2]
    declared = declared_in(module)
    chosen = [one for one in declared if wanted in ("", one.workflow)]
    if not chosen:
        todo = "declare one with perdure.schedule(…), perdure.on_webhook(…) or perdure.on_event(…)"
        raise LoadError(f"{file} declares no trigger; {todo}")
    return chosen


def _problem(error: Exception, path: Path) -> Problem:
    if isinstance(error, PerdureError):
        return Problem("", *_place_in(path, error), error.code, error.message)
    message = f"the workflow function raised {type(error).__name__}: {error}"
    return Problem("", *_place_in(path, error), "build_error", message)


def _place_in(path: Path, error: BaseException) -> tuple[int | None, int | None]:
    """The innermost line of the file that led to the error, and its column."""
    name = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == name:
        return error.lineno, error.offset
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    if not frames:
        return None, None
    column = frames[-1].colno
    return frames[-1].lineno, None if column is None else column + 1
