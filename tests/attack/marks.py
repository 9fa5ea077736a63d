"""How a test says which finding it closes."""

from __future__ import annotations

from typing import Any

import pytest


def attack(number: str, what: str) -> Any:
    """`S07`, and what the attacker does, for the table."""
    return pytest.mark.attack(number, what)
