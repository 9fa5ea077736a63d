"""`--shuffle SEED`: folders, their files and the tests of a file in an order that the seed decides.

Not all tests mixed: what a file or a folder shares would be made anew for every test.
"""

from __future__ import annotations

from random import Random

import pytest


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="another order of folders, files and tests (make stress)")


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """The same in every process: xdist compares."""
    places: dict[object, float] = {}
    random = Random(f"order {seed}")

    def place(name: object) -> float:
        return places.setdefault(name, random.random())

    items.sort(key=lambda item: (place(item.path.parent), place(item.path), place(item.nodeid)))
