"""Labels: how far a value is to be believed, and who may see it.

    integrity          trusted > user > untrusted      who could have written it: the author of the workflow or a person who was
                                                       asked; users who start runs; strangers
    confidentiality    public < private                whether it may leave

What is made of several values has the worse of each. On the wire and in events a label is text, such as `untrusted,private`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import msgspec

Integrity = Literal["trusted", "user", "untrusted"]
Confidentiality = Literal["public", "private"]
INTEGRITIES: tuple[str, ...] = get_args(Integrity)
CONFIDENTIALITIES: tuple[str, ...] = get_args(Confidentiality)


class Label(msgspec.Struct, frozen=True):
    integrity: Integrity = "user"
    confidentiality: Confidentiality = "public"

    def __or__(self, other: Label) -> Label:
        """The label of what is made of both."""
        return Label(
            max(self.integrity, other.integrity, key=INTEGRITIES.index),
            max(self.confidentiality, other.confidentiality, key=CONFIDENTIALITIES.index),
        )

    def __str__(self) -> str:
        return f"{self.integrity},{self.confidentiality}"

    @property
    def is_tainted(self) -> bool:
        return self.integrity == "untrusted"

    @property
    def is_private(self) -> bool:
        return self.confidentiality == "private"


TRUSTED, USER, UNTRUSTED = Label("trusted"), Label("user"), Label("untrusted")
PRIVATE = Label("trusted", "private")


def join(labels: Iterable[Label]) -> Label:
    """The label of what is made of all of them; of nothing, trusted and public."""
    found = TRUSTED
    for one in labels:
        found |= one
    return found


def read_label(text: str) -> Label:
    """The label that a text means. What is empty is of users who start runs; what is unknown is believed least."""
    if not text:
        return USER
    integrity, _, confidentiality = text.partition(",")
    known: Any = integrity if integrity in INTEGRITIES else "untrusted"
    seen: Any = confidentiality if confidentiality in CONFIDENTIALITIES else "private"
    return Label(known, seen)


def read_words(words: str | Iterable[str], otherwise: Label) -> Label:
    """The label that one or more words mean (`untrusted`, `[user, private]`); what they do not say is as in `otherwise`.
    Raises ValueError."""
    integrity, confidentiality = otherwise.integrity, otherwise.confidentiality
    for word in [words] if isinstance(words, str) else words:
        if word in INTEGRITIES:
            integrity = word  # type: ignore[assignment]
        elif word in CONFIDENTIALITIES:
            confidentiality = word  # type: ignore[assignment]
        else:
            raise ValueError(f"'{word}' is no label; labels are {', '.join((*INTEGRITIES, *CONFIDENTIALITIES))}")
    return Label(integrity, confidentiality)
