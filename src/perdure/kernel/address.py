"""The address of an attempt: which run, node, scope, item, attempt and generation, and whether it undoes.

The kernel makes an address when it sends an attempt (`State.address`), and it travels whole from there to the worker
and back: no caller copies its parts. The names that derive from those parts are made here, so that none is invented
or stored elsewhere (rules 3, 41).

Ids of runs, approvals and dead letters stand in URLs: they are made of characters that no proxy, shell or client escapes. Parts
are joined with `:`, and a place is written with `~`; neither can be in the name of a node, nor in a run id that a user gives, so
no two things share an id.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from perdure.kernel.events import Scope
from perdure.kernel.run_ids import place, root_of

LONGEST_ID = 500


class Address(msgspec.Struct, frozen=True, eq=False, gc=False):
    run_id: str
    node: str
    scope: Scope = ()
    item: int | None = None
    attempt: int = 1
    """The number of the attempt; 0 stands for whichever attempt there is."""
    generation: int = 1
    undo: bool = False
    """True for an attempt to compensate the activation."""
    _task_id: str = ""
    """The name that `task_id` formatted, kept once it was asked for."""

    def __post_init__(self) -> None:
        if self._task_id:  # the name of the address that this one is a changed copy of
            msgspec.structs.force_setattr(self, "_task_id", "")

    @property
    def task_id(self) -> str:
        """The name of the attempt for ever: `run/fetch[2.1]#7/1.3`. Formatted once, and read by `parse_task_id`."""
        name = self._task_id
        if not name:
            name = f"{self.run_id}/{self.place}/{self.generation}.{self.attempt}{'u' if self.undo else ''}"
            msgspec.structs.force_setattr(self, "_task_id", name)
        return name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.task_id == other.task_id

    def __hash__(self) -> int:
        return hash(self.task_id)

    @property
    def place(self) -> str:
        """The name of the activation, for people and for keys that stand in no URL: `fetch[2.1]#7`."""
        return place(self.node, self.scope, self.item)

    def idempotency_key(self, undone: int = 0) -> str:
        """The key all attempts of the activation share; a new one only when it was compensated and runs again."""
        key = f"{self.run_id}/{self.place}/{'undo' if self.undo else 'do'}"
        return f"{key}/{undone}" if undone else key

    @property
    def approval_id(self) -> str:
        return f"{self._spot}:{self.attempt}"

    def child_id(self, undone: int = 0) -> str:
        """The id of the child run of an activation: one child each, and trying the node again retries it (rule 35)."""
        return _bounded(f"{self._spot}:{undone}" if undone else self._spot)

    def ask_approval_id(self, ask: str) -> str:
        """The id of the approval that an attempt asks for under this name: three `~` are in no other id."""
        return f"{self._ask_spot(ask)}:{self.attempt}"

    def ask_child_id(self, ask: str, times: int = 1) -> str:
        """The id of the child run of an ask; each time something is asked for under a name, it is another (rule 79)."""
        return _bounded(self._ask_spot(ask) + (f"~{times}" if times > 1 else ""))

    def _ask_spot(self, ask: str) -> str:
        scope = ".".join(map(str, self.scope))
        return f"{self.run_id}:{self.node}~{scope}~{'' if self.item is None else self.item}~{ask}"

    @property
    def dead_letter_id(self) -> str:
        return self._spot

    @property
    def _spot(self) -> str:
        """The activation inside an id: `run:fetch`, `run:fetch~2.1`, `run:fetch~2.1~7`, `run:fetch~~7`."""
        scope = ".".join(map(str, self.scope))
        if self.item is not None:
            return f"{self.run_id}:{self.node}~{scope}~{self.item}"
        return f"{self.run_id}:{self.node}~{scope}" if scope else f"{self.run_id}:{self.node}"


def _bounded(key: str) -> str:
    """The key, or a hash of it when too long: ids grow with nesting. The root stays, as it decides the partition."""
    if len(key) <= LONGEST_ID:
        return key
    root = root_of(key)
    return f"{root}:~{hashlib.sha256(key[len(root) :].encode()).hexdigest()[:32]}"


_TASK_ID = re.compile(
    r"(?P<run>.+)/(?P<node>[^/#\[\]]+)(?:\[(?P<scope>[0-9.]+)\])?(?:#(?P<item>[0-9]+))?"
    r"/(?P<generation>[0-9]+)\.(?P<attempt>[0-9]+)(?P<undo>u?)",
    re.DOTALL,
)


def run_of_task(name: str) -> str:
    """The run of a task id. A claim may have cut the name behind it; the ids of runs are short enough."""
    found = _TASK_ID.fullmatch(name)
    return name.partition("/")[0] if found is None else found["run"]


def parse_task_id(name: str) -> Address | None:
    """The address of this name, or None when it is no task id. A run id may hold a slash; a node's name never does."""
    found = _TASK_ID.fullmatch(name)
    if found is None:
        return None
    run_id, node, scope, item, generation, attempt, undo = found.groups()
    numbers = tuple(map(int, scope.split("."))) if scope else ()
    which = None if item is None else int(item)
    return Address(run_id, node, numbers, which, int(attempt), int(generation), bool(undo))
