"""Which ids a run may have, how an id shows its parent, and how a place inside a run is written for people.

The names that derive from an attempt are in `address.py`.
"""

from __future__ import annotations

import re

from perdure.kernel.events import Scope

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RUN_ID_RULE = (
    "up to 128 letters, digits and . _ - , beginning with a letter or digit (: and ~ are for ids that Perdure makes)"
)


def root_of(run_id: str) -> str:
    """The id of the run at the top of this run's tree: the run itself when it is no child."""
    return run_id.partition(":")[0]


def is_child(run_id: str) -> bool:
    return ":" in run_id


def place(node: str, scope: Scope = (), item: int | None = None) -> str:
    """The name of an activation, for people and for keys outside of URLs: `fetch`, `fetch[2.1]`, `fetch[2.1]#7`."""
    text = f"{node}[{'.'.join(map(str, scope))}]" if scope else node
    return text if item is None else f"{text}#{item}"
