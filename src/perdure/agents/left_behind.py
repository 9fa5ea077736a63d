"""What an agent leaves for later runs, as steps: turns and notes of its session, and the shapes of the pipelines that it ran.

    left/turn/<key>        what the run was asked in a session, and what it said
    left/note/<id>/<key>   a note that it made there with call <id>
    left/shape/<hash>      a pipeline that it ran, by its shape

The names say where each belongs, so that the append that completes the agent writes the rows without looking into the steps, which may be
blobs. It must not know databases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from perdure.plain_text import cut, find_name_trouble

TURN, NOTE, SHAPE = "left/turn/", "left/note/", "left/shape/"
LONGEST_KEY = 200
LONGEST_TEXT = 6_000
"""The most characters of a prompt, an answer or a summary that a session keeps."""
Space = Literal["session", "note", "shape"]


class Left(msgspec.Struct, frozen=True):
    space: Space
    name: str
    """The key of the session, or the hash of the shape."""
    id: str
    """The call that made a note; empty for others."""
    step: str


def find_left(steps: Iterable[str]) -> Iterator[Left]:
    """What the steps of a completed agent leave."""
    for step in steps:
        if step.startswith(TURN):
            yield Left("session", step.removeprefix(TURN), "", step)
        elif step.startswith(NOTE):
            id, _, key = step.removeprefix(NOTE).partition("/")
            yield Left("note", key, id, step)
        elif step.startswith(SHAPE):
            yield Left("shape", step.removeprefix(SHAPE), "", step)


class SessionConfig(msgspec.Struct, frozen=True):
    """What a config says of a session."""

    key: str
    shared: bool = False
    """Whether everybody who may run the workflow has a part in it."""
    exclusive: bool = True
    """Whether one run at a time has it."""


class BadSession(ValueError):
    """Why a config names no session."""


def read_session(config: Mapping[str, Any]) -> SessionConfig | None:
    """The session that a rendered config names. Raises BadSession."""
    given = config.get("session")
    if given is None:
        return None
    more: dict[str, Any] = {}
    if isinstance(given, dict):
        more = {name: bool(given[name]) for name in ("shared", "exclusive") if name in given}
        given = given.get("key")
    if isinstance(given, bool | float) or not isinstance(given, str | int) or given == "":
        raise BadSession("the key of a session is text or a whole number, and came to something else")
    key = str(given)
    if len(key) > LONGEST_KEY:
        raise BadSession(f"the key of a session may have {LONGEST_KEY} characters, and has {len(key):,}")
    if (trouble := find_name_trouble(key)) is not None:
        raise BadSession(f"the key of a session: {trouble}")
    return SessionConfig(key, **more)


def session_name(workflow: str, node: str, key: str) -> str:
    """What a session is called in the database. Neither names of workflows nor ids of nodes have slashes."""
    return f"{workflow}/{node}/{key}"


def short(text: str) -> str:
    return cut(text, LONGEST_TEXT)
