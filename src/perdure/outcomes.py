"""What a handler may raise or return to say more than "it failed" or "here is the output".

    Failure             a code of the handler's own, and whether trying again makes sense
    ├── RetryLater      not now: try again after so many seconds
    ├── Abort           trying again will not help
    ├── StepAmbiguous   raised by `ctx.step`: an earlier attempt began the step, and what became of it is not known
    ├── StreamBroken    raised where a stream is read: the node that yields it failed
    └── NotDone         the effect certainly did not happen, so even `effect: at_most_once` may be tried again
    ContinueAsNew       no failure: an endless run goes on as a new one, here and now

They are raised by handlers, not by Perdure, so they stand outside the tree of `perdure.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Failure(Exception):
    """A failure with a code of its own, for node types (`http:503`); functions rarely need it."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retryable: bool = True,
        retry_after: float | None = None,
        not_done: bool = False,
        details: Any = None,
    ) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.not_done = not_done
        self.details = details


class RetryLater(Failure):
    """Ask for another attempt, not before `after` seconds have passed."""

    def __init__(self, reason: str = "", *, after: float) -> None:
        if not 0 <= after < float("inf"):
            raise ValueError(f"expected after to be a number of seconds of at least 0, got {after!r}")
        super().__init__("retry_later", reason, retry_after=after)


class Abort(Failure):
    """Fail without another attempt."""

    def __init__(self, reason: str = "") -> None:
        super().__init__("aborted", reason, retryable=False)


class NotDone(Failure):
    """The effect certainly did not happen: no connection was made, or the request was refused before it was read."""

    def __init__(self, reason: str = "") -> None:
        super().__init__("not_done", reason, not_done=True)


class StepAmbiguous(Failure):
    """A step with `effect="at_most_once"` began in an earlier attempt, and what became of it is not known (rule 81)."""

    def __init__(self, step: str, what: str = "") -> None:
        """`what` says what the step does, for the person who looks into it."""
        about = f" ({what})" if what else ""
        message = f"step {step!r}{about} began in an earlier attempt, and whether it happened is not known; a requeue does it again"
        super().__init__("step_ambiguous", message, retryable=False)
        self.step = step


class StreamBroken(Failure):
    """The node whose stream is read failed before its end (rule 67). A function may catch it and make something of what it has."""

    def __init__(self, node: str, reason: str = "") -> None:
        super().__init__(
            "stream_broken", f"the stream of {node} is broken{f': {reason}' if reason else ''}", retryable=False
        )
        self.node = node


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a device: libraries for devices have errors of their own for it, which
    are told by their names, as none of these libraries is imported here."""
    return isinstance(error, MemoryError) or not _MEMORY_ERRORS.isdisjoint(one.__name__ for one in type(error).__mro__)


_MEMORY_ERRORS = frozenset({"OutOfMemoryError", "ResourceExhaustedError"})  # PyTorch and CuPy; TensorFlow


class ContinueAsNew(Exception):
    """Raised by the function of the looping node of an endless workflow: the iteration ends, and the run goes on as a new one,
    with these inputs, or with the same ones (rule 15). It is the outcome of the node, and no failure."""

    def __init__(self, inputs: Mapping[str, Any] | None = None) -> None:
        super().__init__("the run goes on as a new one")
        self.inputs = inputs


class Renewed(msgspec.Struct, frozen=True):
    """What a node type returns for a function that raised `ContinueAsNew`."""

    inputs: Any = None


class Chosen(msgspec.Struct, frozen=True):
    """Returned by a function whose node has an `agent_driven` branch: its output, and the nodes it chooses among those
    that the branch offers (rule 22)."""

    output: Any
    next_nodes: tuple[str, ...]
    reasoning: str = ""
