"""Configs held to the schemas of their types: before a workflow is stored, and again before a node is executed.

In the first check a text with a template in it stands for anything, whatever the schema asks for at its place. In the
second the config is rendered and must fit; one that does not is `bad_config`, and is not tried again. Values never
appear in the messages of the second check, because secrets are filled in by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from perdure import functions
from perdure.budget import Budget
from perdure.expressions.checks import check_parts
from perdure.expressions.json_schema import compile_schema
from perdure.expressions.leaves import has_leaf
from perdure.expressions.rendered_config import BlobRef, Secret, Segments
from perdure.model.definition import NODE_KEYS
from perdure.model.ir import IR, Node
from perdure.model.policies import TYPE_ALIASES
from perdure.model.problems import Problem, describe, format_path
from perdure.nodes.reads import check_reads
from perdure.nodes.registry import NodeType, Path, Registry, has_template
from perdure.nodes.task import NO_FUNCTION
from perdure.nodes.transition_checks import check_transitions
from perdure.plain_text import cut
from perdure.spelling import suggest

if TYPE_CHECKING:
    from perdure.model import Compiled

MOST = 20
_NODE_STEPS = 400  # of a `Budget`: to check one config
_LONGEST = 300
# These keywords look at a whole value at once: with a template somewhere in it, they cannot know.
_OVER_ALL = frozenset({"anyOf", "oneOf", "not", "enum", "const", "contains", "uniqueItems"})
# Whether these keywords apply depends on the rest of the config.
_CONDITIONAL = frozenset({"if", "then", "else", "dependentSchemas", "anyOf", "oneOf", "allOf"})

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


class Mistake(msgspec.Struct, frozen=True):
    path: Path
    code: str
    message: str


def find_mistakes(node_type: NodeType, config: Any, is_open: Callable[[Any], bool] = has_template) -> list[Mistake]:
    """Everything that is wrong with a config. A value that `is_open` accepts may still become anything."""
    return _look_at(node_type, config, is_open)[0]


def _look_at(node_type: NodeType, config: Any, is_open: Callable[[Any], bool]) -> tuple[list[Mistake], Any]:
    """What is wrong with a config, and as much of it as fits the schema; None: nothing can be said of the rest."""
    config = {} if config is None else config
    found: list[Mistake] = []
    schema = node_type.config_schema
    open_somewhere = has_leaf(config, is_open)
    for error in node_type.validator.iter_errors(config):
        if not (open_somewhere and _excused(error, is_open)):
            found += _read_error(error, schema, show=is_open is has_template, hint=node_type.unknown_hint)
        if len(found) >= MOST:
            break
    sound = config if not found else _without(node_type, config, found, is_open) if node_type.has_parts else None
    if isinstance(sound, dict):
        said = list(found)
        for check in (node_type.check, node_type.check_written if is_open is has_template else None):
            more = [Mistake(tuple(path), "bad_config", message) for path, message in check(sound)] if check else []
            found += [one for one in more if not _is_said(one, said)]
    return found[:MOST], sound if node_type.has_parts or not found else None


def _without(node_type: NodeType, config: Any, found: list[Mistake], is_open: Callable[[Any], bool]) -> Any:
    """A written config without the keys that are unknown, and the wrong ones within its parts, if it fits then; else None."""
    if is_open is not has_template or len(found) >= MOST:
        return None
    sound = _copied(config)
    for one in found:
        is_key = bool(one.path) and isinstance(one.path[-1], str)
        if one.code == "missing_key" or not is_key or (len(one.path) == 1 and one.code != "unknown_key"):
            return None
        part = sound
        for step in one.path[:-1]:
            part = part[step]
        part.pop(one.path[-1], None)
    open_somewhere = has_leaf(sound, is_open)
    errors = node_type.validator.iter_errors(sound)
    return None if any(not (open_somewhere and _excused(error, is_open)) for error in errors) else sound


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _is_said(one: Mistake, said: list[Mistake]) -> bool:
    """Whether something is wrong only because a key was taken away whose mistake is named already."""
    around = any(one.path and other.path[: len(one.path)] == one.path for other in said)
    return around or any(other.message.endswith(f"did you mean '{format_path(one.path)}'?") for other in said)


def find_misfits(schema: Any, value: Any, budget: Budget | None = None) -> list[Mistake]:
    """What does not fit a schema, in the same words; a value with a template may become anything. Raises
    SchemaInvalid."""
    open_somewhere = has_leaf(value, has_template)
    found: list[Mistake] = []
    for error in compile_schema(schema).iter_errors(value, budget):
        if not (open_somewhere and _excused(error, has_template)):
            found += _read_error(error, schema, show=True)
        if len(found) >= MOST:
            break
    return found[:MOST]


def explain_rendered(node_type: NodeType, config: Any) -> str:
    """What is wrong with a rendered config, without its values; empty if it fits."""
    config = {} if config is None else config
    try:
        if node_type.validator.is_valid(config) and not _breaks_check(node_type, config):
            return ""
        mistakes = find_mistakes(node_type, config, _never)
    except ValueError:  # a secret or a blob not filled in yet: its place is left open
        mistakes = find_mistakes(node_type, _open_segments(config), _is_open_segment)
    return "; ".join(mistake.message for mistake in mistakes)


def find_problems(ir: IR, registry: Registry, budget: Budget | None = None) -> tuple[Problem, ...]:
    """Everything that the compiler cannot see: conditions, schemas, the configs of node types, and what is read."""
    found = (*check_parts(ir, budget), *check_configs(ir, registry, budget), *check_reads(ir, registry))
    found = (*found, *check_transitions(ir, budget))
    return (*found, *_warn_graph(ir, registry))


def _warn_graph(ir: IR, registry: Registry) -> Iterator[Problem]:
    nodes = [one for _, node in _nodes(ir) for one in (node, node.item) if one is not None]
    for kind in {node.type: registry.find(node.type) for node in nodes}.values():
        if kind is not None and kind.warn_graph is not None:
            for node, code, text in kind.warn_graph(ir, registry):
                yield _problem(("nodes", node), code, text, "warning")


def find_more_problems(compiled: Compiled, registry: Registry, budget: Budget | None = None) -> tuple[Problem, ...]:
    """The same problems for the compiler's result, also where it refused: only those it has not named already."""
    if compiled.ir is not None:
        return find_problems(compiled.ir, registry, budget)
    if compiled.draft is None:
        return ()
    from perdure.model.placement import read_path  # only a caller that compiles has a draft

    said = {problem.path for problem in compiled.problems if problem.severity == "error"}
    more = find_problems(compiled.draft.ir, registry, budget)
    places = compiled.draft.places
    return tuple(problem for problem in more if format_path(read_path(problem.path, places)) not in said)


def joined(compiled: Compiled, problems: tuple[Problem, ...]) -> Compiled:
    """The compiled workflow with more problems; an error among them means that there is no IR."""
    if not problems:
        return compiled
    refused = any(problem.severity == "error" for problem in problems)
    ir = None if refused else compiled.ir
    every = (*compiled.problems, *problems)
    if any(problem.line is not None for problem in every):
        every = tuple(sorted(every, key=lambda problem: (problem.line or 0, problem.column or 0)))
    return msgspec.structs.replace(compiled, ir=ir, problems=every)


def check_configs(ir: IR, registry: Registry, budget: Budget | None = None) -> tuple[Problem, ...]:
    """The problems of every node's config. A type that is unknown here is a warning: a worker elsewhere may have it."""
    budget = budget or Budget.without_end()
    problems: list[Problem] = []
    for path, node in _nodes(ir):
        budget.spend(_NODE_STEPS)
        problems += _check_secrecy(path, node, registry.find(node.type))
        problems += _check_limits(path, node, registry.find(node.type))
        problems += _check_function(path, node, drafted=not ir.hash)
        for place, what, type_name, config in _configs(path, node):
            found = registry.find(type_name)
            if found is not None:
                problems += () if config is _ELSEWHERE else _check(place, what, found, config)
            elif registry.is_broken(type_name):
                problems.append(_problem((*place, "type"), "broken_node_type", registry.explain(type_name)))
            else:
                hint = suggest(type_name, registry.names(), "install it where workers run")
                other = next((f" ({alias})" for alias, name in TYPE_ALIASES.items() if name == type_name), "")
                message = f"there is no node type '{type_name}'{other} here; {hint}"
                problems.append(_problem((*place, "type"), "unknown_type", message, "warning"))
    return tuple(problems)


def _known_config(node: Node) -> Any:
    """A node's config; None if part of it is stored elsewhere."""
    return node.config if node.config_ref is None else None


def find_refused_functions(ir: IR) -> list[str]:
    """Functions that the definition names and that may not be called here: it may be older than the present rules."""
    configs = [(kind, config) for path, node in _nodes(ir) for _, _, kind, config in _configs(path, node)]
    named = [name for kind, config in configs if isinstance(config, dict) for name in _list_functions(kind, config)]
    found = (functions.find_refusal(name) for name in named if isinstance(name, str) and "{{" not in name)
    return [refusal for refusal in found if refusal is not None]


def find_refused_call(kind: str, config: Any) -> str | None:
    """Why a task with this rendered config is given to no worker; None if it may be. A name that cannot be read here, as
    a secret or a sealed field, cannot be compared with what is allowed."""
    if not functions.are_restricted():
        return None
    for name in _list_functions(kind, config):
        if not isinstance(name, str):
            return (
                "the name of the function is a secret, a sealed field or a large value, so it cannot be checked against the modules that "
                "definitions may call here; write the name out, or take it from a plain value"
            )
        if (refusal := functions.find_refusal(name)) is not None:
            return refusal
    return None


def _list_functions(kind: str, config: Any) -> list[Any]:
    """The functions that a config names; what cannot be read here stands for itself."""
    if kind not in ("task", "agent") or not config:
        return []
    if not isinstance(config, dict):
        return [config]
    if kind == "task":
        return [config[key] for key in ("function", "action") if config.get(key)]
    return [*_list_tools(config.get("tools"), named=False), *_list_tools(config.get("available_tools"), named=True)]


def _list_tools(tools: Any, *, named: bool) -> list[Any]:
    """The functions among the tools of an agent. By its name alone a tool is one of Perdure's own; where it may be `named`, it can
    be a function, too."""
    if not isinstance(tools, list):
        return [tools] if tools and not isinstance(tools, str) else []
    found = [one.get("function") for one in tools if isinstance(one, dict) and one.get("function")]
    return found + [one for one in tools if not isinstance(one, dict) and (named or not isinstance(one, str))]


def _check_secrecy(path: Path, node: Node, node_type: NodeType | None) -> list[Problem]:
    """Problems of a node that the coordinator answers: stored as it is, it can hold no secret and seal nothing."""
    if node_type is None or not node_type.is_answered(_known_config(node)):
        return []
    problems = []
    if node.sensitive:
        message = (
            f"node '{node.id}' is of type {node.type}, which needs no worker, and only workers seal sensitive fields"
        )
        problems.append(_problem((*path, "sensitive"), "bad_config", message))
    if not node_type.raw_keys and any(reference.root == "secrets" for reference in node.references):
        message = f"node '{node.id}' is of type {node.type}, whose config is stored; a secret in it would be, too"
        problems.append(_problem((*path, "config"), "bad_config", message))
    return problems


def _check_limits(path: Path, node: Node, node_type: NodeType | None) -> list[Problem]:
    """Warnings about limits on a node that needs no worker: only published tasks are limited."""
    if node_type is None or not node_type.is_answered(_known_config(node)):
        return []
    hint = "put it on its item" if node.type == "map" else "take it away"
    return [
        _problem(
            (*path, gate),
            "bad_config",
            f"{gate} of node '{node.id}' has no effect: a {node.type} needs no worker; {hint}",
            "warning",
        )
        for gate, given in (("concurrency", node.concurrency), ("rate", node.rate))
        if given is not None
    ]


def _check_function(path: Path, node: Node, *, drafted: bool) -> list[Problem]:
    """Problems of a task without a config: it gives its inputs, so it must have some. A draft has no edges yet."""
    problems = []
    if _is_bare(node) and not node.edges_in and not drafted:
        problems.append(_problem(path, "bad_config", f"node '{node.id}': {NO_FUNCTION}, unless it joins others"))
    if node.item is not None and _is_bare(node.item):
        problems.append(
            _problem((*path, "config", "node"), "bad_config", f"the item of node '{node.id}': {NO_FUNCTION}")
        )
    undo = node.compensator
    if undo is not None and undo.type == "task" and not undo.config:
        problems.append(
            _problem((*path, "compensator"), "bad_config", f"compensator of node '{node.id}': {NO_FUNCTION}")
        )
    return problems


def _is_bare(node: Node) -> bool:
    return node.type == "task" and not node.config and node.config_ref is None


def _check(place: Path, what: str, node_type: NodeType, config: Any) -> list[Problem]:
    mistakes, sound = _look_at(node_type, config, has_template)
    problems = [
        _problem((*place, "config", *mistake.path), mistake.code, f"config of {what}: {mistake.message}")
        for mistake in mistakes
    ]
    if node_type.warn is not None and isinstance(sound, dict):
        for path, message in node_type.warn(sound):
            problems.append(_problem((*place, "config", *path), "bad_config", f"{what}: {message}", "warning"))
    return problems


def _problem(path: Path, code: str, message: str, severity: Any = "error") -> Problem:
    return Problem(format_path(path), None, None, code, message, severity)


def _nodes(ir: IR) -> Iterator[tuple[Path, Node]]:
    for node in ir.nodes:
        if node is not None:
            yield ("nodes", node.id), node


_ELSEWHERE = object()
"""A config that is not whole without a blob: the part that can read the blob checks it (`runtime.definition_checks`)."""


def _configs(path: Path, node: Node, what: str = "") -> Iterator[tuple[Path, str, str, Any]]:
    """Every config of a node (its own, its compensator's, its item's) with its place, its owner and its type."""
    what = what or f"node '{node.id}'"
    yield path, what, node.type, node.config if node.config_ref is None else _ELSEWHERE
    if node.compensator is not None:
        yield (*path, "compensator"), f"compensator of {what}", node.compensator.type, node.compensator.config
    if node.item is not None and isinstance(node.config, dict) and "node" in node.config:
        yield from _configs((*path, "config", "node"), node.item, f"the item of {what}")


# -- errors of the schema library --------------------------------------------------------------------------------------


def _excused(error: Any, is_open: Callable[[Any], bool]) -> bool:
    """Whether a config with templates may still come to fit at the place of this error."""
    instance = error.instance
    if is_open(instance) or not _CONDITIONAL.isdisjoint(map(str, error.schema_path[:-1])):
        return True
    return error.kind.name in _OVER_ALL and has_leaf(instance, is_open)


def _read_error(error: Any, schema: Any, *, show: bool, hint: str = "") -> list[Mistake]:
    """The library's error in our words. With `show` the value stands in the definition, so the message may have it."""
    path: Path = tuple(error.instance_path)
    what = f"'{format_path(path)}'" if path else "it"
    got = f", got {describe(error.instance)}" if show else ""
    match error.kind.name:
        case "required":
            return [Mistake(path, "missing_key", f"{what} has no '{error.kind.property}'")]
        case "additionalProperties":
            known = _known_keys(error, schema)
            return [
                Mistake(
                    (*path, key),
                    "unknown_key",
                    f"unknown key '{cut(key, 80)}'{_hint(key, known, '' if path else _hint_place(key) or hint)}",
                )
                for key in error.kind.unexpected
            ]
        case "type":
            wanted = [_TYPES[name] for name in error.kind.types if name != "null"] or ["null"]
            text = f"{what} must be {' or '.join(wanted)}{got}"
        case "enum":
            text = f"{what} must be one of {', '.join(map(_plain, error.kind.options))}{got}"
        case "const":
            text = f"{what} must be {_plain(error.kind.expected_value)}{got}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            text = f"{what} must be {_BOUNDS[error.kind.name]} {error.kind.limit}{got}"
        case name:
            text = f"{what}: {error.message}" if show else f"{what} does not fit ({name})"
    return [Mistake(path, "bad_config", cut(text, _LONGEST))]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _known_keys(error: Any, schema: Any) -> list[str]:
    for part in error.schema_path[:-1]:
        schema = schema.get(part) if isinstance(schema, dict) else schema[part] if isinstance(schema, list) else None
    return sorted(schema.get("properties", ())) if isinstance(schema, dict) else []


def _hint_place(key: str) -> str:
    return f"'{key}' stands on the node, beside config" if key in NODE_KEYS else ""


def _hint(key: str, known: list[str], otherwise: str) -> str:
    return f"; {suggest(key, known, otherwise)}" if known or otherwise else ""


# -- rendered configs --------------------------------------------------------------------------------------------------


def _breaks_check(node_type: NodeType, config: Any) -> bool:
    for _ in node_type.check(config) if node_type.check is not None else ():
        return True
    return False


def _never(value: Any) -> bool:
    return False


_OPEN = "{{\0}}"


def _is_open_segment(value: Any) -> bool:
    return isinstance(value, str) and value == _OPEN


def _open_segments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _open_segments(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_open_segments(item) for item in value]
    return _OPEN if isinstance(value, Secret | Segments | BlobRef) else value
