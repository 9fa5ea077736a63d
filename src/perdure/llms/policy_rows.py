"""Policies: what the operator or the author of a workflow says about calls of agents, as conditions in CEL."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.expressions import cel

Verdict = Literal["allow", "ask", "deny"]
NAMES = ("from", "to", "tool", "args", "labels", "agent", "run")
"""What a condition reads."""


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Where the condition holds, that is what is done; the first that holds decides."""

    when: str
    then: Verdict
    approvers: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ("*",)

    def find_problem(self) -> str | None:
        return cel.check(self.when, NAMES)
