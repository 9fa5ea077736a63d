"""Content that a definition keeps as blobs, put in where the definition names it.

Owns what `config` and `config_ref` of one node mean together: both hold, and where they say different things, that is an
error and never a silent choice. The same function joins them when a definition is checked and when a node is dispatched. It
must not know where blobs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from perdure.model.fields import Fields
from perdure.model.policies import settle_human, settle_task
from perdure.model.problems import Found, Path, Problems, describe


def join_config(type: str, config: Any, content: Any, what: str) -> tuple[Any, list[str]]:
    """A node's config with the content of its `config_ref`, and what is wrong with the two together."""
    if not isinstance(content, dict):
        return config, [f"the content of config_ref of {what} must be a mapping, got {describe(content)}"]
    content, problems = dict(content), Problems()
    if type == "human":
        path: Path = ("config_ref",)
        settle_human(content, path, Fields({}, path, what, problems, ()), problems)
    elif type == "task":
        settle_task(content, ("config_ref",), what, problems)
    wrong = [f"the content of config_ref of {what}: {found.message}" for found in problems.found]
    joined = dict(config or {})
    for key, value in content.items():
        if key in joined and joined[key] != value:
            wrong.append(
                f"'{key}' of {what} is {describe(joined[key])} in the definition and {describe(value)} in the content "
                "of its config_ref; keep one of them"
            )
        joined.setdefault(key, value)
    return joined, wrong


class Inlined(msgspec.Struct, frozen=True):
    """A definition with its blobs put in."""

    definition: dict[str, Any]
    places: dict[Path, Path]
    """Where content was put in, to where the definition names it."""
    parts: frozenset[Path]
    """Configs that were joined: the definition alone could not show what is found in them now."""
    problems: tuple[Found, ...]

    def find_origin(self, path: Path) -> Path | None:
        """The place in the definition that a path in the inlined content comes from; None for other paths."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return next((path for length in range(len(path), 0, -1) if path[:length] in self.parts), None)


def inline(definition: Mapping[str, Any], find: Callable[[str], tuple[bool, Any]]) -> Inlined:
    """Put in the content of all blobs. `definition` is canonical; `find` says if an address is known, and its content."""
    places: dict[Path, Path] = {}
    parts: set[Path] = set()
    problems: list[Found] = []
    nodes = []
    for number, node in enumerate(definition["nodes"]):
        path: Path = ("nodes", number)
        node = _inline_config(node, path, f"node '{node['id']}'", find, places, parts, problems)
        for place, condition in _conditions(node):
            node = _put(node, place, _inline_condition(condition, (*path, *place), find, places))
        nodes.append(node)
    return Inlined({**definition, "nodes": nodes}, places, frozenset(parts), tuple(problems))


def _inline_config(
    node: dict[str, Any],
    path: Path,
    what: str,
    find: Callable[[str], tuple[bool, Any]],
    places: dict[Path, Path],
    parts: set[Path],
    problems: list[Found],
) -> dict[str, Any]:
    config = node.get("config")
    if node.get("type") == "map" and isinstance(config, dict) and isinstance(config.get("node"), dict):
        item = _inline_config(
            config["node"], (*path, "config", "node"), f"the item of {what}", find, places, parts, problems
        )
        return {**node, "config": {**config, "node": item}}
    address = address_of(node)
    if address is None:
        return node
    known, content = find(address)
    if not known:
        return node
    joined, wrong = join_config(node["type"], config, content, what)
    named: Path = (*path, "config_ref")
    code = "conflicting_keys" if isinstance(content, dict) else "bad_config"
    problems += [Found(named, code, message, "error") for message in wrong]
    if not isinstance(content, dict):
        return node
    parts.add((*path, "config"))
    places.update({(*path, "config", key): named for key in joined if key not in (config or ())})
    if not config:  # then a missing key is missing in the blob
        places[(*path, "config")] = named
    rest = {key: value for key, value in node.items() if key != "config_ref"}
    return {**rest, "config": joined} if joined else rest


def address_of(node: Mapping[str, Any]) -> str | None:
    """The content address in `config_ref` of a node in canonical form."""
    reference = node.get("config_ref")
    return reference.get("cas_ref") if isinstance(reference, dict) else reference


def _conditions(node: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    if "when" in node:
        yield ("when",), node["when"]
    if "loop" in node:
        yield ("loop", "condition"), node["loop"]["condition"]
    for number, rule in enumerate(node.get("branch", {}).get("rules", ())):
        yield ("branch", "rules", number, "condition"), rule["condition"]


def _inline_condition(
    condition: dict[str, Any], path: Path, find: Callable[[str], tuple[bool, Any]], places: dict[Path, Path]
) -> dict[str, Any]:
    made = dict(condition)
    for key, inner in (("schema_ref", "schema"), ("code_ref", "code")):
        if key in condition:
            known, content = find(condition[key])
            if known:
                del made[key]
                made[inner] = content
                places[path] = (*path, key)
    if "conditions" in condition:
        made["conditions"] = [
            _inline_condition(one, (*path, "conditions", number), find, places)
            for number, one in enumerate(condition["conditions"])
        ]
    return made


def _put(value: Any, place: Path, new: Any) -> Any:
    """A copy of a value with another one at one place."""
    if not place:
        return new
    first, rest = place[0], place[1:]
    if isinstance(first, int):
        return [_put(one, rest, new) if number == first else one for number, one in enumerate(value)]
    return {**value, first: _put(value[first], rest, new)}
