"""Names that derive from run, node, scope and item, so that nobody has to invent or store them (rules 3, 41).

Ids of runs, approvals and dead letters stand in addresses: they are made of characters that no proxy, shell or client
escapes. Parts are joined with `:`, and a place is written with `~`; neither can be in the name of a node, nor in a run id
that a user gives, so no two things share an id.
"""

from __future__ import annotations

import hashlib
import re

from perdure.kernel.events import Scope

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RUN_ID_RULE = (
    "up to 128 letters, digits and . _ - , beginning with a letter or digit (: and ~ are for ids that Perdure makes)"
)


def root_of(run_id: str) -> str:
    """The run at the top of its tree: itself, or that whose children and their children it is one of."""
    return run_id.partition(":")[0]


def is_child(run_id: str) -> bool:
    return ":" in run_id


def place(node: str, scope: Scope = (), item: int | None = None) -> str:
    """`fetch`, `fetch[2.1]`, `fetch[2.1]#7`: an activation, for people, and for keys that stand in no address."""
    text = node + (f"[{'.'.join(map(str, scope))}]" if scope else "")
    return text if item is None else f"{text}#{item}"


def idempotency_key(
    run_id: str, node: str, scope: Scope = (), item: int | None = None, *, undo: bool = False, undone: int = 0
) -> str:
    """The same over all attempts; a new one only when the activation was compensated and runs again."""
    key = f"{run_id}/{place(node, scope, item)}/{'undo' if undo else 'do'}"
    return f"{key}/{undone}" if undone else key


def approval_id(run_id: str, node: str, scope: Scope, item: int | None, attempt: int) -> str:
    return f"{run_id}:{_spot(node, scope, item)}:{attempt}"


def child_id(run_id: str, node: str, scope: Scope, item: int | None, undone: int = 0) -> str:
    """One child per activation: trying the node again retries the child (rule 35)."""
    key = f"{run_id}:{_spot(node, scope, item)}"
    return _bounded(f"{key}:{undone}" if undone else key)


def dead_letter_id(run_id: str, node: str, scope: Scope, item: int | None) -> str:
    return f"{run_id}:{_spot(node, scope, item)}"


def _spot(node: str, scope: Scope, item: int | None) -> str:
    """A place inside an id: `fetch`, `fetch~2.1`, `fetch~2.1~7`, `fetch~~7`."""
    if item is not None:
        return f"{node}~{'.'.join(map(str, scope))}~{item}"
    return f"{node}~{'.'.join(map(str, scope))}" if scope else node


LONGEST_ID = 500


def _bounded(key: str) -> str:
    """Ids grow with every run inside a run; beyond this a hash stands for the rest. The root stays: its partition is theirs."""
    if len(key) <= LONGEST_ID:
        return key
    root = root_of(key)
    return f"{root}:~{hashlib.sha256(key[len(root) :].encode()).hexdigest()[:32]}"
