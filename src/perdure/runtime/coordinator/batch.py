"""A batch: messages that are decided together, and what came of each until all of it is durable.

Owns what is remembered between deciding, appending, acting and answering. A run that cannot be decided, stored or kept is taken out
with everything that was decided for it (`drop`); the others go on. Decides nothing, writes nothing, answers nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.journal import Exists
from perdure.kernel import commands as c
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.messages import Asked, Message

Answer = tuple[Asked, Any]
"""Who asked, and what is said when it is durable: the run's state, `Refused` or `Exists`."""


class Batch:
    def __init__(self, messages: list[Message], problems: dict[str, Exception]) -> None:
        """`problems`: runs that could not be loaded, and why."""
        self.messages = messages
        self.problems = problems
        self.runs: dict[str, Loaded] = {}
        """What was decided on."""
        self.receipts: list[str] = []
        """Of results that need nothing to be durable."""
        self.later: list[Message] = []
        """What is decided in a batch to come."""
        self.troubled = False
        """A store did not answer: the next batch had better wait a little."""
        self._answers: list[Answer] = []
        self._decided: dict[str, list[Message]] = {}

    # -- deciding ------------------------------------------------------------------------------------------------------

    def enter(self, message: Message, loaded: Loaded) -> None:
        """It is decided on this run."""
        self.runs[message.run_id] = loaded
        self._decided.setdefault(message.run_id, []).append(message)

    def take_out(self, message: Message) -> None:
        """The message that was entered last could not be decided: nothing has changed."""
        self._decided[message.run_id].pop()

    def answer(self, asked: Asked, answer: Any) -> None:
        self._answers.append((asked, answer))

    def drop(self, run_id: str) -> list[Message]:
        """Nothing of what was decided for this run is to become of it: neither commit nor effect nor answer. What it was about."""
        self.runs.pop(run_id, None)
        self._answers = [(asked, answer) for asked, answer in self._answers if asked.run_id != run_id]
        return self._decided.pop(run_id, [])

    # -- writing -------------------------------------------------------------------------------------------------------

    def answers_in_commits(self) -> dict[str, list[Answer]]:
        """By run, the answers that are written with what they are about."""
        found: dict[str, list[Answer]] = {}
        for asked, answer in self._answers:
            if asked.key is not None or asked.command_id:
                found.setdefault(asked.run_id, []).append((asked, answer))
        return found

    def answer_exists(self, run_id: str, outcome: Exists) -> None:
        """The run was there before: whoever asked with a key is told of that one."""
        exists = c.Refused("exists", f"run {run_id} exists already")
        for number, (asked, _) in enumerate(self._answers):
            if asked.run_id == run_id:
                self._answers[number] = (asked, outcome if asked.key is not None else exists)

    # -- when it is durable --------------------------------------------------------------------------------------------

    @property
    def answers(self) -> list[Answer]:
        return self._answers

    @property
    def decided(self) -> set[str]:
        return set(self._decided)

    def list_decided(self) -> Iterator[Message]:
        for messages in self._decided.values():
            yield from messages
