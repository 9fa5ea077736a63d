"""The answers about what runs use."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Maybe, View


class Usage(View, frozen=True, kw_only=True):
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


class Unsettled(View, frozen=True, kw_only=True):
    """What counts as used because nobody knows whether it happened."""

    calls: int
    usd: float
    """Dollars."""


class Spent(Usage, frozen=True, kw_only=True):
    unsettled: Unsettled


class SpentBy(Spent, frozen=True, kw_only=True):
    name: str
    """The workflow, the model or the day; an empty model: steps that name none."""


class TenantUsage(View, frozen=True, kw_only=True):
    by: Literal["workflow", "model", "day"]
    since: str
    """The first day, in UTC."""
    until: str
    """The last day, in UTC."""
    items: list[SpentBy]
    total: Spent
    more: bool
    """Whether there are more than 1,000 items; the total counts them all."""


class Limits(View, frozen=True, kw_only=True):
    """What may be used; what is not there is not limited."""

    usd: Maybe[float] = UNSET
    """Dollars."""
    tokens: Maybe[int] = UNSET
    calls: Maybe[int] = UNSET
    on_exceed: Literal["pause", "fail"]
    """What happens when it is used up."""


class RunUsage(View, frozen=True, kw_only=True):
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
