"""Python functions by name: `module:name`, or the name they were registered under.

It owns the table of functions that this process knows, importing the others, and what the module of a script or a file
is called, so that a run begun by `python flow.py`, by `perdure run flow.py` and by a worker names the same functions.
Where workflows are written by others than the owner of the machine, only what the owner named is imported (`restrict`).
It must not know nodes, contexts or workers.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from perdure.errors import NotFound
from perdure.plain_text import cut, find_text_trouble

Function = Callable[..., Any]

_logger = logging.getLogger("perdure.functions")
_lock = threading.Lock()
_LONGEST_NAME = 1_000
_registered: dict[str, Function] = {}
_shared: dict[str, set[str]] = {}
"""Names that several functions have; only `module:name` tells them apart."""
_named: set[str] = set()
"""Modules that the command line imported."""
_known: dict[str, Function] = {}
"""Functions this process has defined, by reference; they need no import."""
_resolved: dict[str, Function] = {}
_allowed: set[str] | None = None
"""Modules whose functions definitions may name; None: any. Those imported by the command line are allowed as well."""
_loading: ContextVar[str] = ContextVar("perdure_loading", default="")


class FunctionNotFound(NotFound):
    code = "function_not_found"


class FunctionBroken(FunctionNotFound):
    """The module of the function is there, and is no Python. So it would be anywhere: no other worker is asked."""

    code = "import_failed"


class FunctionNotAllowed(FunctionNotFound):
    """The function may exist, but the owner of this process has not said that definitions may call it."""

    code = "function_not_allowed"
    status = 422


# -- allowing ----------------------------------------------------------------------------------------------------------


def restrict(modules: Iterable[str]) -> None:
    """From now on, let a definition name only registered functions and those that stand in these modules, in modules
    inside them, and in modules that `allow` names. `*` is any module."""
    global _allowed  # noqa: PLW0603  what a process may import is one fact of the process
    with _lock:
        _allowed = None if "*" in modules else set(modules) | (_allowed or set())
        _resolved.clear()


def allow(module: str) -> None:
    """Allow a module that the owner of the process imported by name."""
    with _lock:
        _named.add(module)


def allowed() -> tuple[str, ...] | None:
    """What a process that executes in the place of this one may import; None: anything."""
    with _lock:
        return None if _allowed is None else tuple(sorted(_allowed | _named))


def are_restricted() -> bool:
    """Whether a definition may name only some functions here."""
    return _allowed is not None


def find_refusal(reference: str) -> str | None:
    """Why a definition may not name this function; None if it may, or if a worker that has the function must decide."""
    module, colon, _ = reference.partition(":")
    if not colon or reference in _registered or reference in _known or _is_allowed(module):
        return None
    return (
        f"function {reference!r}: module {cut(module, 200)!r} is not among those that definitions may call here; register the function "
        "with @perdure.task in a module that --import names, or add the module to PERDURE_TASK_MODULES"
    )


def _is_allowed(module: str) -> bool:
    if _allowed is None:
        return True
    known = allowed()
    return known is None or any(module == one or module.startswith(f"{one}.") for one in known)


# -- registering -------------------------------------------------------------------------------------------------------


def register(name: str, function: Function) -> None:
    """Register a function. The same one may come again, as when a module is reloaded or imported under two names. A name
    that cannot be sent is refused: a worker says in each beat which functions it has."""
    if (trouble := find_text_trouble(name, _LONGEST_NAME)) is not None:
        raise ValueError(f"function {_origin(function)} cannot be named {cut(ascii(name), 100)}: {trouble}")
    name = str.__str__(name)
    with _lock:
        known = _registered.get(name)
        if known is not None and _origin(known) != _origin(function):
            raise ValueError(
                f"function name {name!r} is taken by {_origin(known)}; give {_origin(function)} a name of its own"
            )
        _registered[name] = function
        _resolved.pop(name, None)


def define(function: Function, called: Function, name: str | None = None) -> str:
    """Make a function known that was just defined, and return the reference that definitions use for it.

    `called` is what a worker calls for it. With a name, it is registered under that; without one, its own name is used
    as long as no other function has the same.
    """
    reference = _origin(function)
    with _lock:
        if "<locals>" in reference:
            reference = _distinguish(reference, called)
        _known[reference] = called
        _resolved.pop(reference, None)
    if name is not None:
        register(name, called)
        return reference
    short = getattr(function, "__name__", reference)
    with _lock:
        taken = _registered.get(short)
        _resolved.pop(short, None)
        if short in _shared or (taken is not None and _origin(taken) != _origin(called)):
            _shared.setdefault(short, set()).update({_origin(called)} | ({_origin(taken)} if taken else set()))
            _registered.pop(short, None)
        else:
            _registered[short] = called
    return reference


def _distinguish(reference: str, function: Function) -> str:
    """A reference for a function made by a function: all share a path, but one with another closure is another."""
    number = 1
    while True:
        name = reference if number == 1 else f"{reference}#{number}"
        known = _known.get(name)
        if known is None or _is_same(known, function):
            return name
        number += 1


def _is_same(one: Function, other: Function) -> bool:
    one, other = _innermost(one), _innermost(other)
    if getattr(one, "__code__", None) is not getattr(other, "__code__", object()):
        return False
    cells, others = (getattr(f, "__closure__", None) or () for f in (one, other))
    try:
        return [cell.cell_contents for cell in cells] == [cell.cell_contents for cell in others]
    except ValueError:  # a cell that is still empty
        return False


def _innermost(function: Function) -> Function:
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return function


def names() -> tuple[str, ...]:
    with _lock:
        return tuple(sorted(_registered))


def modules() -> tuple[str, ...]:
    """The modules of the registered functions: what another process has to import to know the same names."""
    with _lock:
        return tuple(sorted({module_of(function) for function in _registered.values()}))


# -- finding -----------------------------------------------------------------------------------------------------------


def resolve(reference: str) -> Function:
    """The function a definition names, remembered once it is found. One that was not found is looked for again."""
    function = _resolved.get(reference)
    if function is None:
        try:
            function = _registered.get(reference) or _known.get(reference) or _import(reference)
        except FunctionNotFound:
            if _watch is not None:
                _not_found.add(reference)
            raise
        _resolved[reference] = function
    return function


def _import(reference: str) -> Function:
    module_name, colon, path = reference.partition(":")
    if not colon or not module_name or not path:
        raise FunctionNotFound(f"function {reference!r} {_explain_name(reference)}")
    if "<locals>" in path:
        raise FunctionNotFound(
            f"function {reference!r} was defined inside another function, where this process cannot find it; move it to the "
            "top level of its module"
        )
    if (refusal := find_refusal(reference)) is not None:
        raise FunctionNotAllowed(refusal)
    try:
        found: Any = load_module(module_name)
    except SyntaxError as error:
        raise FunctionBroken(
            f"function {reference!r}: importing module {module_name!r} failed with {type(error).__name__}: {error}; mend its "
            "code, then retry the run"
        ) from error
    except Exception as error:
        if _watch is not None:
            lacking = {module_name, (error.name if isinstance(error, ImportError) else None) or module_name}
            _missing.update((name, _met[name] if name in _met else _find_source(name)) for name in lacking)
        raise FunctionNotFound(
            f"function {reference!r}: importing module {module_name!r} failed with {type(error).__name__}: {error}; "
            f"is it installed where the worker runs, or on its path ({len(sys.path)} entries, the first is "
            f"{sys.path[0] if sys.path else ''!r})?"
        ) from error
    if (known := _known.get(reference)) is not None:  # made a task under another name: `embed = perdure.task(Embedder)`
        return known
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise FunctionNotFound(
                f"function {reference!r}: module {module_name!r} has no {path!r}; check the name, or export it there"
            ) from None
    if not callable(found):
        raise FunctionNotFound(f"function {reference!r} is a {type(found).__name__}; expected something callable")
    function = _unwrap(found)
    if not _is_allowed(_home_of(function)):  # the module may be allowed, but not what it imported for itself
        raise FunctionNotAllowed(
            f"function {reference!r} stands in module {_home_of(function)!r}, which is not among those that definitions may call "
            "here; write a function of your own around it"
        )
    return function


def _home_of(function: Function) -> str:
    """The module in which a function, or the class of a callable object, is written."""
    home = getattr(_innermost(function), "__module__", None) or type(function).__module__
    return _main_name() if home == "__main__" else str(home)


def _explain_name(name: str) -> str:
    if name in _shared:
        return f"has several meanings ({', '.join(sorted(_shared[name]))}); name it as 'module:name'"
    known = ", ".join(names()[:10]) or "none"
    return (
        "is not registered; name it as 'module:name', or register it with @perdure.task in a module this worker imports "
        f"(registered: {known})"
    )


def _unwrap(found: Any) -> Function:
    """The function to execute behind a decorated task, which itself builds graphs when called."""
    function = getattr(found, "__perdure_function__", found)
    return function if callable(function) else found  # type: ignore[no-any-return]


def _origin(function: Function) -> str:
    return f"{module_of(function)}:{getattr(function, '__qualname__', repr(function))}"


# -- modules -----------------------------------------------------------------------------------------------------------


def module_of(function: Function) -> str:
    """The module other processes import to get at the function: a script is known by the name of its file."""
    name = getattr(function, "__module__", None) or "?"
    return _main_name() if name == "__main__" else name


def _main_name() -> str:
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name:  # python -m package.module
        return str(spec.name)
    if file is None or not str(file).endswith(".py"):  # a console, a notebook, python -c
        return "__main__"
    name, root = place_of(Path(file))
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if "." in Path(file).stem or (
        name in sys.modules and (loaded is None or Path(loaded).resolve() != Path(file).resolve())
    ):
        return "__main__"
    if str(root) not in sys.path:
        sys.path.append(str(root))
    return name


def place_of(file: Path) -> tuple[str, Path]:
    """The module name of a file, and the folder it is imported from: above the packages it is in."""
    file = file.resolve()
    names, folder = [file.stem], file.parent
    while (folder / "__init__.py").exists() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), folder


def load_module(name: str) -> types.ModuleType:
    with loading(name):
        return importlib.import_module(name)


def load_file(path: Path) -> types.ModuleType:
    """Import a file under its own name, with its folder on the path, so that `function: "tasks:charge"` finds it."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    name, root = place_of(path)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) is None or Path(str(known.__file__)).resolve() != path.resolve():
            raise ImportError(f"a module named {name} is loaded already; rename the file")
        return known
    if "." in path.stem:
        raise ImportError(f"{path.name} cannot be imported under that name; rename the file so that it has one dot")
    if "." in name:
        return load_module(name)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with loading(name):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Marks that a module is imported to find functions in it: it must not begin to run workflows meanwhile."""
    token = _loading.set(name)
    try:
        yield
    finally:
        _loading.reset(token)
        if _watch is not None:
            _note_modules()


def loading_now() -> str:
    """The module that is being imported here; empty when none is."""
    return _loading.get()


# -- code that changes -------------------------------------------------------------------------------------------------

Stamp = tuple[int, int]
"""When a file changed last, and its size: a clock may stand still between the making of a file and its first line."""
_OWN = str(Path(__file__).parent)
_INSTALLED = (str(Path(importlib.__file__).parent.parent), "site-packages", "dist-packages")
_imported: dict[str, tuple[str, Stamp]] = {}
"""The user's modules: the file of each, and its time of last change when it was imported."""
_missing: dict[str, tuple[str, Stamp] | None] = {}
"""Modules that could not be imported, while changes are looked for: the file of each, and when it had changed last;
None: there was none."""
_met: dict[str, tuple[str, Stamp] | None] = {}
"""Modules that were looked for in an import, while changes are looked for: the file of each, and when it had changed last
before it was read; None: there was none."""
_not_found: set[str] = set()
"""Functions that were not found since code was last loaded anew, while changes are looked for."""
_known_modules = 0
_LOOK_SECONDS = 0.2
_looked = 0.0
_watch: tuple[Callable[[list[str]], None], bool] | None = None
"""The function that is told of changed files, and whether they are loaded anew; None: changes are not looked for."""


def watch(tell: Callable[[list[str]], None] | None, *, load: bool = False) -> None:
    """Look for code that changes while it is used, between attempts; with `load`, use the new code from then on."""
    global _watch, _known_modules  # noqa: PLW0603
    _watch = None if tell is None else (tell, load)
    with suppress(ValueError):
        sys.meta_path.remove(_observer)
    if _watch is None:
        _met.clear()
        _not_found.clear()
        return
    sys.meta_path.insert(0, _observer)
    _known_modules = 0
    _note_modules()  # what is imported already may change before it is used for the first time


class _Observer:
    """Finds modules as the other finders do, and notes what is there before it is read. A file that is written during its
    import, or right after it was looked for in vain, has changed; looking afterwards would take it for what was read."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        spec: ModuleSpec | None = None
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None and (spec := find(name, path, target)) is not None:
                break
        if _loading.get():  # who only looks for a file reads nothing
            _met[name] = None if spec is None or spec.origin is None else (spec.origin, _changed_at(spec.origin))
        return spec


_observer = _Observer()


def follow_changes(now: float) -> None:
    """Look for changed code before an attempt. Without `load`, each change is told once."""
    global _looked  # noqa: PLW0603
    if _watch is None or now < _looked + _LOOK_SECONDS:
        return
    _looked = now
    tell, load = _watch
    changed = reload() if load else find_changed()
    if changed and not load:
        for name, (file, _) in list(_imported.items()):
            if file in changed:
                _imported[name] = (file, _changed_at(file))
    if changed:
        tell(changed)


def may_be_found(reference: str) -> bool:
    """Whether a function was not looked for here since code was last loaded anew, or was found."""
    return reference not in _not_found


def loads_changes() -> bool:
    return _watch is not None and _watch[1]


def _note_modules() -> None:
    """Note new modules right after an import, so that later changes are noticed."""
    global _known_modules  # noqa: PLW0603  beside the table it is about
    if len(sys.modules) != _known_modules:
        for name, module in list(sys.modules.items()):
            if name not in _imported and name != "__main__" and (file := _source(module)) is not None:
                met = _met.get(name)
                _imported[name] = met if met is not None and met[0] == file else (file, _changed_at(file))
        _known_modules = len(sys.modules)


def find_changed() -> list[str]:
    """The files of imported modules that differ from when they were imported."""
    _note_modules()
    found = {file for file, before in _imported.values() if _changed_at(file) != before}
    found |= {now[0] for name, before in _missing.items() if (now := _find_source(name)) is not None and now != before}
    return sorted(found)


def reload() -> list[str]:
    """Forget the user's modules if one of them has changed, so that the next use imports it anew. Calls under way go on
    with what they have. Returns the files that changed."""
    global _known_modules  # noqa: PLW0603  beside the table it is about
    changed = find_changed()
    if not changed:
        return []
    gone = set(_imported)
    with _lock:
        again = {module_of(function) for function in _registered.values()} & gone
        for table in (_registered, _known, _resolved):
            for name in [name for name, function in table.items() if module_of(function) in gone]:
                del table[name]
        _shared.clear()
    for name in gone:
        sys.modules.pop(name, None)
    _imported.clear()
    _missing.clear()
    _met.clear()
    _not_found.clear()
    _known_modules = 0
    for file in changed:  # compiled files are told apart by whole seconds
        with suppress(OSError):
            os.unlink(importlib.util.cache_from_source(file))
    importlib.invalidate_caches()
    for name in sorted(again):  # a function known by its name alone must be there before it is asked for
        try:
            load_module(name)
        except Exception as error:  # noqa: BLE001  its next use fails with the same words
            _logger.warning("%s cannot be imported any more: %s: %s", name, type(error).__name__, error)
    find_changed()
    return changed


def _find_source(name: str) -> tuple[str, Stamp] | None:
    """The file that importing a module would read, and when it changed last."""
    importlib.invalidate_caches()
    with suppress(ImportError, ValueError, AttributeError):  # of the package around it
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            return spec.origin, _changed_at(spec.origin)
    return None


def _source(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py") or file.startswith(_OWN):
        return None
    return None if any(part in file for part in _INSTALLED) else file


def _changed_at(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except OSError:  # the file is being written anew, or gone
        return 0, 0
    return found.st_mtime_ns, found.st_size
