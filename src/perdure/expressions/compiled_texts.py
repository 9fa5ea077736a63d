"""What texts are compiled to is kept, within a budget of characters: a process may see any number of definitions.

What comes of a text takes memory as the text is long, so short texts are kept by the thousand and long ones by the dozen.
Each class has the whole budget: together they hold three times as many characters at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

LENGTHS = (1_000, 32_000, 1_000_000)
"""The longest text of each class. A longer one is compiled each time it is needed."""
P = ParamSpec("P")
T = TypeVar("T")


class Kept(Generic[P, T]):
    """A pure function of texts, with its results."""

    def __init__(self, function: Callable[P, T], characters: int) -> None:
        self._function = function
        self._classes = [(length, lru_cache(maxsize=characters // length)(function)) for length in LENGTHS]
        update_wrapper(self, function)

    def __call__(self, *texts: P.args, **named: P.kwargs) -> T:
        length = sum([len(text) for text in texts if text is not None])  # type: ignore[arg-type, misc]
        for longest, kept in self._classes:
            if length <= longest:
                return kept(*texts, **named)  # type: ignore[arg-type]
        return self._function(*texts, **named)

    def sizes(self) -> list[tuple[int, int]]:
        """For each class: how many texts are kept, and how many can be."""
        found: list[Any] = [kept.cache_info() for _, kept in self._classes]
        return [(info.currsize, info.maxsize) for info in found]

    def clear(self) -> None:
        for _, kept in self._classes:
            kept.cache_clear()


def kept(*, characters: int) -> Callable[[Callable[P, T]], Kept[P, T]]:
    """A decorator that keeps the results for about so many characters of texts, those used last."""
    return lambda function: Kept(function, characters)
