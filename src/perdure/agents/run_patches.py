"""What an agent may make of its own run (`patch_workflow`): new nodes out of a palette, after itself.

The kernel sees to it that nothing but additions is made, and that no approval is led around (rule 87). This file owns what those
additions may be: which types, which functions and addresses, and what their configs may read. It applies operations to a
definition and judges what came of them; it changes no run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.egress.errors import EgressRefused
from perdure.egress.urls import Url, parse
from perdure.model.ir import IR, Node
from perdure.nodes.registry import has_template
from perdure.plain_text import cut

PATCH = "patch_workflow"
TYPES = ("http", "transform", "task", "function", "search", "wait", "llm", "classifier")
"""What a palette may have: types that work once, and ask nobody."""
MOST_NODES = 10
NODES = 5
"""How many nodes a patch adds at most, unless the tool says otherwise."""
_KEYS = frozenset({"id", "type", "config", "timeout_seconds", "retry", "join", "on_failure"})
_ENDS = frozenset({"from", "to"})
_ON_FAILURE = ("fail", "continue")
_LARGEST = 64 * 1024
_ASKS_MODELS = ("llm", "classifier")


class Palette(msgspec.Struct, frozen=True):
    """What an agent may add to its run."""

    types: tuple[str, ...]
    max_nodes: int = NODES
    functions: tuple[str, ...] = ()
    """The functions that are tools of the agent."""
    origins: tuple[str, ...] = ()
    """Where its own requests may go."""
    models: tuple[str, ...] = ()


def read_palette(config: Any) -> Palette | None:
    """What the config of an agent lets it add; None: nothing."""
    if not isinstance(config, dict):
        return None
    lists = [config[key] for key in ("tools", "available_tools") if isinstance(config.get(key), list)]
    tools = [one if isinstance(one, dict) else {"function": one} for entries in lists for one in entries]
    given = next((one[PATCH] for one in tools if isinstance(one.get(PATCH), dict)), None)
    if given is None or not isinstance(given.get("palette"), list):
        return None
    pipelines = [one["execute_pipeline"] for one in tools if isinstance(one.get("execute_pipeline"), dict)]
    origins = [origin for one in (given, *pipelines) for origin in one.get("origins") or ()]
    functions = [one["function"] for one in tools if "function" in one and one.get("approve", "tainted") != "always"]
    named = [config.get("model"), *(config.get("fallback") or ())]
    return Palette(
        tuple(one for one in given["palette"] if one in TYPES),
        min(int(given.get("max_nodes", NODES)), MOST_NODES),
        tuple(map(str, functions)),
        tuple(dict.fromkeys(map(str, origins))),
        tuple(one for one in named if isinstance(one, str)),
    )


# -- operations --------------------------------------------------------------------------------------------------------


def find_bad_operations(operations: Any, palette: Palette) -> Iterator[str]:
    """What is wrong with the operations of a patch by themselves, in words for the model."""
    if not isinstance(operations, list) or not operations:
        yield "operations are a list of additions"
        return
    if len(msgspec.json.encode(operations)) > _LARGEST:
        yield f"the operations have more than {_LARGEST:,} bytes"
        return
    nodes = 0
    for number, one in enumerate(operations):
        where = f"operation {number}"
        if not isinstance(one, dict) or one.get("op") != "add" or one.get("path") not in ("/nodes/-", "/edges/-"):
            yield f'{where}: a patch of a run only adds: {{"op": "add", "path": "/nodes/-" or "/edges/-", "value": …}}'
            continue
        value = one.get("value")
        if one.keys() != {"op", "path", "value"} or not isinstance(value, dict):
            yield f"{where}: it needs a value, and nothing else besides op and path"
        elif one["path"] == "/edges/-":
            if value.keys() != _ENDS or not all(isinstance(end, str) and end for end in value.values()):
                yield f'{where}: an edge is {{"from": node, "to": node}}'
        else:
            nodes += 1
            yield from (f"{where}: {problem}" for problem in _find_bad_node(value, palette))
    if nodes > palette.max_nodes:
        yield f"it adds {nodes} nodes, and {palette.max_nodes} are allowed"
    if not nodes:
        yield "it adds no node"


def _find_bad_node(node: dict[str, Any], palette: Palette) -> Iterator[str]:
    if not isinstance(node.get("id"), str) or not isinstance(node.get("type"), str):
        yield "a node has an id and a type"
        return
    name = cut(node["id"], 100)
    if unknown := sorted(map(str, node.keys() - _KEYS)):
        yield f"node {name!r}: {', '.join(cut(key, 60) for key in unknown[:5])} cannot be given here; a node has {', '.join(sorted(_KEYS))}"
    if node["type"] not in palette.types:
        yield f"node {name!r}: its type is {cut(node['type'], 60)!r}; the palette has {', '.join(palette.types)}"
    if node.get("on_failure", "fail") not in _ON_FAILURE:
        yield f"node {name!r}: on_failure is one of {', '.join(_ON_FAILURE)}"


def extend(definition: Any, operations: list[Any], asker: str) -> Any:
    """The definition with what is added. New nodes that the asker leads to can be chosen by it, if it chooses."""
    extended = copy.deepcopy(definition)
    nodes, edges = extended.setdefault("nodes", []), extended.setdefault("edges", [])
    old = {node.get("id") for node in nodes}
    for one in operations:
        value = copy.deepcopy(one["value"])
        if one["path"] == "/nodes/-":
            for called in _callers(value.get("type"), value.get("config")):
                called.setdefault("follow_redirects", False)
        (nodes if one["path"] == "/nodes/-" else edges).append(value)
    first = [edge["to"] for edge in edges if edge.get("from") == asker and edge.get("to") not in old]
    for node in nodes:
        branch = node.get("branch") if node.get("id") == asker else None
        if isinstance(branch, dict) and "available_next_nodes" in branch:
            branch["available_next_nodes"] = list(dict.fromkeys([*branch["available_next_nodes"], *first]))
    return extended


# -- what came of them -------------------------------------------------------------------------------------------------


def find_outside(
    old: IR, new: IR, asker: str, palette: Palette, urls: Callable[[str], tuple[tuple[str, ...], ...]]
) -> Iterator[str]:
    """What the new nodes are, do or read that the agent may not let them. `urls`: where a type has URLs in its config."""
    before = {node.id for node in old.nodes if node is not None}
    added = {node.id: node for node in new.nodes if node is not None and node.id not in before}
    known = {asker, *added}
    for name, node in sorted(added.items()):
        yield from (f"node {name!r}: {problem}" for problem in _find_outside(node, palette, known, urls(node.type)))


def _find_outside(node: Node, palette: Palette, known: set[str], urls: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    config = node.config if isinstance(node.config, dict) else {}
    if node.type not in palette.types:  # the compiler knows other names of types
        yield f"its type is {node.type!r}; the palette has {', '.join(palette.types)}"
    if node.config_ref is not None or node.type_url is not None:
        yield "its config is written in the patch, and nowhere else"
    for reference in node.references:
        if reference.root == "node" and reference.node in known:
            continue
        if reference.root != "inputs":
            what = f"what {reference.node!r} gave" if reference.root == "node" else f"'{reference.root}'"
            yield f"it reads {what}; it may read the inputs of the run, what the agent gives, and what is added with it"
    if _has_secret(config):
        yield "it names a secret"
    if node.type == "task":
        called = config.get("function") or config.get("action")
        if not isinstance(called, str) or called not in palette.functions:
            allowed = ", ".join(palette.functions) or "none"
            yield f"it calls {cut(str(called), 100)!r}; it may call the functions of the agent's tools that are not always asked about: {allowed}"
    if node.type in _ASKS_MODELS and config.get("model") not in palette.models:
        yield f"it asks another model than the agent: {', '.join(palette.models)}"
    for keys in urls:
        for url in _values(config, keys):
            if (problem := _find_bad_url(url, palette)) is not None:
                yield problem
    if any(called.get("follow_redirects") is not False for called in _callers(node.type, config)):
        yield "it follows redirects, which lead where nobody allowed"


def _callers(type: Any, config: Any) -> list[dict[str, Any]]:
    """The parts of a config that say what is requested, and whether redirects are followed."""
    if type == "http":
        return [config] if isinstance(config, dict) else []
    steps = _values(config, ("pipeline", "*")) if type == "transform" else ()
    return [step for step in steps if isinstance(step, dict) and step.get("step") == "http_request"]


def _has_secret(value: Any) -> bool:
    """Whether a config names a secret, by a template or as credentials."""
    if isinstance(value, dict):
        return any(
            key in ("secret", "secrets", "auth", "credentials") or _has_secret(one) for key, one in value.items()
        )
    if isinstance(value, list):
        return any(map(_has_secret, value))
    return isinstance(value, str) and "secrets." in value and has_template(value)


def _values(config: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    """What stands at a place of a config; `*` is any item of a list."""
    if not keys:
        yield config
    elif keys[0] == "*":
        for one in config if isinstance(config, list) else ():
            yield from _values(one, keys[1:])
    elif isinstance(config, dict) and keys[0] in config:
        yield from _values(config[keys[0]], keys[1:])


def _find_bad_url(url: Any, palette: Palette) -> str | None:
    allowed = {found.origin for one in palette.origins if (found := read_url(one)) is not None}
    some = ", ".join(palette.origins) or "nowhere"
    literal = url.partition("{{")[0] if isinstance(url, str) else ""
    if isinstance(url, str) and has_template(url) and literal.count("/") < 3:
        return f"the origin of {cut(url, 200)} is not written out; it may call {some}"
    found = read_url(literal)
    if found is None or found.origin not in allowed:
        return f"it may call {some}, and not {cut(str(url), 200)}"
    return None


def read_url(text: Any) -> Url | None:
    if not isinstance(text, str):
        return None
    try:
        return parse(text if "://" in text else f"https://{text}")
    except EgressRefused:
        return None
