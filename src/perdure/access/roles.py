"""Who may do what: permissions, roles, and the one table between them. What the table does not give is denied.

It must not know routes; each route names the permission it needs. An operator works with what authors wrote and writes
no workflow: starting a run from a definition in the request, or patching one, is writing a workflow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from perdure.errors import PerdureError
from perdure.spelling import suggest


class InvalidRole(PerdureError):
    code = "invalid_role"
    status = 422


class Permission(StrEnum):
    RUNS_READ = "runs:read"
    RUNS_START = "runs:start"
    RUNS_OPERATE = "runs:operate"
    """Cancel, pause, resume, retry, rerun, roll back, signal."""
    RUNS_PATCH = "runs:patch"
    WORKFLOWS_READ = "workflows:read"
    WORKFLOWS_WRITE = "workflows:write"
    """Register, patch, move aliases, and start a run from a definition that is not registered."""
    WORKFLOWS_DELETE = "workflows:delete"
    APPROVALS_READ = "approvals:read"
    APPROVALS_DECIDE = "approvals:decide"
    DEAD_LETTERS_READ = "dead_letters:read"
    DEAD_LETTERS_OPERATE = "dead_letters:operate"
    BLOBS_READ = "blobs:read"
    BLOBS_WRITE = "blobs:write"
    SYSTEM_READ = "system:read"
    """Node types, workers, queues, triggers."""
    SYSTEM_OPERATE = "system:operate"
    """Retention, repair, triggers; figures of the whole process, which cover every tenant."""
    COSTS_READ = "costs:read"
    COSTS_WRITE = "costs:write"
    """Budgets of the tenant and of its workflows, and what-ifs, which spend money to find something out."""
    KEYS_ADMIN = "keys:admin"
    AUDIT_READ = "audit:read"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUTHOR = "author"
    ADMIN = "admin"


_P = Permission
_VIEW = frozenset(
    {
        _P.RUNS_READ,
        _P.WORKFLOWS_READ,
        _P.APPROVALS_READ,
        _P.DEAD_LETTERS_READ,
        _P.BLOBS_READ,
        _P.SYSTEM_READ,
        _P.COSTS_READ,
    }
)
_OPERATE = _VIEW | {_P.RUNS_START, _P.RUNS_OPERATE, _P.DEAD_LETTERS_OPERATE, _P.BLOBS_WRITE}

PERMISSIONS: Mapping[str, frozenset[Permission]] = {
    Role.VIEWER: _VIEW,
    Role.OPERATOR: _OPERATE,
    Role.APPROVER: _VIEW | {_P.APPROVALS_DECIDE},
    Role.AUTHOR: _OPERATE | {_P.RUNS_PATCH, _P.WORKFLOWS_WRITE, _P.WORKFLOWS_DELETE},
    Role.ADMIN: frozenset(Permission),
}


def permissions_of(roles: Iterable[str], scopes: Collection[str] = ()) -> frozenset[Permission]:
    """What these roles permit together; with scopes, only what is in them too. Unknown ones give nothing."""
    given: frozenset[Permission] = frozenset().union(*(PERMISSIONS.get(role, ()) for role in roles))
    return given if not scopes else frozenset(one for one in given if one in scopes)


def check_roles(roles: Collection[str], scopes: Collection[str]) -> None:
    """Refuse roles and scopes that the table does not know, naming all of them."""
    problems = [_unknown("role", role, list(Role)) for role in roles if role not in list(Role)]
    problems += [_unknown("scope", scope, list(Permission)) for scope in scopes if scope not in list(Permission)]
    if not roles:
        problems.append(f"no role; known are {', '.join(Role)}")
    if problems:
        raise InvalidRole("; ".join(problems))


def _unknown(kind: str, name: str, known: list[str]) -> str:
    return f"unknown {kind} {name[:80]!r}; {suggest(name, known)}"
