"""What is found wrong with a definition only where its blobs are, or where it is to run: a database, or a server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.cli.exits import say
from perdure.cli.problems import as_data, count, show_problems
from perdure.cli.source import Source
from perdure.cli.where import Server, Where

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model import Compiled, Problem

_MOST_FILES = 200
_HEAD = 2_000
"""Characters in which a definition says its name."""


async def check_contents(engine: Engine, source: Source) -> Compiled:
    """The definition with what this database finds wrong with it, each problem once and with its line."""
    problems = await engine.checker.find_problems(source.compiled)
    return _add(source, (*problems, *await _find_strangers(engine, source)))


def check_source(source: Source, where: Where) -> Compiled:
    """The same wherever the command works; a database is opened only for a definition that names blobs or other workflows."""
    server = where.find_server()
    compiled: Compiled = source.compiled
    if server is not None:
        return asyncio.run(_ask(server, source))
    refs = _refs(compiled)
    if refs or _called(source):
        return asyncio.run(_look(source, where, refs))
    return compiled


async def _ask(server: Server, source: Source) -> Compiled:
    """What a server says. Which node types there are, and what their configs may be, is for the server to say."""
    from perdure.cli.remote import reached
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
    problems = msgspec.convert(answer["problems"], tuple[Problem, ...])
    return msgspec.structs.replace(plain, ir=plain.ir if answer["valid"] else None, problems=problems)


async def _look(source: Source, where: Where, refs: list[tuple[str, str]]) -> Compiled:
    from perdure.cli.database import opened
    from perdure.errors import NotFound

    try:
        async with opened(where.db) as engine:
            return await check_contents(engine, source)
    except NotFound as error:
        unseen = [_unseen(path, ref, error.message) for path, ref in refs]
        return _add(source, (*unseen, *(_stranger(path, name, source) for path, name in _called(source))))


def _unseen(path: str, ref: str, why: str) -> Problem:
    from perdure.model import Problem

    return Problem(path, None, None, "missing_blob", f"blob {ref} was not looked for; {why}", "warning")


async def _find_strangers(engine: Engine, source: Source) -> list[Problem]:
    """Workflows that nodes call by name, and this database does not have. They may be registered until the node is reached."""
    found = []
    for path, called in _called(source):
        name, _, version = called.partition("@")
        number = int(version) if version.isdecimal() else None
        known = (version == "" or number is not None) and await engine.journal.find_workflow(name, number)
        if not known:
            found.append(_stranger(path, called, source))
    return found


def _called(source: Source) -> list[tuple[str, str]]:
    """(path, name) of workflows that nodes start, but for those that come with the source."""
    definition = source.compiled.definition or {}
    own = {definition.get("name"), *(child.definition["name"] for child in source.children if child.definition)}
    return [(path, name) for path, name in _names(definition) if name.partition("@")[0] not in own]


def _names(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for node in definition.get("nodes", ()):
        for path, inner in (("", node), (".compensator", node.get("compensator")), (".config.node", _item(node))):
            config = inner.get("config") if isinstance(inner, Mapping) else None
            name = config.get("workflow") if isinstance(config, Mapping) else None
            if isinstance(name, str) and "{{" not in name and inner.get("type") in ("workflow", "map"):
                yield f"nodes.{node['id']}{path}.config.workflow", name


def _item(node: Mapping[str, Any]) -> Any:
    config = node.get("config")
    return config.get("node") if isinstance(config, Mapping) else None


def _stranger(path: str, name: str, source: Source) -> Problem:
    from shlex import quote

    from perdure.model import Problem

    beside = _find_beside(source, name.partition("@")[0])
    file = "FILE" if beside is None else quote(str(beside))
    text = f"no workflow {name!r} is registered here; register it before that node is reached: perdure workflows push {file}"
    return Problem(path, None, None, "unknown_workflow", text, "warning")


def _find_beside(source: Source, name: str) -> Path | None:
    """The file next to this one that has the workflow, by a look at its first lines."""
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
    from perdure.routing.checks import find_content_refs

    draft = None if compiled.draft is None else compiled.draft.ir
    ir = compiled.ir or draft
    return [] if ir is None else [(path, ref) for path, ref in find_content_refs(ir) if ref]


def refused_for(error: BaseException | None) -> tuple[Problem, ...]:
    """What a database or a server refused a definition for; empty when it was refused for something else."""
    from perdure.model import Problem

    found = getattr(error, "problems", ()) or getattr(getattr(error, "__cause__", None), "problems", ())
    plain = (one if isinstance(one, Mapping) else as_data(one) for one in found)
    return tuple(
        Problem(one["path"], None, None, one["code"], one["message"], one.get("severity", "error")) for one in plain
    )


def show_refused(source: Source, error: BaseException, what: str) -> None:
    """What was refused elsewhere, at the lines of the file it came from. `what` was not done then."""
    compiled: Compiled | None = source.compiled  # none where it is a patch
    problems = refused_for(error)
    if source.kind is not None and compiled is not None and compiled.definition is not None:
        from perdure.model.placement import place

        names = [node["id"] for node in compiled.definition["nodes"]]
        problems = place(tuple(_by_id(one, names) for one in problems), source.text, source.kind)
    show_problems(source.name, source.text, problems)
    say(f"{source.name}: {count(problems)}; nothing was {what}")


def _by_id(problem: Problem, names: list[str]) -> Problem:
    """`nodes[0]` of the canonical form, where nodes are sorted, is another node of the file."""
    found = re.match(r"nodes\[(\d+)\]", problem.path)
    if found is None or int(found[1]) >= len(names):
        return problem
    return msgspec.structs.replace(problem, path=f"nodes.{names[int(found[1])]}{problem.path[found.end() :]}")


def _add(source: Source, problems: tuple[Any, ...]) -> Compiled:
    return add_problems(source, source.compiled, problems)


def add_problems(source: Source, compiled: Compiled, problems: tuple[Any, ...]) -> Compiled:
    """What was compiled of a source with more problems, each once and with its line."""
    from perdure.model.placement import place
    from perdure.nodes.checks import joined

    if source.kind is not None:
        problems = place(problems, source.text, source.kind)
    said = {(one.code, one.message) for one in compiled.problems}
    return joined(compiled, tuple(one for one in problems if (one.code, one.message) not in said))
