"""The types of a film: every change of a run, as columns. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.general_schemas import View


class FilmEdges(View, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What became of edges, as columns: one entry for each change."""

    fates: list[str]
    seq: list[int]
    """As distances, like those of the film."""
    from_: list[int]
    to: list[int]
    fate: list[int]


class Film(View, frozen=True, kw_only=True):
    run_id: str
    nodes: list[str]
    """The nodes that `node`, `from` and `to` number, of every definition the run has followed."""
    states: list[str]
    scopes: list[list[int]]
    """The iterations that `scope` numbers."""
    seq: list[int]
    """The events of the rows: each as the distance from the one before, the first from 0."""
    at: list[int]
    """When, in milliseconds since 1970: as distances, like `seq`."""
    node: list[int]
    scope: list[int]
    item: list[int]
    """The item of a map; -1 for the node itself."""
    visit: list[int]
    attempt: list[int]
    state: list[int]
    started: list[int | None]
    """How many milliseconds before the row the attempt had begun, where that is known."""
    shown: list[int]
    """1 where the node shows this row from here on."""
    edges: FilmEdges
    last_seq: int
    next_cursor: str | None
