"""Whether an agent may make a call: a pure function of labels, tool, arguments and policies.

A model that has read what a stranger could have written may do what that says. So what it wants to do is judged by what it has
read, not by what it says: without anything untrusted in its transcript it may use its tools; with it, it may read, and a person
decides about what writes or sends. The first that applies decides: the operator's policies, those of the workflow, this table.

    transcript             read     write    send                       delegate
    trusted or user        allow    allow    allow                      allow
    untrusted              allow    ask      ask                        ask
    untrusted, private     allow    ask      ask, marked `trifecta`     deny

No model approves anything, and nothing that the model says changes what is decided here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.agents.tool import Tool
from perdure.budget import Budget, OverBudget
from perdure.expressions import cel
from perdure.llms.policy_rows import NAMES, Policy, Verdict
from perdure.model.labels import Label

LARGEST_SHOWN = 16 * 1024
"""The most bytes of arguments that a person is shown; a call with more is denied."""
SHORTEST_CONTROL = 6
"""The shortest control argument that is looked up: a shorter one stands in too many texts."""
_WORD = re.compile(r"[\w@.+:/-]+")


class Wish(msgspec.Struct, frozen=True):
    """A call that the model wants."""

    tool: Tool
    arguments: dict[str, Any]
    label: Label
    """The label of the transcript and of everything that the arguments refer to."""
    agent: str = ""
    to: str = ""
    """Where the agent wants the run to go on; empty for a call."""
    run: dict[str, Any] = {}
    trusted: str = ""
    """What people who are trusted have said to the agent, for control arguments."""
    unattended: bool = False


class Ruling(msgspec.Struct, frozen=True, omit_defaults=True):
    verdict: Verdict
    rule: str
    """What decided: `operator[0]`, `policy[2]`, `always`, or the row and column of the table."""
    why: str = ""
    trifecta: bool = False
    approvers: tuple[str, ...] = ()


def hash_of(tool: str, arguments: Any) -> str:
    """The name of a call: what a person approves is this and nothing else."""
    data = msgspec.json.encode([tool, arguments], order="deterministic")
    return hashlib.sha256(data).hexdigest()


def decide(wish: Wish, operator: Sequence[Policy] = (), workflow: Sequence[Policy] = ()) -> Ruling:
    """Whether the call may be made."""
    found = _by_policy(wish, operator, "operator") or _by_policy(wish, workflow, "policy") or _by_table(wish)
    if found.verdict == "ask":
        size = len(msgspec.json.encode(wish.arguments))
        if size > LARGEST_SHOWN:
            why = f"its arguments have {size:,} bytes, and a person is shown {LARGEST_SHOWN:,} at most"
            return Ruling("deny", "too_large", why)
        if wish.unattended:
            return msgspec.structs.replace(found, verdict="deny", why=f"{found.why}, and nobody attends this agent")
    return found


def _by_policy(wish: Wish, policies: Sequence[Policy], whose: str) -> Ruling | None:
    """What the first policy says that applies. Those of a workflow may make things stricter, never looser."""
    for number, policy in enumerate(policies):
        if not policy.is_about(route=bool(wish.to)):
            continue
        name = f"{whose}[{number}]"
        variables = {
            "from": wish.agent,
            "to": wish.to,
            "tool": "" if wish.to else wish.tool.name,
            "args": wish.arguments,
            "labels": {"integrity": wish.label.integrity, "confidentiality": wish.label.confidentiality},
            "agent": wish.agent,
            "run": wish.run,
        }
        try:
            holds = cel.evaluate(policy.when, variables, Budget(), NAMES)
        except (cel.CelError, OverBudget) as error:
            # A rule that cannot be judged may be the one that forbids: it holds, unless it would allow.
            if policy.then != "allow":
                return Ruling("deny", name, f"a policy cannot be judged: {error}")
            continue
        if holds:
            return Ruling(policy.then, name, "a policy says so", _is_trifecta(wish.tool, wish.label), policy.approvers)
    return None


def _by_table(wish: Wish) -> Ruling:
    tool, label = wish.tool, wish.label
    what = "the agent has read what a stranger could have written"
    if tool.widens and label.is_tainted and label.is_private:
        why = f"{what}, and what is private: others are not told to do more than it may itself"
        return Ruling("deny", f"{label.integrity}.delegate", why)
    if tool.approve == "always":
        return Ruling("ask", "always", "this tool is always asked about", trifecta=_is_trifecta(tool, label))
    if tool.effect == "read" or not label.is_tainted:
        return Ruling("allow", f"{label.integrity}.{tool.effect}")
    if _is_controlled(wish):
        return Ruling("allow", "control", "trusted people have named every control argument")
    trifecta = _is_trifecta(tool, label)
    if trifecta:
        what += ", and what is private"
    return Ruling("ask", f"{label.integrity}.{tool.effect}", what, trifecta=trifecta)


def _is_trifecta(tool: Tool, label: Label) -> bool:
    return label.is_tainted and label.is_private and tool.effect == "send"


def _is_controlled(wish: Wish) -> bool:
    """Whether every control argument stands as a whole word in what trusted people said."""
    if not wish.tool.control:
        return False
    words = set(_WORD.findall(wish.trusted))
    words |= {word.strip(".:") for word in words}
    for name in wish.tool.control:
        value = wish.arguments.get(name)
        values = value if isinstance(value, list) else [value]
        if not values or not all(
            isinstance(one, str) and len(one) >= SHORTEST_CONTROL and one in words for one in values
        ):
            return False
    return True
