"""What one rendered node, or all conditions of one decision, may cost: one count over all their pieces.

Rendering and deciding happen on the loop that every tenant shares, and cannot be interrupted. A limit on each
expression does not bound a config that holds ten thousand of them, so whatever is computed from data spends from one
budget, and is refused when that is used up.
"""

from __future__ import annotations

MAX_STEPS = 200_000
"""How many steps a budget has. A step is one value looked at by Python code, about 0.25 µs: 50 ms in all."""
MAX_CHARACTERS = 10_000_000
"""How many characters of JSON may be made or put in, in all; intermediate results count too."""
CHARACTERS_A_STEP = 512
"""How many characters are copied, searched or compared in one step."""


class OverBudget(Exception):
    """The budget is used up. The text of the error is for people."""


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
        """Pay for text that was put together, or put in."""
        self.characters -= characters
        if self.characters < 0:
            raise OverBudget(
                f"the results are longer than {MAX_CHARACTERS:,} characters in all; pass values on whole, or use a task"
            )
        self.spend(characters // CHARACTERS_A_STEP)

    def read(self, value: object) -> None:
        """Pay for going through a text, or through a list or object without what is inside its parts."""
        kind = type(value)
        if kind is str:
            self.spend(len(value) // CHARACTERS_A_STEP)  # type: ignore[arg-type]
        elif kind is list or kind is dict:
            self.spend(len(value))  # type: ignore[arg-type]
