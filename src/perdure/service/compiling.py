"""Definitions that come from outside, compiled and checked as `perdure validate` does it, without holding up the loop.

It must not store anything.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from perdure.model import Compiled, DefinitionError, compile_definition, compile_text
from perdure.model.placement import place
from perdure.model.reader import Format
from perdure.nodes.checks import find_problems
from perdure.nodes.registry import Registry

IN_THE_LOOP = 4_000
"""Bytes of JSON that are compiled at once; larger definitions in a thread, where they hold up nobody."""


async def compile_data(definition: Any) -> Compiled:
    """Raises DefinitionError with every problem."""
    if len(msgspec.json.encode(definition)) <= IN_THE_LOOP:
        compiled = compile_definition(definition)
    else:
        compiled = await asyncio.to_thread(compile_definition, definition)
    if compiled.ir is None:
        raise DefinitionError(compiled.problems)
    return compiled


async def check_text(text: bytes, kind: Format, registry: Registry) -> Compiled:
    """Compile text and check also what the compiler cannot see: conditions, schemas, the configs of node types."""
    if len(text) <= IN_THE_LOOP:
        return _check_text(text, kind, registry)
    return await asyncio.to_thread(_check_text, text, kind, registry)


def _check_text(text: bytes, kind: Format, registry: Registry) -> Compiled:
    compiled = compile_text(text, format=kind)
    if compiled.ir is None:
        return compiled
    problems = place(find_problems(compiled.ir, registry), text, kind)
    refused = any(problem.severity == "error" for problem in problems)
    ir = None if refused else compiled.ir
    return msgspec.structs.replace(compiled, ir=ir, problems=(*compiled.problems, *problems))
