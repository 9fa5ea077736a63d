"""What one piece of work may cost, counted over all its parts: steps, characters, bytes and time.

There is one budget for each rendered node, for all conditions of one decision, and for each request: compiling,
patching, checking against schemas, resolving references and building the answer spend from it. A limit on each part does
not bound work of ten thousand parts, and what is computed cannot be interrupted: it stops where it spends.
"""

from __future__ import annotations

from collections.abc import Callable

MIB = 1024 * 1024
MAX_STEPS = 200_000
"""How many steps a budget has. A step is one value looked at by Python code, about 0.25 µs: 50 ms in all."""
MAX_CHARACTERS = 10_000_000
"""How many characters of JSON may be made or put in, in all; intermediate results count too."""
CHARACTERS_A_STEP = 512
"""How many characters are copied, searched or compared in one step."""
MAX_BYTES = 256 * MIB
MAX_REFERENCES = 100_000
REQUEST_STEPS = 100_000_000
"""The steps of a request: 25 s of a thread. The largest definition that a body can hold takes a third of it."""
REQUEST_CHARACTERS = 2 * MIB
REQUEST_SECONDS = 60.0
ANSWER_BYTES = 8 * MIB
"""How many bytes of values that are stored as blobs one answer holds."""
ANSWER_REFERENCES = 10_000
_LOOK_STEPS = 100_000
"""After how many steps the clock is looked at."""


class OverBudget(Exception):
    """The budget is used up. The text of the error is for people."""


class Budget:
    __slots__ = (
        "_mark",
        "_most",
        "_now",
        "_seconds",
        "_until",
        "bytes",
        "characters",
        "partial",
        "references",
        "steps",
    )

    def __init__(
        self,
        steps: int = MAX_STEPS,
        characters: int = MAX_CHARACTERS,
        *,
        size: int = MAX_BYTES,
        references: int = MAX_REFERENCES,
        partial: bool = False,
        seconds: float = 0.0,
        now: Callable[[], float] | None = None,
    ) -> None:
        """`size` and `references` are of stored values. With `partial` those that do not fit are left out, otherwise
        they are refused. The time runs from the first step, by `now`; without a clock there is no limit to it."""
        self.steps = steps
        self.characters = characters
        self.bytes = size
        self.references = references
        self.partial = partial
        self._most = characters
        self._seconds = seconds
        self._now = now
        self._until: float | None = None
        self._mark = 0 if now is None else steps
        """Where the next look is needed, at the clock or at the end."""

    @classmethod
    def of_request(cls, now: Callable[[], float]) -> Budget:
        return cls(
            REQUEST_STEPS,
            REQUEST_CHARACTERS,
            size=ANSWER_BYTES,
            references=ANSWER_REFERENCES,
            partial=True,
            seconds=REQUEST_SECONDS,
            now=now,
        )

    @classmethod
    def without_end(cls) -> Budget:
        """For callers that work on their own machine alone: the command line, a program, the kernel's own checks."""
        return cls(1 << 62, 1 << 62)

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < self._mark:
            self._look()

    def make(self, characters: int) -> None:
        """Pay for text that was put together, or put in."""
        self.characters -= characters
        if self.characters < 0:
            raise OverBudget(
                f"the results are longer than {self._most:,} characters in all; pass values on whole, or use a task"
            )
        self.spend(characters // CHARACTERS_A_STEP)

    def read(self, value: object) -> None:
        """Pay for going through a text, or through a list or object without what is inside its parts."""
        kind = type(value)
        if kind is str:
            self.spend(len(value) // CHARACTERS_A_STEP)  # type: ignore[arg-type]
        elif kind is list or kind is dict:
            self.spend(len(value))  # type: ignore[arg-type]

    def load(self, size: int) -> bool:
        """Pay for a stored value, which may name more of them; False if it does not fit."""
        if self.references < 1 or size > self.bytes:
            return False
        self.references -= 1
        self.bytes -= size
        return True

    def halve(self) -> tuple[Budget, Budget]:
        """All that is left of stored values, in two equal parts: of two answers in one, equal values are loaded, or left
        out, in both."""
        size, references = self.bytes // 2, self.references // 2
        self.bytes, self.references = self.bytes - 2 * size, self.references - 2 * references
        first, second = (Budget(size=size, references=references, partial=self.partial) for _ in range(2))
        return first, second

    def _look(self) -> None:
        if self.steps < 0:
            raise OverBudget("there is too much data to look at; use a narrower path, or a transform or task for it")
        assert self._now is not None
        now = self._now()
        if self._until is None:
            self._until = now + self._seconds
        elif now > self._until:
            raise OverBudget(f"this takes longer than {self._seconds:.0f} s; use something smaller")
        self._mark = max(0, self.steps - _LOOK_STEPS)
