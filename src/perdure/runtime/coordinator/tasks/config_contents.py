"""The contents of blobs that a config names: those that its node type reads are loaded, what it only passes on stays named."""

from __future__ import annotations

from typing import Any

from perdure.expressions.at_hand import AtHand, pick, resolve
from perdure.kernel.segments import BlobRef
from perdure.nodes.registry import NodeType


def resolve_top(value: Any, path: str, at_hand: AtHand) -> Any:
    """A value with its own content loaded, but not that of the values inside it."""
    return pick(value.ref, path, at_hand) if type(value) is BlobRef else value


def load_config(config: Any, kind: NodeType, at_hand: AtHand) -> Any:
    """The config with the contents its type reads; values the type only passes on stay references."""
    if kind.ref_keys is None:
        return config
    if not isinstance(config, dict):
        return resolve(config, "config", at_hand)
    loaded: dict[str, Any] = {}
    for key, value in config.items():
        if key in kind.ref_keys:
            loaded[key] = value
        else:
            load = resolve_top if f"{key}[]" in kind.ref_keys else resolve
            loaded[key] = load(value, f"config.{key}", at_hand)
    return loaded
