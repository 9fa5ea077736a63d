"""What plays a node of a user's workflow: a value, a function, failures first, a decision. Data; played elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Literal

import msgspec

from perdure.errors import PerdureError
from perdure.model.ir import IR, Node
from perdure.outcomes import Chosen, Failure
from perdure.spelling import list_known, suggest

COMPENSATOR = ".compensator"
ASK = ".ask."
"""Between a node and the name of an approval that its function asks for: `pay.ask.ok`."""
"""`stubs={"pay.compensator": …}` plays the compensator of `pay`."""


class StubInvalid(PerdureError):
    """A stub names no node, or cannot play the one it names."""

    code = "stub_invalid"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a node, as a stub sees it."""

    node: str
    config: Any
    """The node's config, rendered."""
    inputs: dict[str, Any]
    """The outputs of the nodes before it, by node."""
    attempt: int
    iteration: int | None = None
    """The iteration, from 1, for a node inside a loop."""
    item: int | None = None
    """The index of the item, for a node inside a map."""
    key: str = ""
    """The idempotency key, the same over all attempts."""
    run_id: str = ""
    undo: bool = False
    """True when the compensator of the node is called."""


class Stub(msgspec.Struct, frozen=True, kw_only=True):
    """A script for a node: wait `delay` seconds; fail with `error` while the attempt is
    at most `fails`; then give `then`.

    `then` is an output, an exception to raise, or a function of the `Call`. `error` is an exception, or the code of one.
    """

    then: Any = {}
    fails: int = 0
    error: BaseException | str = "stubbed"
    delay: float = 0.0


class OneOf(msgspec.Struct, frozen=True):
    stubs: tuple[Any, ...]


class ScriptedDecision(msgspec.Struct, frozen=True, kw_only=True):
    decision: Literal["approve", "reject", "none"]
    by: tuple[str, ...] = ()
    after: float = 0.0
    comments: str = ""
    data: Any = None


class Signal(msgspec.Struct, frozen=True):
    """A signal that is sent `at` seconds after the start."""

    name: str
    payload: Any = None
    at: float = 0.0


def approve(
    by: str | Iterable[str] = (), *, after: float = 0.0, comments: str = "", data: Any = None
) -> ScriptedDecision:
    """A person approves, `after` seconds after being asked. Without `by`, as many approvers do as the quorum needs."""
    return ScriptedDecision(decision="approve", by=_people(by), after=after, comments=comments, data=data)


def reject(
    by: str | Iterable[str] = (), *, after: float = 0.0, comments: str = "", data: Any = None
) -> ScriptedDecision:
    """A person rejects, `after` seconds after being asked."""
    return ScriptedDecision(decision="reject", by=_people(by), after=after, comments=comments, data=data)


def nobody() -> ScriptedDecision:
    """Nobody ever decides, or sends what the node waits for: its time passes, or it waits for ever."""
    return ScriptedDecision(decision="none")


def one_of(*stubs: Any) -> OneOf:
    """One of these stubs, chosen anew for each attempt by the seed."""
    if not stubs:
        raise StubInvalid("one_of() needs at least one stub to choose from")
    return OneOf(stubs)


def _people(by: str | Iterable[str]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


# -- which stub plays which node ---------------------------------------------------------------------------------------

TRIVIAL = frozenset({"human", "input", "map", "output", "transform", "trigger", "wait", "workflow"})
"""Types that need no worker. A node of one that has a stub is given to a worker all the same."""
STUBBED = "stub"
"""The type of a node that has a stub instead of its own."""


def check_names(stubs: Mapping[str, Any], workflows: Iterable[IR]) -> None:
    """Check that every stub names a node, and can play it."""
    nodes: dict[str, Node] = {}
    for ir in workflows:
        for node in ir.nodes:
            if node is not None:
                nodes.setdefault(node.id, node)
                nodes.setdefault(f"{ir.name}/{node.id}", node)
    for name, stub in stubs.items():
        asker, is_ask, _ = name.partition(ASK)
        place = asker if is_ask else name.removesuffix(COMPENSATOR)
        node = nodes.get(place)
        if node is None:
            hint = suggest(place, nodes, list_known([one for one in nodes if "/" not in one]))
            raise StubInvalid(f"stub {name!r} names no node; {hint}")
        if is_ask and not _is_decision(stub):
            raise StubInvalid(f"stub {name!r}: a person is asked there; use approve(), reject() or nobody()")
        if is_ask:
            continue
        if name != place and node.compensator is None:
            raise StubInvalid(f"stub {name!r}: node {place!r} has no compensator")
        if node.type == "human" and name == place and not _is_decision(stub):
            raise StubInvalid(f"stub {name!r}: a person decides there; use approve(), reject() or nobody()")
        if _is_decision(stub) and not (node.type == "human" or _waits_for_signal(node, stub)):
            raise StubInvalid(f"stub {name!r}: nobody decides there, it is of type {node.type!r}; give it an output")


def _is_decision(stub: Any) -> bool:
    if isinstance(stub, OneOf | list | tuple):
        several = stub.stubs if isinstance(stub, OneOf) else stub
        return bool(several) and all(_is_decision(one) for one in several)
    return isinstance(stub, ScriptedDecision)


def pick_decision(stub: Any, turn: int, random: Random) -> ScriptedDecision:
    """The decision of people the n-th time they are asked."""
    match stub:
        case ScriptedDecision():
            return stub
        case OneOf():
            return pick_decision(random.choice(stub.stubs), turn, random)
        case _:
            return pick_decision(stub[min(turn, len(stub) - 1)], turn, random)


def _waits_for_signal(node: Node, stub: Any) -> bool:
    """Whether the stub says that a signal the node waits for is never sent."""
    return node.type == "wait" and isinstance(stub, ScriptedDecision) and stub.decision == "none"


def find(stubs: Mapping[str, Any], workflow: str, node: str) -> tuple[Any] | None:
    """The stub of a node, in a tuple so that None can be one; `workflow/node` comes before `node`."""
    for name in (f"{workflow}/{node}", node):
        if name in stubs:
            return (stubs[name],)
    return None


def prepare(ir: IR, stubs: Mapping[str, Any]) -> IR:
    """The workflow with stubbed nodes given to workers, and every node to the one queue there is."""
    nodes = tuple(None if node is None else _prepare(ir.name, node, stubs) for node in ir.nodes)
    return msgspec.structs.replace(ir, nodes=nodes)


def _prepare(workflow: str, node: Node, stubs: Mapping[str, Any]) -> Node:
    found = find(stubs, workflow, node.id)
    stubbed = found is not None and not _is_decision(found[0])
    changes: dict[str, Any] = {"queue": "default", "isolation": "thread"}
    if node.item is not None:
        kind = STUBBED if stubbed and node.item.type in TRIVIAL else node.item.type
        changes["item"] = msgspec.structs.replace(node.item, type=kind, **changes)
    elif stubbed and node.type in TRIVIAL:
        changes["type"] = STUBBED
    return msgspec.structs.replace(node, **changes)


# -- stubs as data -----------------------------------------------------------------------------------------------------

_KEYS = (
    "output next_nodes fails then error message retryable delay one_of decision by after comments data".split()
)  # fmt: skip


def read_stub(name: str, data: Any) -> Any:
    """A stub from a file: `{output: …}`, `{fails: 2, then: …}`, `{error: code}`, `{one_of: […]}` or `{decision: …}`."""
    if not isinstance(data, dict):
        raise StubInvalid(f"stub {name!r}: expected an object such as {{output: …}}, got {type(data).__name__}")
    for key in data:
        if key not in _KEYS:
            hint = suggest(str(key), _KEYS, f"an output is written {{output: {{{key}: …}}}}")
            raise StubInvalid(f"stub {name!r}: unknown key {key!r}; {hint}")
    if "one_of" in data:
        if not isinstance(data["one_of"], list) or not data["one_of"] or len(data) > 1:
            raise StubInvalid(f"stub {name!r}: one_of is a list of stubs, and stands alone")
        return one_of(*(read_stub(name, one) for one in data["one_of"]))
    if "decision" in data:
        if data["decision"] not in ("approve", "reject", "none"):
            raise StubInvalid(f"stub {name!r}: decision is approve, reject or none, got {data['decision']!r}")
        by = _people(data.get("by", ()))
        rest = {key: data[key] for key in ("after", "comments", "data") if key in data}
        return ScriptedDecision(decision=data["decision"], by=by, **rest)
    return _read_steps(name, data)


def _read_steps(name: str, data: dict[str, Any]) -> Any:
    fails, delay = data.get("fails", 0), data.get("delay", 0)
    if not isinstance(fails, int) or isinstance(fails, bool) or fails < 0:
        raise StubInvalid(f"stub {name!r}: fails is a whole number from 0, got {fails!r}")
    if not isinstance(delay, int | float) or isinstance(delay, bool) or delay < 0:
        raise StubInvalid(f"stub {name!r}: delay is a number of seconds from 0, got {delay!r}")
    then: Any = data.get("then", data.get("output", {}))
    if "next_nodes" in data:
        then = Chosen(then, tuple(str(node) for node in data["next_nodes"]))
    code = str(data.get("error", "stubbed"))
    error = Failure(code, str(data.get("message", "by its stub")), retryable=bool(data.get("retryable", True)))
    if "error" in data and "fails" not in data:
        then = error
    return Stub(then=then, fails=fails, error=error, delay=float(delay))


Function = Callable[[Call], Any]
