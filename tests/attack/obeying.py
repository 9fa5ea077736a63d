"""A function that does what the text it is given tells it, as a model does that is talked into something."""

from __future__ import annotations

import json
import re

import perdure

paid: list[str] = []
"""What was paid, in this process."""


def obey(text: str) -> perdure.Chosen:
    """Goes where the text says, and says what the text wants said."""
    return perdure.Chosen({"said": text, "url": text}, tuple(re.findall(r"go to (\S+)", text)), reasoning=text)


def pay(amount: object) -> str:
    paid.append(json.dumps(amount))
    return "paid"
