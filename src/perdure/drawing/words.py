"""What a picture says in words: a condition in one line, and the one thing worth knowing about a node's config."""

from __future__ import annotations

import json
from typing import Any

from perdure.model.ir import Condition, Node


def say_condition(condition: Condition) -> str:
    return _say(condition.kind, condition.spec)


def _say(kind: str, spec: dict[str, Any]) -> str:
    match kind:
        case "cel":
            return str(spec.get("expression", ""))
        case "jsonpath":
            value = f" {_value(spec['value'])}" if "value" in spec else ""
            return f"{spec.get('query', '')} {spec.get('operator', '')}{value}"
        case "schema_validation":
            return "does not match the schema" if spec.get("invert") else "matches the schema"
        case "cross_node_comparison":
            if "expression" in spec:
                return str(spec["expression"])
            return f"{_operand(spec.get('left'))} {spec.get('operator', '')} {_operand(spec.get('right'))}"
        case "composite":
            parts = [_say(part.get("type", ""), part) for part in spec.get("conditions", ())]
            if spec.get("operator") == "NOT":
                return f"not ({', '.join(parts)})"
            return f" {str(spec.get('operator', '')).lower()} ".join(f"({part})" for part in parts)
        case "python_sandbox":
            return "evaluate(output, context)"
        case _:
            return kind


def _operand(operand: Any) -> str:
    if not isinstance(operand, dict):
        return "?"
    if "value" in operand:
        return _value(operand["value"])
    root = operand.get("node") if operand.get("source") == "context" else "output"
    path = str(operand.get("path", "")).removeprefix("$").lstrip(".")
    return f"{root}.{path}" if path else str(root)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def say_config(node: Node) -> str:
    """What a node is about: `tasks:charge`, `GET example.com/rates`, `30 s`."""
    config = node.config if isinstance(node.config, dict) else {}
    match node.type:
        case "task":
            return str(config.get("function") or config.get("action") or "")
        case "http":
            url = str(config.get("url", "")).partition("://")[2] or str(config.get("url", ""))
            return f"{config.get('method', 'GET')} {url.partition('?')[0]}"
        case "wait":
            return _say_wait(config)
        case "trigger":
            return _say_trigger(config)
        case "human":
            people = config.get("approvers") or []
            named = ", ".join(map(str, people)) if isinstance(people, list) else str(people)
            quorum = config.get("quorum", 1)
            return f"{quorum} of {named}" if isinstance(quorum, int) and quorum > 1 else named
        case "workflow":
            return str(config.get("workflow", ""))
        case "map":
            return _say_map(node, config)
        case "transform":
            kind = next((key for key in ("jq", "pipeline") if key in config), "")
            return f"jq {config['jq']}" if kind == "jq" else kind
        case "llm" | "agent" | "classifier":
            return str(config.get("model", ""))
        case _:
            return ""


def _say_wait(config: dict[str, Any]) -> str:
    if "signal" in config:
        return f"signal {config['signal']}"
    if "event" in config:
        return f"event {config['event']}"
    if "until" in config:
        return f"until {_bare(config['until'])}"
    return _say_seconds(config["seconds"]) if "seconds" in config else ""


def _say_trigger(config: dict[str, Any]) -> str:
    kind = next(
        (one for one in config if isinstance(config[one], dict) and one not in ("filter", "catchup", "limits")), ""
    )
    named = next(
        (
            str(config[kind][key])
            for key in ("name", "workflow", "table", "url", "type")
            if kind and key in config[kind]
        ),
        "",
    )
    return f"{kind} {named}".strip()


def _say_seconds(value: Any) -> str:
    """A time in the largest unit that keeps it short: `90 s`, `6 h`, `30 days`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{_bare(value)} s"
    for size, unit in ((86_400, "day"), (3600, "h"), (60, "min")):
        if value >= size and value % size == 0:
            count = int(value // size)
            return f"{count} {unit}{'s' * (unit == 'day' and count > 1)}"
    return f"{value:g} s"


def say_duration(seconds: float) -> str:
    """How long something took, in a word or two."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def _say_map(node: Node, config: dict[str, Any]) -> str:
    over = config.get("over", "")
    items = f"each of {len(over)}" if isinstance(over, list) else f"each of {_bare(over)}"
    what = config.get("workflow") or (say_config(node.item) or node.item.type if node.item is not None else "")
    return f"{items}: {what}" if what else items


def _bare(template: Any) -> str:
    """A template without its braces: `{{ inputs.cities }}` as `inputs.cities`."""
    text = str(template).strip()
    inner = text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") else text
    return text if "{{" in inner else inner
