"""Names that derive from run, node, scope and item, so that nobody has to invent or store them (rules 3, 41)."""

from __future__ import annotations

from perdure.kernel.events import Scope


def place(node: str, scope: Scope = (), item: int | None = None) -> str:
    """`fetch`, `fetch[2.1]`, `fetch[2.1]#7`: an activation, for people and for keys."""
    text = node + (f"[{'.'.join(map(str, scope))}]" if scope else "")
    return text if item is None else f"{text}#{item}"


def idempotency_key(
    run_id: str, node: str, scope: Scope = (), item: int | None = None, *, undo: bool = False, undone: int = 0
) -> str:
    """The same over all attempts; a new one only when the activation was compensated and runs again."""
    key = f"{run_id}/{place(node, scope, item)}/{'undo' if undo else 'do'}"
    return f"{key}/{undone}" if undone else key


def approval_id(run_id: str, node: str, scope: Scope, item: int | None, attempt: int) -> str:
    return f"{run_id}/{place(node, scope, item)}/{attempt}"


def child_id(run_id: str, node: str, scope: Scope, item: int | None, undone: int = 0) -> str:
    """One child per activation: trying the node again retries the child (rule 35)."""
    key = f"{run_id}/{place(node, scope, item)}"
    return f"{key}/{undone}" if undone else key
