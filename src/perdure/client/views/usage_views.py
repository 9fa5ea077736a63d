"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Usage(TypedDict):
    input: int
    """All input tokens; `cached` and `written` are the part of them that a cache gave or took."""
    cached: int
    written: int
    output: int
    """All output tokens; `reasoning` is a part of them."""
    reasoning: int
    calls: int
    usd: float
    """Dollars."""
    priced: bool
    """False: the price of some of it is not known, and `usd` does not hold it."""


class Unsettled(TypedDict):
    """What counts as used because nobody knows whether it happened."""

    calls: int
    usd: float
    """Dollars."""


class Spent(Usage):
    unsettled: Unsettled


class SpentBy(Spent):
    name: str
    """The workflow, the model or the day; an empty model: steps that name none."""


class TenantUsage(TypedDict):
    by: Literal["workflow", "model", "day"]
    since: str
    """The first day, in UTC."""
    until: str
    """The last day, in UTC."""
    items: list[SpentBy]
    total: Spent
    more: bool
    """Whether there are more than 1,000 items; the total counts them all."""


class Limits(TypedDict):
    """What may be used; what is not there is not limited."""

    usd: NotRequired[float]
    """Dollars."""
    tokens: NotRequired[int]
    calls: NotRequired[int]
    on_exceed: Literal["pause", "fail"]
    """What happens when it is used up."""


class RunUsage(TypedDict):
    run_id: str
    seq: int
    """The number of the last event that this counts."""
    total: Usage
    """All that was used, child runs included."""
    unsettled: Usage
    """The part of it whose calls have no known end: the provider may have charged for them."""
    children: Usage
    """The part of it that child runs have used."""
    reserved: Usage
    """What is set aside for calls and child runs under way."""
    budget: Limits | None
    """What may be used in all; null: the run has no budget."""
    by_node: dict[str, Usage]
    by_model: dict[str, Usage]
