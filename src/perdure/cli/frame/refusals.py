"""Problems of a definition that only its database or its server can find: in blobs, and where it is to run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.cli.frame.exits import say
from perdure.cli.frame.problems import count, show_problems
from perdure.cli.frame.source import Source
from perdure.cli.frame.where import Server, Where

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend
    from perdure.engine import Engine
    from perdure.model import Compiled, Problem

_MOST_FILES = 200
_HEAD = 2_000
"""How many characters of a file are searched for the name of its definition."""


async def check_contents(engine: Engine, source: Source) -> Compiled:
    """The definition with the problems that this database finds, each once and with its line."""
    problems = await engine.workflows.checker.find_problems(source.compiled, beside=_beside(source))
    return _add(source, tuple(_name_file(one, source) for one in problems))


async def warn_of_namesake(backend: Backend, source: Source, registered: Mapping[str, Any]) -> None:
    """Warn if another file on this machine has given its workflow the name of the one that was just registered."""
    from perdure.cli.frame.source import warn
    from perdure.service import Service

    if not isinstance(backend, Service) or source.path is None:  # a path means something on one machine only
        return
    about = (registered["name"], registered["version"], source.path)
    if said := await backend.upkeep.warn_of_namesake(*about):
        warn(said)


def check_source(source: Source, where: Where) -> Compiled:
    """The definition with the problems that its database or server finds. A database is opened only for a definition
    that names blobs or other workflows."""
    server = where.find_server()
    compiled: Compiled = source.compiled
    if server is not None:
        return asyncio.run(_ask(server, source))
    refs = _refs(compiled)
    if refs or _strangers(source):
        return asyncio.run(_look(source, where, refs))
    return compiled


async def _ask(server: Server, source: Source) -> Compiled:
    """The definition with the problems that a server finds, which knows its node types and their configs."""
    from perdure.cli.frame.backend import reached
    from perdure.model import Problem, compile_definition, compile_text

    compiled: Compiled = source.compiled
    sent: Any
    if source.kind is not None:
        sent, plain = source.text, compile_text(source.text, format=source.kind)
    elif compiled.definition is not None:
        sent, plain = compiled.definition, compile_definition(compiled.definition)
    else:
        return compiled
    async with reached(server) as client:
        answer = await client.workflows.validate(sent, format=source.kind or "json")
    problems = tuple(_name_file(one, source) for one in msgspec.convert(answer["problems"], tuple[Problem, ...]))
    return msgspec.structs.replace(plain, ir=plain.ir if answer["valid"] else None, problems=problems)


async def _look(source: Source, where: Where, refs: list[tuple[str, str]]) -> Compiled:
    from perdure.cli.frame.database import opened
    from perdure.errors import NotFound

    try:
        async with opened(where.db) as engine:
            return await check_contents(engine, source)
    except NotFound as error:
        unseen = [_unseen(path, ref, error.message) for path, ref in refs]
        return _add(source, (*unseen, *_strangers(source)))


def _unseen(path: str, ref: str, why: str) -> Problem:
    from perdure.model import Problem

    return Problem(path, None, None, "missing_blob", f"blob {ref} was not looked for; {why}", "warning")


def _beside(source: Source) -> dict[str, Any]:
    """The workflows that come with a source, by name."""
    return {child.ir.name: child.ir for child in source.children if child.ir is not None}


def _strangers(source: Source) -> list[Problem]:
    """Problems for workflows that nodes start by name and that do not come with the source."""
    from perdure.runtime.called import find_strangers

    ir = source.compiled.ir or (source.compiled.draft and source.compiled.draft.ir)
    return [_name_file(one, source) for one in find_strangers(ir, _beside(source))] if ir is not None else []


def _name_file(problem: Problem, source: Source) -> Problem:
    """The problem of an unknown workflow with the file to push, if that is next to this one."""
    if problem.code != "unknown_workflow":
        return problem
    from shlex import quote

    from perdure.runtime.called import PUSH

    name = re.findall(r"'([^']+)'", problem.message)[0]
    file = _find_beside(source, name.partition("@")[0])
    if file is None:
        return problem
    return msgspec.structs.replace(
        problem, message=problem.message.replace(PUSH, PUSH.replace("FILE", quote(str(file))))
    )


def _find_beside(source: Source, name: str) -> Path | None:
    """The file next to this one that has the workflow, by its first lines."""
    folder = Path(source.name).parent
    if source.kind is None or not folder.is_dir():
        return None
    wanted = re.compile(rf"""^(name|[{{\s]*"name")\s*:\s*["']?{re.escape(name)}["']?\s*(#.*|,.*|\}})?$""", re.MULTILINE)
    files = sorted(one for one in folder.iterdir() if one.suffix in (".yaml", ".yml", ".json"))
    for file in files[:_MOST_FILES]:
        try:
            with file.open(encoding="utf-8") as text:
                if wanted.search(text.read(_HEAD)):
                    return file
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _refs(compiled: Compiled) -> list[tuple[str, str]]:
    from perdure.expressions.checks import find_content_refs

    draft = None if compiled.draft is None else compiled.draft.ir
    ir = compiled.ir or draft
    return [] if ir is None else [(path, ref) for path, ref in find_content_refs(ir) if ref]


def refused_for(error: BaseException | None) -> tuple[Problem, ...]:
    """The problems for which a database or a server refused a definition; empty when the reason was another."""
    return read_problems(getattr(error, "problems", ()) or getattr(getattr(error, "__cause__", None), "problems", ()))


def read_problems(found: Iterable[Any]) -> tuple[Problem, ...]:
    """Problems from data, without their lines, which belong to another text."""
    from perdure.model import Problem
    from perdure.service.views import problem_view

    plain = (one if isinstance(one, Mapping) else problem_view(one) for one in found)
    return tuple(
        Problem(one["path"], None, None, one["code"], one["message"], one.get("severity", "error")) for one in plain
    )


def show_warnings(source: Source, found: Sequence[Mapping[str, Any]], said: Sequence[Problem] = ()) -> None:
    """Show the warnings of the registration at the lines of the file, except those that were shown before."""
    before = {(one.code, one.message) for one in said}
    problems = tuple(_name_file(one, source) for one in read_problems(found))
    show_problems(
        source.name, source.text, [one for one in _placed(source, problems) if (one.code, one.message) not in before]
    )


def show_refused(source: Source, error: BaseException, what: str) -> None:
    """Show a refusal of a database or a server at the lines of the file. `what` names what was therefore not done."""
    problems = _placed(source, refused_for(error))
    show_problems(source.name, source.text, problems)
    say(f"{source.name}: {count(problems)}; nothing was {what}")


def _placed(source: Source, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    compiled: Compiled | None = source.compiled  # None where the source is a patch
    if source.kind is None or compiled is None or compiled.definition is None:
        return problems
    from perdure.model.placement import place

    names = [node["id"] for node in compiled.definition["nodes"]]
    return place(tuple(_by_id(one, names) for one in problems), source.text, source.kind)


def _by_id(problem: Problem, names: list[str]) -> Problem:
    """The problem with its node named by id: nodes of the canonical form are sorted, those of the file are not."""
    found = re.match(r"nodes\[(\d+)\]", problem.path)
    if found is None or int(found[1]) >= len(names):
        return problem
    return msgspec.structs.replace(problem, path=f"nodes.{names[int(found[1])]}{problem.path[found.end() :]}")


def _add(source: Source, problems: tuple[Any, ...]) -> Compiled:
    return add_problems(source, source.compiled, problems)


def add_problems(source: Source, compiled: Compiled, problems: tuple[Any, ...]) -> Compiled:
    """A compiled source with more problems, each once and with its line."""
    from perdure.model.placement import place
    from perdure.nodes.config_checks import joined

    if source.kind is not None:
        problems = place(problems, source.text, source.kind)
    said = {(one.code, one.message) for one in compiled.problems}
    return joined(compiled, tuple(one for one in problems if (one.code, one.message) not in said))
