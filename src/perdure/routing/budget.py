"""What one rendered node, or all conditions of one decision, may cost: one count over all their pieces.

Rendering and deciding happen on the loop that every tenant shares, and cannot be interrupted. A limit on each expression is none on a
config that holds ten thousand of them, so whatever is computed from data spends from one budget, and is refused when that is used up.
"""

from __future__ import annotations

MAX_STEPS = 200_000
"""A step is one value looked at by Python code, about 0.25 µs: 50 ms in all."""
MAX_CHARACTERS = 10_000_000
"""Characters of JSON that may be made or put in, in all; what is made on the way counts too."""
CHARACTERS_A_STEP = 512
"""Text that is copied, searched or compared in one go."""


class OverBudget(Exception):
    """Everything that could be spent is spent. Its text is for people."""


class Budget:
    __slots__ = ("characters", "steps")

    def __init__(self, steps: int = MAX_STEPS, characters: int = MAX_CHARACTERS) -> None:
        self.steps = steps
        self.characters = characters

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise OverBudget("there is too much data to look at; use a narrower path, or a transform or task for it")

    def make(self, characters: int) -> None:
        """So much text was put together, or put in."""
        self.characters -= characters
        if self.characters < 0:
            raise OverBudget(
                f"the results are longer than {MAX_CHARACTERS:,} characters in all; pass values on whole, or use a task"
            )
        self.spend(characters // CHARACTERS_A_STEP)

    def read(self, value: object) -> None:
        """A text is gone through, or a list or object, without what is inside its parts."""
        kind = type(value)
        if kind is str:
            self.spend(len(value) // CHARACTERS_A_STEP)  # type: ignore[arg-type]
        elif kind is list or kind is dict:
            self.spend(len(value))  # type: ignore[arg-type]
