"""The parts of a node that say how it is tried, joined, limited and undone, in canonical form: defaults left out.

Must not know the graph; what names other nodes is in `paths.py`.
"""

from __future__ import annotations

from typing import Any

from perdure.model.fields import YEAR_MS, YEAR_SECONDS, Fields, as_fields
from perdure.model.ir import ANSWERED_TYPES, SHORTEST_RATE_SECONDS
from perdure.model.labels import CONFIDENTIALITIES, INTEGRITIES
from perdure.model.problems import Path, Problems, describe
from perdure.model.transitions import MOST_FANOUT
from perdure.spelling import find_close

# A second try of these is a second question, wait or child, so a definition must ask for it.
SINGLE_ATTEMPT_TYPES = frozenset({"human", "wait", "workflow"})
MAX_ATTEMPTS = 1000

_RETRY_KEYS = frozenset(
    {"max_attempts", "backoff_ms", "multiplier", "max_backoff_ms", "jitter", "retry_on", "give_up_on"}
)
_RETRY_DEFAULTS = {"backoff_ms": 1000, "multiplier": 2, "max_backoff_ms": 60_000, "jitter": True}

_JOIN_KEYS = ("at_least", "cancel_rest")
_NODE_LIMIT_KEYS = ("deadline_s", "deadline_seconds", "max_hops", "max_fanout")
_COMPENSATOR_KEYS = ("type", "handler", "config", "action", "timeout_seconds", "timeout_sec", "retry")

ON_TIMEOUT = ("reject", "approve", "fail", "escalate")
_ESCALATION_POLICIES = {
    "auto_approve": "approve",
    "auto_reject": "reject",
    "auto_approve_after_timeout": "approve",
    "auto_reject_after_timeout": "reject",
    "fail_after_timeout": "fail",
    "escalate_after_timeout": "escalate",
    **{choice: choice for choice in ON_TIMEOUT},
}
_HUMAN_DEFAULTS = {"on_timeout": "reject", "quorum": 1}
_COMPUTABLE = frozenset({"timeout_seconds", "on_timeout", "quorum"})
_HUMAN_KEYS = frozenset(
    {
        "approver",
        "title",
        "approvers",
        "quorum",
        "timeout_seconds",
        "timeout_hours",
        "on_timeout",
        "escalation_policy",
        "escalate_to",
        "form",
        "approval_ui_url",
    }
)


def default_attempts(type: str) -> int:
    return 1 if type in SINGLE_ATTEMPT_TYPES else 3


def read_retry(owner: Fields, attempts: int) -> dict[str, Any]:
    """The canonical `retry` of a node or compensator; `attempts` is the default of its type."""
    value = owner.data.get("retry")
    if value is None:
        return {}
    what = f"retry of {owner.what}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = {"max_attempts": value}
    fields = as_fields(value, (*owner.path, "retry"), what, owner.problems, _RETRY_KEYS)
    if fields is None:
        return {}
    canonical: dict[str, Any] = {
        "max_attempts": fields.integer("max_attempts", 1, MAX_ATTEMPTS),
        "backoff_ms": fields.integer("backoff_ms", 0, YEAR_MS),
        "multiplier": fields.number("multiplier", 1, 1000),
        "max_backoff_ms": fields.integer("max_backoff_ms", 0, YEAR_MS),
        "jitter": fields.flag("jitter"),
        "retry_on": fields.texts("retry_on") or None,
        "give_up_on": fields.texts("give_up_on") or None,
    }
    defaults = {"max_attempts": attempts, **_RETRY_DEFAULTS}
    return {k: v for k, v in canonical.items() if v is not None and defaults.get(k) != v}


def read_join(fields: Fields) -> Any:
    """The canonical join; None for `all`."""
    wait = fields.flag("wait_for_all")
    if wait is False:
        fields.error(
            "wrong_value", "wait_for_all", f"'wait_for_all' of {fields.what} can only be true; write join: any instead"
        )
    value = fields.data.get("join")
    if value is None:
        return None
    if isinstance(value, str):
        value = fields.choice("join", ("all", "any"))
        canonical: Any = None if value == "all" else value
    else:
        inner = as_fields(value, (*fields.path, "join"), f"join of {fields.what}", fields.problems, _JOIN_KEYS)
        if inner is None:
            return None
        if not inner.has("at_least"):
            inner.error("missing_key", "", f"{inner.what} has no 'at_least'; write {{at_least: 1}}, or join: all")
        at_least = inner.data.get("at_least")
        if isinstance(at_least, int) and not isinstance(at_least, bool) and at_least < 1:
            inner.error("impossible_join", "at_least", f"{inner.what} asks for {at_least} edges; ask for at least 1")
            return None
        at_least = inner.integer("at_least", 1, 10_000_000)
        if at_least is None:
            return None
        canonical = {"at_least": at_least}
        if inner.flag("cancel_rest"):
            canonical["cancel_rest"] = True
        elif at_least == 1:
            canonical = "any"
    if wait and canonical is not None:
        fields.conflict("join", "wait_for_all")
    return canonical


def read_node_limits(fields: Fields) -> dict[str, Any]:
    """The canonical `limits` of a node, in which deadline_s is another name of timeout_seconds."""
    value = fields.data.get("limits")
    if value is None:
        return {}
    what = f"limits of {fields.what}"
    inner = as_fields(value, (*fields.path, "limits"), what, fields.problems, _NODE_LIMIT_KEYS)
    if inner is None:
        return {}
    key = inner.one_of("deadline_s", "deadline_seconds")
    return {
        "timeout_seconds": inner.seconds(key) if key else None,
        "max_hops": inner.integer("max_hops", 1, 1_000_000_000),
        "max_fanout": inner.integer("max_fanout", 1, MOST_FANOUT),
    }


def read_gate(fields: Fields, key: str, known: tuple[str, ...]) -> dict[str, Any] | None:
    """The canonical `concurrency` or `rate`."""
    value = fields.data.get(key)
    if value is None:
        return None
    inner = as_fields(value, (*fields.path, key), f"{key} of {fields.what}", fields.problems, known)
    if inner is None:
        return None
    canonical: dict[str, Any] = {"key": inner.text("key"), "limit": inner.integer("limit", 1, 1_000_000)}
    if "per_seconds" in known:
        canonical["per_seconds"] = inner.number("per_seconds", SHORTEST_RATE_SECONDS, 10 * YEAR_SECONDS)
    for name in known:
        if name != "key" and not inner.has(name):
            inner.error("missing_key", "", f"{inner.what} has no '{name}'")
    return {k: v for k, v in canonical.items() if v is not None}


def read_labels(fields: Fields) -> dict[str, str] | None:
    """The canonical `labels`: what the author says of the output, whatever it is made of."""
    value = fields.data.get("labels")
    if value is None:
        return None
    known = {"integrity": INTEGRITIES, "confidentiality": CONFIDENTIALITIES}
    inner = as_fields(value, (*fields.path, "labels"), f"labels of {fields.what}", fields.problems, tuple(known))
    if inner is None:
        return None
    canonical = {key: inner.choice(key, words) for key, words in known.items()}
    return {key: word for key, word in canonical.items() if word is not None} or None


def read_compensator(fields: Fields) -> dict[str, Any] | None:
    value = fields.data.get("compensator")
    if value is None:
        return None
    inner = as_fields(
        value, (*fields.path, "compensator"), f"compensator of {fields.what}", fields.problems, _COMPENSATOR_KEYS
    )
    if inner is None:
        return None
    config = inner.mapping("config")
    if inner.has("action"):
        action = inner.text("action")
        if config is not None and config.get("action", action) != action:
            inner.conflict("config", "action")
        config = {**(config or {}), "action": action}
    type = read_type(inner, config)
    if type is None:
        return None
    if type in ANSWERED_TYPES:
        why = "the engine answers for such nodes, and no worker can execute one to undo something"
        inner.error("wrong_value", "type", f"{inner.what} cannot be of type {type}: {why}; call a task, or http")
        return None
    if type == "task" and config:
        config = dict(config)
        settle_task(config, (*inner.path, "config"), inner.what, inner.problems)
    canonical: dict[str, Any] = {"type": type}
    if config:
        canonical["config"] = config
    key = inner.one_of("timeout_seconds", "timeout_sec")
    seconds = inner.seconds(key) if key else None
    if seconds is not None:
        canonical["timeout_seconds"] = seconds
    retry = read_retry(inner, 3)
    if retry:
        canonical["retry"] = retry
    return canonical


TYPE_ALIASES = {"call_external_service": "http", "llm_service": "llm"}


def read_type(fields: Fields, config: Any) -> str | None:
    key = fields.one_of("type", "handler")
    if key is None:
        if isinstance(config, dict) and (config.get("action") is not None or config.get("function") is not None):
            return "task"
        fields.error("missing_key", "", f"{fields.what} has no 'type'; say what it does, e.g. type: task")
        return None
    name = fields.name(key)
    if name == "function" and isinstance(config, dict) and config.get("function") is not None:
        return "task"  # a function of a module; code inside a definition is another type
    return None if name is None else TYPE_ALIASES.get(name, name)


def read_human(config: Any, node: Fields) -> dict[str, Any]:
    """The config of a human node. The time to decide may stand in three places; they must agree."""
    merged: dict[str, Any] = dict(config or {})
    path: Path = (*node.path, "config")
    settle_human(merged, path, node, node.problems)
    written = node.data.get("human_config")
    if written is not None:
        path = (*node.path, "human_config")
        inner = as_fields(written, path, f"human_config of {node.what}", node.problems, _HUMAN_KEYS)
        if inner is not None:
            extra = {k: v for k, v in inner.data.items() if k in _HUMAN_KEYS and v is not None}
            settle_human(extra, path, node, node.problems)
            merge(merged, extra, path, node)
    if node.has("timeout_seconds"):
        seconds = node.seconds("timeout_seconds")
        if seconds is not None:
            merge(merged, {"timeout_seconds": seconds}, node.path, node)
    # Only now, and not beside a config_ref: one place must not undo what another says.
    if not node.has("config_ref"):
        for key, value in _HUMAN_DEFAULTS.items():
            if merged.get(key) == value:
                del merged[key]
    return merged


def settle_human(config: dict[str, Any], path: Path, node: Fields, problems: Problems) -> None:
    """Turn hours and escalation policies of the reference documents into timeout_seconds and on_timeout."""
    known = {key: value for key, value in config.items() if key not in _COMPUTABLE or not is_template(value)}
    fields = Fields(known, path, f"config of {node.what}", problems, config)
    before = problems.errors
    if config.get("approver") is not None:  # one person, as the reference documents write it
        if config.setdefault("approvers", [config["approver"]]) not in ([config["approver"]], config["approver"]):
            fields.conflict("approvers", "approver")
        del config["approver"]
    seconds = fields.seconds("timeout_seconds")
    hours = fields.number("timeout_hours", 0, 24 * 3660, above=True)
    policy = fields.choice("escalation_policy", _ESCALATION_POLICIES)
    fields.choice("on_timeout", ON_TIMEOUT)
    fields.integer("quorum", 1, 10_000)
    if problems.errors > before:
        return
    if seconds is not None:
        config["timeout_seconds"] = seconds
    if config.pop("timeout_hours", None) is not None and hours is not None:
        converted = hours * 3600
        converted = int(converted) if float(converted).is_integer() else converted
        if config.setdefault("timeout_seconds", converted) != converted:
            fields.conflict("timeout_seconds", "timeout_hours")
    if config.pop("escalation_policy", None) is not None and policy is not None:
        choice = _ESCALATION_POLICIES[policy]
        if config.setdefault("on_timeout", choice) != choice:
            fields.conflict("on_timeout", "escalation_policy")


_TASK_KEYS = ("function", "action", "args")


def settle_task(config: dict[str, Any], path: Path, what: str, problems: Problems) -> None:
    """Move the arguments of an action to `args`. The reference documents write `{action: email, to: ann}`: any key that
    is no key of a task is an argument of its action."""
    if config.get("action") is None or config.get("function") is not None:
        return
    extra = [key for key in config if key not in _TASK_KEYS and find_close(key, _TASK_KEYS) is None]
    args = config.get("args")
    if not extra or not isinstance(args, dict | None):
        return
    args = dict(args or {})
    for key in extra:
        value = config.pop(key)
        if args.setdefault(key, value) != value:
            problems.error(
                "conflicting_keys",
                (*path, key),
                f"'{key}' of {what} is {describe(args[key])} in args and {describe(value)} beside them; keep one of them",
            )
    config["args"] = args


def is_template(value: Any) -> bool:
    """Whether a value is a template: known only when the node runs, and checked by its type then."""
    return isinstance(value, str) and "{{" in value


def merge(config: dict[str, Any], extra: dict[str, Any], path: Path, node: Fields) -> None:
    for key, value in extra.items():
        if key in config and config[key] != value:
            node.problems.error(
                "conflicting_keys",
                (*path, key),
                f"'{key}' of {node.what} is {describe(config[key])} in config and {describe(value)} here; keep one of them",
            )
        config.setdefault(key, value)
