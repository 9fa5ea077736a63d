"""Suggestions for a name that is not known: one sentence, the same everywhere.

Owns the wording and the cost of a search: any client may send a name, and comparing two names takes the product of
their lengths.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterable

_LONGEST = 60
_MOST_COMPARED = 100
_MOST_LISTED = 20
_MOST_LETTERS = 400_000
"""How many pairs of letters are compared for many names together: some 40 ms, of names that are much alike."""


def find_close(word: str, known: Collection[str]) -> str | None:
    """The known name that is closest to the word, or None."""
    if len(word) > _LONGEST:
        return None
    near: Iterable[str] = (one for one in known if len(one) <= _LONGEST)
    if len(known) > _MOST_COMPARED:
        near = (one for one in near if one[:1] == word[:1] and abs(len(one) - len(word)) <= 2)
    compared = sorted(itertools.islice(near, _MOST_COMPARED))
    longer = [one for one in compared if word and one.startswith(f"{word}_")]
    if len(longer) == 1:  # `timeout` means timeout_seconds, though on_timeout has fewer other letters
        return longer[0]
    close = difflib.get_close_matches(word, compared, n=1)
    return close[0] if close else None


def suggest(word: str, known: Collection[str], otherwise: str = "") -> str:
    """The sentence `did you mean 'x'?`; where no name is close, `otherwise` or a list of the known names."""
    close = find_close(word, known)
    return f"did you mean '{close}'?" if close is not None else otherwise or list_known(known)


class Suggestions:
    """Suggestions for many names, which are bounded together: names beyond get none."""

    def __init__(self) -> None:
        self._letters = _MOST_LETTERS

    def find_close(self, word: str, known: Collection[str]) -> str | None:
        self._letters -= min(len(word), _LONGEST) ** 2 * min(len(known), _MOST_COMPARED)
        return find_close(word, known) if self._letters >= 0 else None

    def suggest(self, word: str, known: Collection[str]) -> str:
        """The same sentence as `suggest` gives."""
        close = self.find_close(word, known)
        return f"did you mean '{close}'?" if close is not None else list_known(known)


def list_known(known: Collection[str]) -> str:
    if not known:
        return "there are none"
    more = ", …" if len(known) > _MOST_LISTED else ""
    return f"known are {', '.join(itertools.islice(known, _MOST_LISTED))}{more}"
