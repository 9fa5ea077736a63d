"""How an activation ends: accepted with a route, retried, parked, handled by the graph, or failing the run."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.causal_past import is_unrouted, lacks_past
from perdure.kernel.decider import Decider
from perdure.kernel.edges import in_closed_iteration, in_closing_iteration
from perdure.kernel.lifecycle import N, R
from perdure.kernel.loops import cancel, open_items
from perdure.kernel.routes import LoopExhausted, Outcome, Rejected, RoutingFailed, choose, failure_path
from perdure.kernel.state import Activation, key_of
from perdure.kernel.values import Error, Route
from perdure.model.ir import Node

FREE_BYTES = 1024 * 1024
"""What the steps of a run may take before they count against its `max_bytes` (rule 31)."""


def accept(
    d: Decider,
    activation: Activation,
    *,
    output: Any = None,
    output_ref: str | None = None,
    rejected: bool = False,
    choice: tuple[str, ...] | None = None,
    reasoning: str = "",
    renews: bool = False,
    **fields: Any,
) -> None:
    """Accept the outcome of work that is done, then choose the way it goes (rule 20)."""
    if activation.item >= 0 and rejected:  # an item has no way to go on a no (rule 36)
        fail_for_good(d, activation, Error("rejected", _rejection(d, activation, output)), asked=True)
        return
    if activation.item >= 0:
        d.emit_for(e.ItemCompleted, activation, output=output, output_ref=output_ref, **fields)
        check_bytes(d, activation)
        return
    route, width, problem = None, 0, None
    if not _kept(d, activation) and not lacks_past(d.state, activation):
        node = d.node(activation)
        try:
            route = choose(d, activation, node, Outcome(output, output_ref, rejected, choice, reasoning, renews))
            width = _fanout(node, route)
        except RoutingFailed as failure:
            problem = _routing_error(failure)
        except LoopExhausted:
            fail_for_good(d, activation, Error("loop_exhausted", _exhausted(d, activation)), asked=True)
            return
        except Rejected:
            fail_for_good(d, activation, Error("rejected", _rejection(d, activation, output)), asked=True)
            return
    most = d.state.ir.fanout_of(d.node(activation))
    d.emit_for(
        e.NodeCompleted,
        activation,
        output=output,
        output_ref=output_ref,
        route=None if width > most else route,
        choice=choice,
        rejected=rejected,
        **({"renews": True, "version": 2} if renews else {}),
        **fields,
    )
    if problem is not None:
        _fail_routing(d, activation, problem)
    elif width > most:
        _limit(d, "max_fanout", width, most, activation)
    else:
        check_bytes(d, activation)


def route_kept(d: Decider, activation: Activation) -> None:
    """Route an outcome that was accepted before; nothing is executed again. An outcome without a way on fails its node
    as it would have done at once (rule 25)."""
    node = d.node(activation)
    try:
        about = (activation.output, activation.output_ref, activation.rejected, activation.choice)
        outcome = Outcome(*about, renews=activation.renews)
        route = choose(d, activation, node, outcome)
    except RoutingFailed as failure:
        _fail_routing(d, activation, _routing_error(failure))
    except LoopExhausted:
        fail_for_good(d, activation, Error("loop_exhausted", _exhausted(d, activation)), asked=True)
    except Rejected:
        fail_for_good(d, activation, Error("rejected", _rejection(d, activation, activation.output)), asked=True)
    else:
        if (width := _fanout(node, route)) > (most := d.state.ir.fanout_of(node)):
            _limit(d, "max_fanout", width, most, activation)
        else:
            d.emit_for(e.NodeRouted, activation, route=route)


def is_to_be_routed(d: Decider, activation: Activation) -> bool:
    """Whether a kept outcome can be routed: its iteration is not closing (rule 17), and this generation does nothing
    again that its conditions may read, or has done so (rule 26)."""
    live = d.state.state in (R.RUNNING, R.PAUSED) and is_unrouted(activation)
    return live and not in_closing_iteration(d.state, activation) and not lacks_past(d.state, activation)


def _rejection(d: Decider, activation: Activation, output: Any) -> str:
    """The message of a rejection, with the person who decided, as the kernel's own output says (`waits._decide`)."""
    by = output.get("decided_by", "") if isinstance(output, dict) else ""
    return f"{d.state.name(activation.node)} was rejected{f' by {by}' if by else ''}"


def _routing_error(failure: RoutingFailed) -> Error:
    return msgspec.structs.replace(failure.error, code="routing_failed")


def _fail_routing(d: Decider, activation: Activation, error: Error) -> None:
    if d.node(activation).on_failure == "park":
        if activation.state is not N.PARKED:
            d.emit_for(e.NodeParked, activation, error=error)
    else:
        d.fail_run(error, activation)


def _kept(d: Decider, activation: Activation) -> bool:
    """Whether an outcome is kept unrouted: the run is ending, or the iteration it belongs to is closing."""
    return d.state.state in (R.FAILING, R.CANCELLING) or in_closing_iteration(d.state, activation)


def _exhausted(d: Decider, activation: Activation) -> str:
    loop = d.node(activation).loop
    count = loop.max_iterations if loop is not None else 0
    return f"{d.state.name(activation.node)} still loops after {count} iterations and has no timeout_path"


# -- limits ------------------------------------------------------------------------------------------------------------


def _fanout(node: Node, route: Route) -> int:
    return len(node.edges_out if route.taken is None else route.taken)


def check_bytes(d: Decider, activation: Activation) -> Error | None:
    """Fail the run if its values take too much; the error, whatever state the run is in."""
    state = d.state
    maximum = state.irs[-1].limits.max_bytes
    size = state.bytes if state.kept <= FREE_BYTES else state.bytes + state.kept - FREE_BYTES
    if size <= maximum:
        return None
    if d.state.state in (R.RUNNING, R.PAUSED):
        _limit(d, "max_bytes", size, maximum, activation)
    return _exceeded(d, "max_bytes", size, maximum, activation)


def _limit(d: Decider, limit: Any, value: int, maximum: int, activation: Activation) -> None:
    name = d.state.name(activation.node)
    d.emit(e.LimitReached, limit=limit, value=value, maximum=maximum, node=name, scope=activation.scope)
    if d.state.state in (R.RUNNING, R.PAUSED):
        d.fail_run(_exceeded(d, limit, value, maximum, activation), activation)


def _exceeded(d: Decider, limit: str, value: int, maximum: int, activation: Activation) -> Error:
    name = d.state.name(activation.node)
    return Error("limit_exceeded", f"{name} brings {limit} to {value}; the workflow allows {maximum}")


exceed = _limit


# -- failures ----------------------------------------------------------------------------------------------------------


def fail_attempt(
    d: Decider,
    activation: Activation,
    error: Error,
    *,
    retryable: bool = True,
    retry_after: float | None = None,
    certain: bool = False,
) -> None:
    """Retry, park or fail an activation whose attempt failed. `certain`: its effect certainly did not happen."""
    node = d.state.pinned(activation)
    tried = activation.failures + 1
    error = msgspec.structs.replace(error, attempts=tried)
    if node.effect == "at_most_once" and activation.begun and not certain:
        park(d, activation, error)
        return
    again = retryable and tried < node.retry.max_attempts and _matches(node.retry, error.code)
    if not again or _kept(d, activation):
        fail_for_good(d, activation, error, certain=certain)
        return
    delay = retry_after
    if delay is None:
        backoff = min(node.retry.backoff_ms * node.retry.multiplier**activation.failures, node.retry.max_backoff_ms)
        delay = backoff / 1000 * (0.5 + d.command.entropy / 2 if node.retry.jitter else 1.0)
    d.emit_for(e.NodeRetrying, activation, error=error, retry_at=d.at + max(delay, 0.0))


def _matches(retry: Any, code: str) -> bool:
    if any(_fits(pattern, code) for pattern in retry.give_up_on):
        return False
    return not retry.retry_on or any(_fits(pattern, code) for pattern in retry.retry_on)


def _fits(pattern: str, code: str) -> bool:
    """`http:5xx` fits `http:503`; anything else must be equal, or a prefix that ends at a colon."""
    if pattern.endswith("xx"):
        return code.startswith(pattern[:-2]) and len(code) == len(pattern) and code[-2:].isdigit()
    return code == pattern or code.startswith(pattern + ":")


def park(d: Decider, activation: Activation, error: Error) -> None:
    d.emit_for(e.NodeParked, activation, error=error, failed=activation.state is N.COMPLETED or activation.accepted)


def fail_for_good(
    d: Decider, activation: Activation, error: Error, *, certain: bool = False, asked: bool = False
) -> None:
    """Fail an activation that has no attempt left: what that means is decided by the node, then by the joins, then
    by the run. `asked`: this failure is the answer of the node's own conditions, which the error code cannot show,
    as a handler may choose any code."""
    node = d.node(activation)
    cancel(d, open_items(d, activation), "items")
    if d.state.pinned(activation).effect == "at_most_once" and activation.begun and not certain:
        park(d, activation, error)
    elif activation.item >= 0:
        if d.state.pinned(activation).on_failure == "park" and not _kept(d, activation):
            park(d, activation, error)
        else:
            d.emit_for(e.ItemFailed, activation, error=error)
    elif d.state.state in (R.FAILING, R.CANCELLING):
        d.emit_for(e.NodeFailed, activation, error=error, outcome="kept")
    elif in_closing_iteration(d.state, activation) or in_closed_iteration(d.state, activation):
        d.emit_for(e.NodeFailed, activation, error=error, outcome="absorbed")
    elif node.on_failure == "park":
        park(d, activation, error)
    elif node.on_failure == "path":
        d.emit_for(e.NodeFailed, activation, error=error, outcome="path", route=failure_path(d, activation))
    elif node.on_failure == "continue":
        _continue(d, activation, error, asked=asked)
    else:
        fail_unhandled(d, activation, error)


def fail_unhandled(d: Decider, activation: Activation, error: Error) -> None:
    """Fail an activation that no policy handles: the joins it reaches decide (rule 10), or the run ends."""
    closed = in_closing_iteration(d.state, activation) or in_closed_iteration(d.state, activation)
    if closed or d.node(activation).lenient or _race_is_over(d, activation):
        d.emit_for(e.NodeFailed, activation, error=error, outcome="absorbed")
    else:
        d.emit_for(e.NodeFailed, activation, error=error, outcome="fatal")
        d.fail_run(error, activation)


def _continue(d: Decider, activation: Activation, error: Error, *, asked: bool = False) -> None:
    node = d.node(activation)
    if asked:
        ways = set(node.loop.break_path or ()) if node.loop is not None else set()
        ir = d.state.irs[d.state.iteration_ir(activation.scope, activation.node)]
        taken = [ir.edges[i].target for i in node.edges_out if not ir.edges[i].named or ir.edges[i].target in ways]
        route: Route | None = Route(rule="on_failure.continue", taken=tuple(d.state.name(t) for t in taken))
    else:
        try:
            route = choose(d, activation, node, Outcome(error.as_output()))
        except RoutingFailed as failure:
            problem = _routing_error(failure)
            d.emit_for(e.NodeFailed, activation, error=error, outcome="fatal")
            d.fail_run(problem, activation)
            return
        except LoopExhausted:
            _continue(d, activation, Error("loop_exhausted", _exhausted(d, activation), error.attempts), asked=True)
            return
    d.emit_for(e.NodeFailed, activation, error=error, outcome="continue", route=route)


def _race_is_over(d: Decider, activation: Activation) -> bool:
    """Whether a join that everything after this node leads to has fired: a race's loser is not an error (rule 11)."""
    state, ir = d.state, d.state.irs[d.state.iteration_ir(activation.scope, activation.node)]
    region = d.node(activation).region
    while region is not None:
        join = ir.nodes[region]
        if join is None:
            return False
        found = state.activations.get(key_of(region, activation.scope[: len(join.loops)]))
        if found is not None and found.fired and found.state is not N.UPSTREAM_FAILED:
            return True
        region = join.region
    return False


def fail_join(d: Decider, activation: Activation) -> None:
    """Fail an activation whose join can no longer take enough edges, one of which failed (rule 9)."""
    node = d.node(activation)
    causes = [d.state.name(source) for source, status in sorted(activation.edges.items()) if status in (3, 4)]
    error = Error("upstream_failed", f"{node.id} cannot run: {', '.join(causes)} failed")
    if node.on_failure in ("continue", "path", "park"):
        fail_for_good(d, activation, error)
    elif node.lenient or _race_is_over(d, activation):
        d.emit_for(e.NodeUpstreamFailed, activation, error=error, outcome="absorbed")
    else:
        d.emit_for(e.NodeUpstreamFailed, activation, error=error, outcome="fatal")
        d.fail_run(error, activation)
