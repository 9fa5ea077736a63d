"""A result made safe to decide on, whatever worker wrote it. The bounds themselves are said by the port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.model.money import bounded
from perdure.streams import Flowed
from perdure.transport import (
    DEEPEST_OUTPUT,
    LARGEST_BLOB,
    LARGEST_DETAILS,
    LARGEST_NUMBER,
    LATEST,
    LONGEST_CODE,
    LONGEST_ID,
    LONGEST_MESSAGE,
    LONGEST_REF,
    LONGEST_RETRY_SECONDS,
    MOST_CHOSEN,
    MOST_PARTS,
    Result,
    cut_text,
)


def measured(result: Result) -> Result:
    """The result made safe to decide on, whatever worker wrote it: its size is measured and its texts are bounded."""
    value = list(result.asks) if result.kind == "suspended" else result.output
    try:
        data = msgspec.json.encode(value)
    except (RecursionError, ValueError, TypeError, OverflowError):
        data = b""
    problem = "" if data else "it is not JSON, or too deep"
    if b"\\u0000" in data and _has_nul(value):
        problem = "it holds the character NUL"
    elif data.count(b"[") + data.count(b"{") > DEEPEST_OUTPUT and not _is_shallow(value):
        problem = f"it is nested more than {DEEPEST_OUTPUT} levels deep"
    elif result.output_ref is not None and (len(result.output_ref) > LONGEST_REF or "\0" in result.output_ref):
        problem = "its reference is none"
    elif result.flow is not None and not _is_flow(result.flow):
        problem = "what it says of streams is none"
    elif result.choice is not None and not _is_choice(result.choice):
        problem = "what was chosen with it are not ids of nodes"
    details = result.details
    if details is not None and not _fits(details):
        details = None
    changed = msgspec.structs.replace(
        result,
        size=len(data) if result.output is not None else min(max(0, result.size), LARGEST_BLOB),
        number=min(max(0, result.number), LARGEST_NUMBER),
        retry_after=None if result.retry_after is None else min(max(0.0, result.retry_after), LONGEST_RETRY_SECONDS),
        started_at=None if result.started_at is None or not 0 <= result.started_at <= LATEST else result.started_at,
        code=cut_text(result.code, LONGEST_CODE),
        message=cut_text(result.message, LONGEST_MESSAGE),
        reasoning=cut_text(result.reasoning, LONGEST_MESSAGE),
        worker=cut_text(result.worker, LONGEST_CODE),
        ask=cut_text(result.ask, LONGEST_CODE),
        begins=cut_text(result.begins, LONGEST_CODE),
        step=cut_text(result.step, LONGEST_MESSAGE),
        model=cut_text(result.model, LONGEST_CODE),
        reserve=None if result.reserve is None else bounded(result.reserve),
        usage=None if result.usage is None else bounded(result.usage),
        details=details,
    )
    if not problem:
        return changed
    return msgspec.structs.replace(
        changed,
        kind="failed",
        output=None,
        output_ref=None,
        asks=(),
        choice=None,
        size=0,
        code="bad_output",
        message=f"the output: {problem}",
        retryable=False,
    )


def _is_choice(names: Sequence[str]) -> bool:
    return len(names) <= MOST_CHOSEN and all(0 < len(name) <= LONGEST_ID and "\0" not in name for name in names)


def _is_flow(flow: Flowed) -> bool:
    parts = (*flow.parts, *(part for _, part in flow.covered), *((flow.kept,) if flow.kept is not None else ()))
    cursors = [] if flow.cursors is None else [*flow.cursors.values()]
    is_odd = any(not 2 <= len(cursor) <= 3 for cursor in cursors)
    if is_odd or max(len(flow.opened), len(flow.ended), len(cursors)) > MOST_CHOSEN or len(parts) > MOST_PARTS:
        return False
    numbers = [flow.chain, *(after for after, _ in flow.covered), *(n for cursor in cursors for n in cursor)]
    numbers += [n for part in parts for n in (part.upto, part.size)]
    numbers += [n for end in flow.ended for n in (end.chunks, end.size)]
    texts = [*flow.opened, *(flow.cursors or ()), *(end.port for end in flow.ended)]
    texts += [text for part in parts for text in (part.ref, part.port)]
    return all(0 <= n <= LARGEST_NUMBER for n in numbers) and all(
        len(t) <= LONGEST_REF and "\0" not in t for t in texts
    )


def _fits(details: Any) -> bool:
    try:
        data = msgspec.json.encode(details)
    except (RecursionError, ValueError, TypeError, OverflowError):
        return False
    return len(data) <= LARGEST_DETAILS and _is_shallow(details) and not _has_nul(details)


def _is_shallow(value: Any, most: int = DEEPEST_OUTPUT) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one if type(one) is list else ())
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return True
    return False


def _has_nul(value: Any) -> bool:
    stack = [value]
    while stack:
        one = stack.pop()
        if type(one) is str:
            if "\0" in one:
                return True
        elif type(one) is dict:
            stack += one
            stack += one.values()
        elif type(one) is list:
            stack += one
    return False
