"""Checks of the functions that a definition names, in the files beside it: their names and their parameters.

Only reads source. Code is imported on request alone (`perdure validate --import`).
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure import functions
from perdure.spelling import list_known, suggest

if TYPE_CHECKING:
    from perdure.model import Compiled, Problem
    from perdure.model.ir import Node

_LARGEST = 1_000_000
_MOST_FILES = 200
_MAY_READ = ("Stream", "Itera", "Any", "object", "|", "Union", "Annotated")
"""What the annotation of a parameter that reads a stream may have in it."""
_PLAIN_DECORATORS = {"task", "perdure.task"}


class Call(msgspec.Struct, frozen=True):
    path: str
    what: str
    reference: str
    args: Any
    """What it is given; UNSET: an agent's model decides that."""
    reads: tuple[str, ...] = ()
    """The parameters to which stream edges lead."""
    streams: bool = False
    """Whether a stream edge leaves it."""


def find_calls(compiled: Compiled) -> Iterator[Call]:
    """The functions that tasks and the tools of agents name, except where the name is a template."""
    draft = None if compiled.draft is None else compiled.draft.ir
    ir = compiled.ir or draft
    if ir is None:
        return
    reads: dict[int, list[str]] = {}
    streams = set[int]()
    for edge in ir.edges:
        if edge.ports:
            streams.add(edge.source)
            reads.setdefault(edge.target, []).extend(port for _, port in edge.ports)
    for number, node in enumerate(ir.nodes):
        if node is not None:
            about = (tuple(dict.fromkeys(reads.get(number, ()))), number in streams)
            yield from _calls_of(node, f"nodes.{node.id}", f"node '{node.id}'", *about)


def _calls_of(node: Node, path: str, what: str, reads: tuple[str, ...] = (), streams: bool = False) -> Iterator[Call]:
    undo = node.compensator
    parts = [(node.type, node.config, f"{path}.config", what)]
    if undo is not None:
        parts.append((undo.type, undo.config, f"{path}.compensator.config", f"compensator of {what}"))
    for number, (kind, config, place, name) in enumerate(parts):
        reference = config.get("function") if kind == "task" and isinstance(config, dict) else None
        if isinstance(reference, str) and "{{" not in reference:
            edges = (reads, streams) if number == 0 else ()
            yield Call(place, name, reference, config.get("args"), *edges)
    if node.type == "agent" and isinstance(node.config, dict):
        yield from _tools_of(node.config, f"{path}.config", what)
    if node.item is not None and isinstance(node.config, dict) and "node" in node.config:
        yield from _calls_of(node.item, f"{path}.config.node", f"the item of {what}")


def _tools_of(config: dict[str, Any], path: str, what: str) -> Iterator[Call]:
    from perdure.agents.toolbox import entries_of
    from perdure.model.problems import format_path

    for place, entry in entries_of(config):
        reference = entry.get("function") if isinstance(entry, dict) else None
        if isinstance(reference, str) and "{{" not in reference:
            yield Call(f"{path}.{format_path(place)}", f"a tool of {what}", reference, msgspec.UNSET)


def folders_of(file: str) -> list[Path]:
    """The folders where the functions of a definition are looked for: beside it, and the working directory."""
    return list(dict.fromkeys([Path.cwd()] if file == "-" else [Path(file).resolve().parent, Path.cwd()]))


def check_files(compiled: Compiled, folders: list[Path], *, elsewhere: bool = False) -> tuple[Problem, ...]:
    """Warnings about functions that are neither in a file of these folders, nor installed, nor registered. `elsewhere`:
    workers on other machines execute them, which may have what is missing here."""
    return _check_all(find_calls(compiled), folders, elsewhere=elsewhere)


def find_missing(compiled: Compiled, folders: list[Path]) -> list[str]:
    """The functions that cannot be had in this process. Imports those that seem to be missing, as a run would."""
    names = list(dict.fromkeys(call.reference for call in find_calls(compiled)))
    return [name for name in names if _check_all([Call("", "", name, msgspec.UNSET)], folders) and not _is_had(name)]


def _is_had(reference: str) -> bool:
    """Whether it can be had, or its module raises something when it is imported: of that a run shows the lines."""
    try:
        functions.resolve(reference)
    except functions.FunctionNotFound as error:
        return not isinstance(error.__cause__, ModuleNotFoundError | SyntaxError | None)
    return True


def check_config(what: str, config: Any, folders: list[Path]) -> tuple[Problem, ...]:
    """The same warnings for the config of one task, outside a definition: only about files here, since workers
    elsewhere may execute it."""
    reference = config.get("function") if isinstance(config, dict) else None
    if not isinstance(reference, str) or ":" not in reference:
        return ()
    return _check_all([Call("config", what, reference, config.get("args"))], folders, elsewhere=True)


def _check_all(calls: Iterable[Call], folders: list[Path], *, elsewhere: bool = False) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    lost: set[str] = set()
    """Modules and functions already reported as missing: many nodes may name one, and it is mended once."""
    trees: dict[str, ast.Module | str | None] = {}
    for call in calls:
        module, colon, name = call.reference.partition(":")
        if call.reference in functions.names():
            continue
        if module in lost or (not colon and elsewhere):
            continue
        if not colon:
            lost.add(module)
            problems.append(_warn(f"{call.path}.function", f"{call.what}: {_explain_bare(module, folders)}"))
            continue
        if module not in trees:
            trees[module] = _parse(module, folders)
        tree = trees[module]
        if isinstance(tree, str):
            lost.add(module)
            problems.append(_warn(f"{call.path}.function", f"{call.what}: {tree}"))
        elif tree is not None and "." not in name:
            problems += _check(call, module, name, tree)
        elif tree is None and module in sys.modules:
            problems += _check_loaded(call, module, name)
        elif tree is None and not elsewhere and not _is_there(module, folders):
            lost.add(module)
            problems.append(_warn(f"{call.path}.function", f"{call.what}: {_explain_lost(module, folders)}"))
    return tuple(problems)


def _check_loaded(call: Call, module: str, name: str) -> Iterator[Problem]:
    """Check a function of a module that this process has loaded anyway, such as one of the standard library."""
    names = vars(sys.modules[module])
    if name.partition(".")[0] not in names and "__getattr__" not in names:
        known = [one for one, what in names.items() if callable(what) and not one.startswith("_")]
        yield _warn(f"{call.path}.function", f"{call.what}: module '{module}' has no '{name}'; {suggest(name, known)}")


def _explain_bare(name: str, folders: list[Path]) -> str:
    """The warning about a name without a module: a registered function, which a worker elsewhere may have."""
    said = f"function '{name}' names no module, and no function is registered here under that name"
    module, dot, rest = name.rpartition(".")
    if dot and (_read(module, folders) is not None or _is_there(module, folders)):
        return f"{said}; write '{module}:{rest}'"
    for module in _modules(folders):
        tree = _read(module, folders)
        if tree is not None and name in _names_of(tree)[1]:
            return f"{said}; write '{module}:{name}'"
    return f"{said}; write 'module:name', or import the module that registers it with --import"


def _explain_lost(module: str, folders: list[Path]) -> str:
    if module.endswith(".py") and _read(module.removesuffix(".py"), folders) is not None:
        return f"a module is named without '.py'; write '{module.removesuffix('.py')}:name'"
    put = f"put {module.replace('.', '/')}.py there, or install it where workers run"
    return f"no module '{module}' is beside the file, and none is installed here; {suggest(module, _modules(folders), put)}"


def _modules(folders: list[Path]) -> list[str]:
    """The modules that are files in these folders."""
    files = itertools.chain.from_iterable(folder.glob("*.py") for folder in folders if folder.is_dir())
    return sorted({file.stem for file in itertools.islice(files, _MOST_FILES) if file.stem.isidentifier()})


def _is_there(module: str, folders: list[Path]) -> bool:
    """Whether a module could be imported, as far as that can be told without importing anything."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    places: Any = [*map(str, folders), *sys.path]
    if parts[0] in sys.builtin_module_names or parts[0] in sys.stdlib_module_names:
        return True
    for number in range(len(parts)):
        try:
            spec = PathFinder.find_spec(".".join(parts[: number + 1]), places)
        except (ImportError, ValueError):
            return True
        if spec is None:
            # Editable installs have their own finders, which are asked for the first name only: beyond it they import.
            return number == 0 and _is_found_otherwise(parts[0])
        places = spec.submodule_search_locations
        if places is None:
            return number == len(parts) - 1
    return True


def _is_found_otherwise(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def check_imported(compiled: Compiled) -> tuple[Problem, ...]:
    """Warnings about functions by their real signatures. Imports them, so only for a person who asked for it."""
    from perdure.nodes.task import Shape

    problems: list[Problem] = []
    for call in find_calls(compiled):
        try:
            function = functions.resolve(call.reference)
        except functions.FunctionNotFound as error:
            problems.append(_warn(f"{call.path}.function", f"{call.what}: {error.message}"))
            continue
        if call.args is msgspec.UNSET:
            continue
        shape = Shape(function)
        given = {**dict.fromkeys(call.reads), **(call.args if isinstance(call.args, dict) else {})}
        if shape.context is not None:
            given[shape.context] = None
        mistake = shape.find_mistake(given)
        if mistake is not None:
            problems.append(_warn(call.path, f"{call.what}: {call.reference}: {mistake}"))
    return tuple(problems)


def _read(module: str, folders: list[Path]) -> ast.Module | None:
    """The source of a module. None: it is not a readable file here; it may be installed where workers run."""
    found = _parse(module, folders)
    return None if isinstance(found, str) else found


def _parse(module: str, folders: list[Path]) -> ast.Module | str | None:
    """The source of a module, or why Python cannot read its file. None: there is no such file here."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for folder in folders:
        for file in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
            if file.is_file() and file.stat().st_size <= _LARGEST:
                try:
                    return ast.parse(file.read_bytes())
                except SyntaxError as error:
                    where = file.name if error.lineno is None else f"{file.name}, line {error.lineno}"
                    return f"module '{module}' cannot be imported: {where}: {error.msg}; mend the file"
                except ValueError as error:  # a null byte
                    return f"module '{module}' cannot be imported: {file.name}: {error}; mend the file"
    return None


def _check(call: Call, module: str, name: str, tree: ast.Module) -> Iterator[Problem]:
    names, defined, closed = _names_of(tree)
    if name not in names:
        if closed:
            hint = suggest(name, names, list_known(sorted(defined)))
            yield _warn(f"{call.path}.function", f"{call.what}: module '{module}' has no '{name}'; {hint}")
        return
    function = defined.get(name)
    if function is not None and isinstance(call.args, dict | None):
        for message in _find_misfits(function, set(call.args or ()), call.reads):
            yield _warn(f"{call.path}.args" if call.args else call.path, f"{call.what}: {name}() {message}")
        for message in _find_broken_edges(function, call):
            yield _warn(f"{call.path}.function", f"{call.what}: {name}() {message}")


def _names_of(tree: ast.Module) -> tuple[set[str], dict[str, Any], bool]:
    """The names at the top of a module, those that are plain functions, and whether there can be no other names."""
    names: set[str] = set()
    defined: dict[str, Any] = {}
    closed = True
    for one in tree.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(one.name)
            if all(_decorator(each) in _PLAIN_DECORATORS for each in one.decorator_list):
                defined[one.name] = one
            closed = closed and one.name != "__getattr__"
        elif isinstance(one, ast.ClassDef):
            names.add(one.name)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            names |= {(each.asname or each.name).partition(".")[0] for each in one.names}
            closed = closed and all(each.name != "*" for each in one.names)
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        elif not isinstance(one, ast.Expr):  # if, try, with, …: names may come from there
            closed = False
    return names, defined, closed


def _decorator(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _find_broken_edges(function: Any, call: Call) -> Iterator[str]:
    """What is wrong with the stream edges at a function."""
    found = function.args
    known = {one.arg: one for one in [*found.posonlyargs, *found.args, *found.kwonlyargs]}
    streams = [name for name, one in known.items() if _kind_of(one) == "Stream"]
    for name in call.reads:
        if name not in known:
            if found.kwarg is None:
                hint = suggest(name, streams, "annotate one that reads it perdure.Stream")
                yield f"has no parameter '{name}', to which a stream edge leads; {hint}"
        elif (kind := _kind_of(known[name])) and not any(one in kind for one in _MAY_READ):
            yield (
                f"takes '{name}: {kind}', to which a stream edge leads; annotate it perdure.Stream and read the chunks "
                f"with `for`, or remove the port from the edge and give '{name}' under args"
            )
    if call.streams and not any(isinstance(one, ast.Yield | ast.YieldFrom) for one in _walk_own(function)):
        yield "yields nothing, and a stream edge leaves it; yield the chunks, or remove the ports from the edge"


def _walk_own(function: Any) -> Iterator[ast.AST]:
    """What is in a function, without the functions within."""
    left: list[ast.AST] = list(function.body)
    while left:
        one = left.pop()
        yield one
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left += ast.iter_child_nodes(one)


def _find_misfits(function: Any, given: set[str], reads: tuple[str, ...]) -> Iterator[str]:
    found = function.args
    positional = [*found.posonlyargs, *found.args]
    required = positional[: len(positional) - len(found.defaults)]
    required += [one for one, default in zip(found.kwonlyargs, found.kw_defaults, strict=True) if default is None]
    known = [*found.args, *found.kwonlyargs]
    filled = {one.arg for one in known if _is_filled_in(one) or one.arg in reads}
    if missing := [one.arg for one in required if one.arg not in given and one.arg not in filled]:
        yield f"needs {', '.join(missing)}; give it under args"
    names = [one.arg for one in known if one.arg not in filled]
    for name in sorted(given - set(names)) if found.kwarg is None else ():
        yield f"takes no '{name}'; {suggest(name, names)}"


def _is_filled_in(argument: ast.arg) -> bool:
    """Whether the engine gives it: the context, or what a stream edge leads to."""
    return argument.arg == "ctx" or _kind_of(argument) in ("Context", "Stream")


def _kind_of(argument: ast.arg) -> str:
    """How it is annotated, without what stands in brackets; empty: not at all."""
    written = "" if argument.annotation is None else ast.unparse(argument.annotation).strip("'\"")
    return written.removeprefix("perdure.").partition("[")[0]


def _warn(path: str, message: str) -> Problem:
    from perdure.model import Problem

    return Problem(path, None, None, "bad_call", message, "warning")
