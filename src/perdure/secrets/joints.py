"""Secrets that stand partly in one chunk of a text and partly in the next ones: a model that says a key says it in pieces, of which
none is a secret (S2).

It owns what is held back of a stream until it is known whether a secret goes on, and what is masked of it. How many chunks there are
does not change: of a secret in three of them, the first ends with the mask and the others lack their part. Of one that was masked, at
most the first BEGINNING - 1 characters have left before it was known to be one.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.secrets.scrubber import MASK, Scrubber

BEGINNING = 4
"""How many characters of a secret a text may end with before it is held back."""
MOST_HELD = 16 * 1024
"""Characters that are held back at most: who repeats the beginning of a long secret for ever is masked."""


class Joints:
    """The text of one port, as it comes in chunks."""

    __slots__ = ("_begun", "_held", "_scrubber", "_sent")

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._sent = ""
        """What has left and may be the beginning of a secret."""
        self._held: list[str] = []
        """Chunks that have not left, since a secret may begin in the first of them."""
        self._begun = 0
        """How many characters at the end of all these may be the beginning of one."""

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def pass_on(self, text: str) -> list[str]:
        """The chunks that may leave now, in order."""
        sent, texts = self._sent, [*self._held, text]
        before = sent + "".join(self._held)
        joined, spans = before + text, list[tuple[int, int]]()
        if before:  # what stands in one chunk alone has been looked for in it
            longest = len(before) + self._scrubber.longest
            for start, end in self._scrubber.find(joined[:longest]):
                if start < len(before) and end > len(sent):
                    spans.append((start - len(sent), end - len(sent)))
            texts = _mask(texts, spans)
        done = spans[-1][1] + len(sent) if spans else 0
        begun = self._scrubber.count_begun(joined, max(done, len(before) - self._begun), done)
        self._begun = begun
        if begun < BEGINNING:
            self._sent, self._held = joined[len(joined) - begun :], []
            return texts
        self._sent = sent[len(joined) - begun :]
        free, left = 0, len(joined) - begun - len(sent)
        for kept in [*self._held, text]:
            left -= len(kept)
            if left < 0:
                break
            free += 1
        self._held = texts[free:]
        if sum(map(len, self._held)) > MOST_HELD:
            return texts[:free] + self.let_go()
        return texts[:free]

    def let_go(self) -> list[str]:
        """The chunks that are held, though more may come: what may be the beginning of a secret is masked in them."""
        whole = self._sent + "".join(self._held)
        start = len(whole) - self._begun - len(self._sent)
        texts = _mask(self._held, [(start, start + self._begun)]) if self._held else []
        self._sent, self._held = whole[len(whole) - self._begun :], []
        return texts

    def end(self) -> list[str]:
        """The chunks that are held, as nothing comes behind them: it was no secret."""
        texts, self._held, self._sent, self._begun = self._held, [], "", 0
        return texts


def _mask(texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """The texts with these spans of all of them together masked, each where it begins. One that begins before them was masked or has left."""
    if not spans:
        return list(texts)
    masked, begin = [], 0
    for text in texts:
        end, at, pieces = begin + len(text), begin, []
        for first, last in spans:
            if last > begin and first < end:
                pieces.append(text[at - begin : max(first, begin) - begin])
                if first >= begin or not begin:
                    pieces.append(MASK)
                at = min(last, end)
        masked.append("".join([*pieces, text[at - begin :]]))
        begin = end
    return masked
