"""What the policies of a workflow say about its edges, before anything runs.

A policy that reads nothing but `from` and `to` is judged on every edge: what it denies is an error. What it wants asked about is an
error unless people are asked there: by the approval that the edge begins at, or about the route of an agent, who is asked when it
chooses (`agents/call_guard.py`). All other policies are about calls and routes of agents, and judged when these are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.budget import Budget
from perdure.expressions import cel
from perdure.llms.policy_rows import Policy, read_policies
from perdure.model.ir import IR, Edge, Node, is_approval
from perdure.model.problems import Problem, format_path

_ENDS = ("from", "to")
_EDGE_STEPS = 200  # of a `Budget`: to judge one edge by one policy
_MOST = 20


def check_transitions(ir: IR, budget: Budget | None = None) -> Iterator[Problem]:
    """The problems of the policies, and of the edges that they do not allow."""
    budget = budget or Budget.without_end()
    about: list[tuple[int, Policy]] = []
    for number, row in enumerate(ir.policies):
        if not {"when", "then"} <= row.keys():  # the compiler says so
            continue
        [policy] = read_policies([row])
        if (problem := policy.find_problem()) is not None:
            yield _problem(("policies", number, "when"), "bad_config", f"when of policy[{number}]: {problem}")
        elif cel.check(policy.when, _ENDS) is None:
            about.append((number, policy))
    found = 0
    for edge in ir.edges if about else ():
        source, target = ir.nodes[edge.source], ir.nodes[edge.target]
        if source is None or target is None:
            continue
        budget.spend(_EDGE_STEPS * len(about))
        for number, policy in about:
            holds = _applies(policy, source, target, budget)
            if holds is False:
                continue
            if isinstance(holds, str):
                message = f"policy[{number}] cannot be judged for '{source.id}' -> '{target.id}': {holds}"
                yield _problem(("policies", number, "when"), "bad_config", message)
                return
            if policy.then == "deny" or not _is_asked_about(edge, source):
                yield _denied(number, policy, source, target)
                found += 1
            break
        if found == _MOST:
            return


def _applies(policy: Policy, source: Node, target: Node, budget: Budget) -> bool | str:
    """Whether it is about the edge, or why that cannot be said."""
    try:
        return cel.evaluate(policy.when, {"from": source.id, "to": target.id}, budget, _ENDS)
    except cel.CelError as error:
        return str(error)


def _is_asked_about(edge: Edge, source: Node) -> bool:
    """Whether people are asked before the run goes this way."""
    return is_approval(source) or (source.type == "agent" and edge.named)


def _denied(number: int, policy: Policy, source: Node, target: Node) -> Problem:
    what = f"'{source.id}' leads to '{target.id}', and policy[{number}] ({policy.when})"
    if policy.then == "deny":
        return _problem(("nodes", source.id), "transition_denied", f"{what} denies it; remove the edge")
    hint = "put a node of type human between them, or let an agent choose the way"
    return _problem(("nodes", source.id), "transition_denied", f"{what} wants people asked before; {hint}")


def _problem(path: tuple[str | int, ...], code: str, message: str) -> Problem:
    return Problem(format_path(path), None, None, code, message, "error")
