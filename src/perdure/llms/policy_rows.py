"""Policies: what the operator or the author of a workflow says about calls and routes of agents, as conditions in CEL."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal

import msgspec

from perdure.expressions import cel

Verdict = Literal["allow", "ask", "deny"]
NAMES = ("from", "to", "tool", "args", "labels", "agent", "run")
"""What a condition reads."""


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Where the condition holds, that is what is done; the first that holds decides."""

    when: str
    then: Verdict
    approvers: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ("*",)

    def find_problem(self) -> str | None:
        return cel.check(self.when, NAMES)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names in its condition."""
        return frozenset(one for one in NAMES if cel.check(self.when, tuple(name for name in NAMES if name != one)))

    def is_about(self, *, route: bool) -> bool:
        """Whether it is about routes, or about calls: one that says where to (`to`) is about routes, one that says which `tool` or
        with which `args` is about calls, and one that says neither, or both, is about both."""
        ends, call = "to" in self.reads, bool(self.reads & {"tool", "args"})
        return ends == call or (ends if route else call)


def read_policies(rows: Iterable[Any]) -> tuple[Policy, ...]:
    """Policies as a definition has them."""
    return tuple(msgspec.convert(one, Policy) for one in rows)
