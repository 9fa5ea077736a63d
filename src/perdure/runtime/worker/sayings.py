"""What a handler says besides its output: the names of its steps, the nodes it chooses and why, codes and times.

An annotation keeps nobody from giving a number where a text belongs, half a character, or a number that no float
holds. A result with such a field could not be sent, or not be read, and would be reported for ever. So whatever a
handler says passes through here, and is then of the right type, plain, bounded, and can be written. This file owns
those limits. It must not know what is done with the fields.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from perdure.kernel.readings.seen import DEEPEST_PROGRESS
from perdure.outcomes import Chosen, Failure, Renewed
from perdure.plain import type_name
from perdure.plain_text import LOOKED_AT, cut, find_text_trouble
from perdure.runtime.worker.encoder import is_light
from perdure.runtime.worker.outputs import Encoded, encode_output
from perdure.transport import LONGEST_ID, LONGEST_MESSAGE, LONGEST_PROGRESS, LONGEST_RETRY_SECONDS, MOST_CHOSEN, Task

LONGEST_STEP = 1_000


def plain(text: str) -> str:
    """The text as every store can hold it, whatever class it was of."""
    text = str.__str__(text)
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\ufffd")


def choice_of(chosen: Chosen, *, knows_secrets: bool = True) -> tuple[tuple[str, ...], str]:
    """The nodes that a function chose, and why. Raises Failure."""
    nodes: Any = chosen.next_nodes
    if not isinstance(nodes, list | tuple | set | frozenset):
        raise _refuse(f"next_nodes is a list of the ids of nodes, got {type_name(nodes)}")
    names = list(islice(nodes, MOST_CHOSEN + 1))
    if len(names) > MOST_CHOSEN:
        raise _refuse(f"next_nodes has more than the {MOST_CHOSEN:,} ids that are allowed")
    for number, name in enumerate(names):
        if (trouble := find_text_trouble(name, LONGEST_ID)) is not None:
            raise _refuse(f"next_nodes[{number}] is the id of a node: {trouble}")
    return tuple(str.__str__(name) for name in names), _reasoning(chosen.reasoning, knows_secrets=knows_secrets)


def inputs_of(wish: Renewed, task: Task) -> Any:
    """The inputs with which a run is to go on, None for those it has. Raises Failure."""
    inputs = wish.inputs
    if isinstance(inputs, Encoded):  # an isolated process has looked at it, and sends what it found
        return inputs
    if inputs is not None and not isinstance(inputs, dict):
        message = f"the inputs of ContinueAsNew are a mapping from names to values, got {type_name(inputs)}"
        raise Failure("bad_output", message, retryable=False)
    if task.sensitive:
        message = f"{task.node} has sensitive fields, and the inputs of a run are not sealed"
        raise Failure("bad_output", message, retryable=False)
    return inputs


def _reasoning(reasoning: Any, *, knows_secrets: bool) -> str:
    if reasoning is None:
        return ""
    if not isinstance(reasoning, str):
        raise _refuse(f"reasoning is text, got {type_name(reasoning)}")
    return cut(plain(reasoning), LONGEST_MESSAGE if knows_secrets else LOOKED_AT)


def progress_of(value: Any) -> str:
    """How far a handler says it is, as JSON. Raises ValueError for what cannot be shown."""
    if not is_light(value):
        raise ValueError(f"this progress is not shown: it has more than {LONGEST_PROGRESS:,} characters")
    try:
        said = encode_output(value, "progress").decode()
    except Failure as problem:
        raise ValueError(f"this progress is not shown: {problem.message}") from None
    if len(said) > LONGEST_PROGRESS:
        raise ValueError(
            f"this progress is not shown: it has {len(said):,} characters as JSON, of at most {LONGEST_PROGRESS:,}"
        )
    if said.count("[") + said.count("{") > DEEPEST_PROGRESS:
        raise ValueError(f"this progress is not shown: it has more than {DEEPEST_PROGRESS} brackets")
    return said


def seconds_of(value: Any) -> float | None:
    """A time to wait; None for what is no number of seconds."""
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return float(min(value, LONGEST_RETRY_SECONDS))


def _refuse(problem: str) -> Failure:
    return Failure("bad_output", f"the Chosen that was returned: {problem}", retryable=False)
