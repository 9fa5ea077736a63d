"""Nodes other than tasks: approvals, waits, HTTP, values, any type; and values that are written into templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack, cast

from perdure.sdk.builder import Reads, current
from perdure.sdk.errors import BuildError
from perdure.sdk.handles import Condition, EitherRoot, Handle, NodeRoot, TextRoot, expression, root_of, split_text
from perdure.sdk.options import NODE_OPTIONS, NodeOptions, check_names, is_lenient, make_node


class Decided(TypedDict):
    """The output of an approval."""

    decision: Literal["approve", "reject"]
    decided_by: str
    comments: str
    data: Any


class Response(TypedDict):
    """The output of an HTTP request."""

    status: int
    headers: dict[str, str]
    body: Any


def node(type: str, config: Mapping[str, Any] | None = None, **options: Unpack[NodeOptions]) -> Any:
    """A node of any type, with handles anywhere in its config: `perdure.node("search", {"query": question})`."""
    return _node("perdure.node", type, type.replace(".", "_"), dict(config or {}), options)


def _node(
    what: str, type: str, name: str, config: dict[str, Any], options: NodeOptions, own: Iterable[str] = ()
) -> Any:
    """Make a node. `own` names the further arguments of `what`, so that a misspelled one gets a suggestion."""
    builder = current(what)
    check_names(options, NODE_OPTIONS.union(own), what)
    reads = Reads()
    lenient = is_lenient(options)
    rendered = builder.render(config, reads, lenient=lenient, place=f"the config of {what}")
    spec: dict[str, Any] = {"type": type}
    if rendered:
        spec["config"] = rendered
    return make_node(builder, name, spec, options, reads)


def transform(value: Any, **options: Unpack[NodeOptions]) -> Any:
    """A node that makes a value of others."""
    return _node("perdure.transform", "transform", "transform", {"value": value}, options)


def wait(
    seconds: float | None = None,
    *,
    until: datetime | str | float | None = None,
    signal: str | None = None,
    event: str | None = None,
    key: Any = None,
    match: str | None = None,
    given: Any = None,
    since: Literal["run", "now"] | None = None,
    **options: Unpack[NodeOptions],
) -> Any:
    """Wait durably for a time, for a signal or for an event (with `seconds`, at most so long); gives the payload."""
    if seconds is None and until is None and signal is None and event is None:
        raise BuildError("perdure.wait needs seconds, until, signal or event")
    moment = until.isoformat() if isinstance(until, datetime) else until
    said = {"seconds": seconds, "until": moment, "signal": signal, "event": event}
    said |= {"key": key, "match": match, "given": given, "since": since}
    config = {name: value for name, value in said.items() if value is not None}
    return _node("perdure.wait", "wait", "wait", config, options)


def http(
    url: str,
    *,
    method: str | None = None,
    headers: Mapping[str, Any] | None = None,
    query: Mapping[str, Any] | None = None,
    json: Any = None,
    body: Any = None,
    expect_status: Any = None,
    auth: Any = None,
    **options: Unpack[NodeOptions],
) -> Response:
    """An HTTP request: `perdure.http(f"https://example.com/{city}", headers={"Authorization":
    perdure.secret("TOKEN")})`."""
    given = {
        "url": url,
        "method": method,
        "headers": headers,
        "query": query,
        "json": json,
        "body": body,
        "expect_status": expect_status,
        "auth": auth,
    }
    config = {name: value for name, value in given.items() if value is not None}
    return cast("Response", _node("perdure.http", "http", "http", config, options, given))


def approval(
    show: Any = None,
    *,
    title: str | None = None,
    approvers: Sequence[str] | str | None = None,
    quorum: int | None = None,
    on_timeout: Literal["reject", "approve", "fail", "escalate"] | None = None,
    escalate_to: Sequence[str] | str | None = None,
    form: Mapping[str, Any] | None = None,
    notify: Mapping[str, str] | None = None,
    on_reject: Callable[[], Any] | None = None,
    **options: Unpack[NodeOptions],
) -> Decided:
    """Wait for a person to approve what is shown; `timeout=` is the time to decide. `notify={"url": …, "secret": NAME}`
    tells another system.

    A rejection fails the run, unless `on_reject` describes what happens then (and the nodes after the approval are
    skipped), or a `perdure.branch` on the approval looks at its `decision`.
    """
    given = {
        "show": show,
        "title": title,
        "approvers": approvers,
        "quorum": quorum,
        "on_timeout": on_timeout,
        "escalate_to": escalate_to,
        "form": form,
        "notify": notify,
    }
    config = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items() if v is not None}
    handle = _node("perdure.approval", "human", "approval", config, options, (*given, "on_reject"))
    if on_reject is not None:
        builder, root = current("perdure.approval"), root_of(handle)
        if not isinstance(root, NodeRoot) or builder.capture is not None:
            raise BuildError("on_reject= of perdure.approval goes with neither on_failure= nor the item of a map")
        root.node.spec["rejection_path"] = builder.build_arm(root.node, on_reject, "on_reject").entries
        root.node.may_skip = True  # the nodes after it are skipped when it is rejected
    return cast("Decided", handle)


# -- what is written into templates and conditions ---------------------------------------------------------------------


def secret(name: str) -> str:
    """A secret that the worker fills in at the last moment; it reaches no journal and no log."""
    builder = current("perdure.secret")
    if not name.isidentifier():
        raise BuildError(f"the name of a secret has letters, digits and _, got {name!r}")
    return cast("str", Handle(builder, TextRoot(f"secrets.{name}")))


def expr(text: str) -> Any:
    """A template expression over handles: `perdure.expr(f"{city} | upper")`, `perdure.expr(f"{a} + {b}")`."""
    builder = current("perdure.expr")
    pieces = split_text(text, "perdure.expr")
    handles = [piece for piece in pieces if isinstance(piece, Handle)]
    written = "".join(piece if isinstance(piece, str) else _inside(piece) for piece in pieces)
    return Handle(builder, TextRoot(written.strip(), handles))


def _inside(handle: Handle) -> str:
    text = expression(handle)
    return f"({text})" if isinstance(root_of(handle), EitherRoot | TextRoot) or " " in text else text


def cel(text: str) -> bool:
    """A condition in CEL over handles: `perdure.cel(f"size({orders}) > 3 && {city} == 'Oslo'")`."""
    current("perdure.cel")
    return cast("bool", Condition(split_text(text, "perdure.cel")))
