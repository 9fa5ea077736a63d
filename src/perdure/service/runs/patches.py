"""A new definition for a run under way: a JSON Patch applied to the one it has, and what that would change.

Owns how a patch is read and shown. The kernel says whether a run can take it (E6).
"""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from perdure.budget import REQUEST_CHARACTERS, REQUEST_STEPS, Budget, OverBudget
from perdure.errors import NotFound, PerdureError
from perdure.kernel import commands as c
from perdure.kernel.decide import decide
from perdure.kernel.state import State
from perdure.model.ir import IR, Node
from perdure.model.rebase import rebase
from perdure.runtime.coordinator.library import Library

MOST_OPERATIONS = 10_000
_STEPS = 100  # of an operation


class PatchInvalid(PerdureError):
    """A list of operations is not a JSON Patch, or does not fit the definition it is for."""

    code = "patch_invalid"
    status = 422


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What a patch does to a run: node ids, and edges as `a -> b`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """These nodes change from their next activation on; an activation under way keeps what it has (rule 39)."""
    edges_added: tuple[str, ...] = ()
    edges_removed: tuple[str, ...] = ()
    refused: str = ""
    """Why the run cannot take the patch now. Empty: it can."""


async def current_definition(library: Library, state: State) -> Any:
    """The canonical definition that the run follows now."""
    name = f"definition:{state.ir_hashes[-1]}"
    try:
        stored = await library.read(name)
    except NotFound:
        raise NotFound(
            f"run {state.run_id}: its definition {state.ir_hashes[-1]} is not kept; give a whole new definition instead"
        ) from None
    return msgspec.json.decode(stored)


def apply_patch(definition: Any, operations: Any, budget: Budget | None = None) -> Any:
    """The definition after these operations of a JSON Patch (RFC 6902). The given definition is not modified."""
    budget = budget or Budget(REQUEST_STEPS, REQUEST_CHARACTERS)
    if not isinstance(operations, list):
        raise PatchInvalid(f"a JSON Patch is a list of operations, got {type(operations).__name__}")
    if len(operations) > MOST_OPERATIONS:
        raise PatchInvalid(f"a JSON Patch may have {MOST_OPERATIONS} operations, this has {len(operations)}")
    problems = [f"operation {n}: {problem}" for n, one in enumerate(operations) if (problem := _problem(one))]
    if problems:
        raise PatchInvalid("not a JSON Patch: " + "; ".join(problems[:20]))
    definition = copy.deepcopy(definition)  # one copy for all operations, which are applied in place
    for number, operation in enumerate(operations):
        try:
            budget.spend(_STEPS)
            budget.make(_measure(definition, operation))
            definition = jsonpatch.JsonPatch([operation]).apply(definition, in_place=True)
        except OverBudget as error:
            raise PatchInvalid(
                f"operation {number}: a JSON Patch may copy {REQUEST_CHARACTERS} bytes in all, and take so much time; "
                "this takes more"
            ) from error
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
            what = "the value there is another one" if operation["op"] == "test" else "there is no such place"
            raise PatchInvalid(f"operation {number} ({operation['op']} {operation['path']}): {what}") from error
    return definition


def _measure(definition: Any, operation: Any) -> int:
    """How many bytes an operation copies within the definition."""
    if operation["op"] != "copy":
        return 0
    return len(msgspec.json.encode(jsonpointer.resolve_pointer(definition, operation["from"], None)))


def _problem(operation: Any) -> str:
    """What is wrong with the form of one operation."""
    needs = {"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}
    if not isinstance(operation, dict):
        return f"expected an object, got {type(operation).__name__}"
    if not isinstance(operation.get("op"), str) or operation["op"] not in needs:
        return f"op is one of {', '.join(needs)}, got {str(operation.get('op'))[:40]!r}"
    for key in ("path", needs[operation["op"]]):
        if key and key not in operation:
            return f"{operation['op']} needs {key!r}"
    for key in ("path", "from"):
        pointer = operation.get(key, "")
        if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
            return f"{key} is a JSON pointer such as /nodes/0, got {str(pointer)[:40]!r}"
    return ""


def preview(state: State, ir: IR, at: float) -> Changes:
    """What this IR would change in the run, and whether the kernel would accept it. The run is not changed."""
    answer = decide(state, c.Patch(at=at, ir=ir))
    old, new = state.ir, rebase(ir, *state.irs)  # the same indexes, so that nodes can be compared
    before, after = _nodes(old), _nodes(new)
    edges_before, edges_after = _edges(old), _edges(new)
    return Changes(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
        edges_added=tuple(sorted(edges_after - edges_before)),
        edges_removed=tuple(sorted(edges_before - edges_after)),
        refused=answer.message if isinstance(answer, c.Refused) else "",
    )


def _nodes(ir: IR) -> dict[str, Node]:
    """The nodes by id, without the fields that follow from edges alone."""
    replace = msgspec.structs.replace
    return {
        node.id: replace(
            node,
            edges_in=(),
            edges_out=(),
            terminal=False,
            lenient=False,
            region=None,
            loop=None if node.loop is None else replace(node.loop, exits=()),
        )
        for node in ir.nodes
        if node is not None
    }


def _edges(ir: IR) -> set[str]:
    names = [None if node is None else node.id for node in ir.nodes]
    return {f"{names[edge.source]} -> {names[edge.target]}" for edge in ir.edges if edge.kind != "back"}
