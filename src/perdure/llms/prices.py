"""What tokens cost: the operator's prices, and below them a dated table of the vendors'."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Annotated

import msgspec

from perdure.llms.port import Usage

Dollars = Annotated[float, msgspec.Meta(ge=0, le=100_000)]
_DATED = re.compile(r"-(?:20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2})$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars per million tokens. Tokens read from a cache, or written to one, cost as much as others unless it says."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    written: Dollars | None = None

    @property
    def writes_cost_more(self) -> bool:
        return self.written is not None and self.written > self.input

    def of(self, usage: Usage) -> int:
        """What was used, in millionths of a dollar, rounded up: dollars per million tokens are millionths per token."""
        plain = max(usage.input - usage.cached - usage.written, 0)
        parts = (
            (plain, self.input),
            (usage.cached, self.input if self.cached is None else self.cached),
            (usage.written, self.input if self.written is None else self.written),
            (usage.output, self.output),
        )
        total = sum((Fraction(str(price)) * count for count, price in parts), Fraction(0))
        return -int(-total // 1)


@cache
def built_in() -> dict[str, Price]:
    text = files("perdure.llms").joinpath("prices.toml").read_text(encoding="utf-8")
    return {name: msgspec.convert(price, Price) for name, price in tomllib.loads(text).items()}


def find_price(prices: dict[str, Price], provider: str, model: str) -> Price | None:
    """The price of a model, also under its name without the date of a release; None if nobody has said it."""
    for table in (prices, built_in()):
        for name in (model, _DATED.sub("", model)):
            found = table.get(f"{provider}/{name}")
            if found is not None:
                return found
    return None


def priced(usage: Usage, price: Price | None) -> Usage:
    if price is None:
        return msgspec.structs.replace(usage, usd=0, priced=False)
    return msgspec.structs.replace(usage, usd=price.of(usage))
