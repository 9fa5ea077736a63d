"""`human`: a person decides. It has approvers, a quorum, a time to decide and an action for when that passes.

The compiler has brought every spelling together by now (`human_config`, `timeout_hours`, the node's `timeout_seconds`);
the kernel counts votes and lets the time pass (rules 23 and 38).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.egress.errors import EgressRefused
from perdure.egress.urls import parse
from perdure.expressions.json_schema import find_mistake
from perdure.expressions.schema_cost import is_light
from perdure.kernel.segments import has_refs
from perdure.kernel.values import Wait
from perdure.nodes.registry import Answer, Call, Failed, NodeType, Path, Suspended, has_template
from perdure.nodes.wait import LONGEST_SECONDS
from perdure.plain_text import cut, find_name_trouble

_PERSON = {"type": "string", "minLength": 1, "maxLength": 200}
_PEOPLE = {**_PERSON, "type": ["array", "string"], "maxItems": 100, "items": _PERSON}


def _answer(call: Call) -> Answer:
    config: dict[str, Any] = call.config or {}
    shown = dict(call.inputs)
    for key in ("title", "show", "approval_ui_url"):
        if key in config:
            shown[key] = config[key]
    seconds = config.get("timeout_seconds")
    if (mistake := _find_mistake(config.get("form"))) is not None:
        return Failed("invalid_schema", f"the form of {call.node}: {mistake}")
    return Suspended(
        wait=Wait(kind="approval"),
        approvers=_people(config.get("approvers")),
        quorum=int(config.get("quorum", 1)),
        on_timeout=config.get("on_timeout", "reject"),
        escalate_to=_people(config.get("escalate_to")),
        timeout_seconds=None if seconds is None else float(seconds),
        shown=shown,
        form=config.get("form"),
        notify=config.get("notify"),
    )


def _find_mistake(form: Any) -> str | None:
    """What is wrong with a form that is at hand and light. Any other is checked when a person approves."""
    return None if form is None or has_refs(form) or not is_light(form) else find_mistake(form)


def _people(value: Any) -> tuple[str, ...]:
    """The names, each once: a person who is named twice has one vote."""
    return tuple(dict.fromkeys([value] if isinstance(value, str) else value or ()))


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    notify = config.get("notify")
    url = notify.get("url") if isinstance(notify, dict) else None
    if isinstance(url, str) and not has_template(url):
        try:
            parse(url)
        except EgressRefused as error:
            yield ("notify", "url"), error.message
    quorum = config.get("quorum", 1)
    for key in ("approvers", "escalate_to"):
        named = config.get(key)
        for one in _people(named):
            if not has_template(one) and (trouble := find_name_trouble(one)):
                yield (key,), f"{cut(one, 80)!a}: {trouble}"
        if named is not None and not _people(named):  # computed, perhaps: an empty list must not mean anyone
            yield (key,), f"'{key}' names nobody; name who is asked, or leave the key out"
            continue
        if named is None or has_template(named) or any(map(has_template, named)) or has_template(quorum):
            continue
        if len(people := _people(named)) < quorum:
            yield ("quorum",), f"{quorum} of {len(people)} {key} is impossible; lower 'quorum', or name more people"


def _warn(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    policy = config.get("on_timeout", "reject")
    if policy == "escalate" and config.get("escalate_to") is None:
        yield ("on_timeout",), "'escalate' asks the same people again; name others with 'escalate_to'"
    elif policy != "escalate" and not has_template(policy) and config.get("escalate_to") is not None:
        yield ("escalate_to",), f"nobody is asked by it, since 'on_timeout' is '{policy}'; set that to 'escalate'"
    if policy != "reject" and config.get("timeout_seconds") is None:  # "reject" may be just the default
        yield ("on_timeout",), "there is no time that could pass; give 'timeout_seconds'"


TYPE = NodeType(
    name="human",
    urls=(("notify", "url"),),
    description="Waits for a person, or `quorum` of the `approvers`, to approve or reject; a timeout rejects.",
    config_schema={
        "type": "object",
        "properties": {
            "approvers": {**_PEOPLE, "description": "who may decide; anyone without it"},
            "quorum": {"type": "integer", "minimum": 1, "default": 1, "description": "how many approvals it takes"},
            "timeout_seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": LONGEST_SECONDS,
                "description": "the time to decide; no end without it",
            },
            "on_timeout": {"enum": ["reject", "approve", "fail", "escalate"], "default": "reject"},
            "escalate_to": {**_PEOPLE, "description": "who is asked next; the same people without it"},
            "form": {"type": "object", "description": "what the approver is asked for, a JSON Schema"},
            "title": {"type": "string", "description": "what it is about, in a line; shown to the approver"},
            "show": {"description": "what the approver sees besides the outputs that led here"},
            "approval_ui_url": {"type": "string", "description": "a page of yours, shown to the approver"},
            "notify": {
                "type": "object",
                "description": "another system that is told by a signed webhook, and may answer with one",
                "required": ["url", "secret"],
                "properties": {
                    "url": {"type": "string", "minLength": 1, "description": "where the request is sent"},
                    "secret": {
                        "type": "string",
                        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                        "description": "the name of the secret that signs; never its value",
                    },
                },
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "required": ["decision", "decided_by", "comments", "data"],
        "properties": {
            "decision": {"enum": ["approve", "reject"]},
            "decided_by": {"type": "string"},
            "comments": {"type": "string"},
            "data": {},
        },
        "description": "and what was shown",
    },
    capabilities=frozenset({"waits", "person"}),
    example={
        "type": "human",
        "timeout_seconds": 86400,
        "config": {"approvers": ["ann", "bob"], "quorum": 1, "show": {"amount": "{{ inputs.amount }}"}},
    },
    check=_check,
    warn=_warn,
    answer=_answer,
    ref_keys=("show", "form"),
)
