"""A batch: messages that are decided together, and the outcome of each until all outcomes are durable.

Owns what is remembered between deciding, appending, acting and answering. A run that cannot be decided, stored or kept
is removed with everything that was decided for it (`drop`); the other runs go on. Decides nothing, writes nothing and
sends no answers.
"""

from __future__ import annotations

from typing import Any

from perdure.journal import Exists
from perdure.kernel import commands as c
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.messages import Asked, BeginAsked, Message, Reported

Answer = tuple[Asked, Any]
"""A request and its answer, sent once the decision is durable: the run's state, `Refused` or `Exists`."""


class Batch:
    def __init__(self, messages: list[Message], problems: dict[str, Exception]) -> None:
        """`problems` holds the runs that could not be loaded, each with the reason."""
        self.messages = messages
        self.problems = problems
        self.runs: dict[str, Loaded] = {}
        """The runs for which something was decided."""
        self.receipts: list[str] = []
        """Receipts of results that can be acknowledged without a commit."""
        self._refused: list[str] = []
        """Those of them that were refused."""
        self.later: list[Message] = []
        """Messages left to a later batch."""
        self.troubled = False
        """True when a store did not answer, so that the next batch should wait a little."""
        self.proven = False
        """Whether something was appended, so that what this process has in memory is of the database as it is now."""
        self._answers: list[Answer] = []
        self._decided: dict[str, list[Message]] = {}

    # -- deciding ------------------------------------------------------------------------------------------------------

    def enter(self, message: Message, loaded: Loaded) -> None:
        """Record that the message is being decided on this run."""
        self.runs[message.run_id] = loaded
        loaded.awaits = False
        self._decided.setdefault(message.run_id, []).append(message)

    def take_out(self, message: Message) -> None:
        """Undo the last `enter`: the message could not be decided, and its run has not changed."""
        self._decided[message.run_id].pop()
        self.runs[message.run_id].awaits = True

    def answer(self, asked: Asked, answer: Any) -> None:
        self._answers.append((asked, answer))

    def drop(self, run_id: str) -> list[Message]:
        """Discard everything decided for this run (its commit, effects and answers), and return the messages it was
        decided for."""
        self.runs.pop(run_id, None)
        self._answers = [(asked, answer) for asked, answer in self._answers if asked.run_id != run_id]
        return self._decided.pop(run_id, [])

    # -- writing -------------------------------------------------------------------------------------------------------

    def answers_in_commits(self) -> dict[str, list[Answer]]:
        """The answers, by run, that are written in the same commit as the decision they answer."""
        found: dict[str, list[Answer]] = {}
        for asked, answer in self._answers:
            if asked.key is not None or asked.command_id:
                found.setdefault(asked.run_id, []).append((asked, answer))
        return found

    def answer_exists(self, run_id: str, outcome: Exists) -> None:
        """Answer for a run that existed already: a caller with an idempotency key gets that run, any other caller a
        refusal."""
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

    def list_begins(self) -> list[BeginAsked]:
        return [
            message for messages in self._decided.values() for message in messages if isinstance(message, BeginAsked)
        ]

    def refuse(self, message: Reported) -> None:
        """Take note of a result of a run that there is not. Its worker is told where that goes on: who waits for a stream
        would do so for ever."""
        self.receipts.append(message.delivery.receipt)
        if message.delivery.result.kind == "checkpointed":
            self._refused.append(message.delivery.receipt)

    def list_receipts(self) -> tuple[list[str], list[str]]:
        """The receipts of all results that are settled, and those of them that were refused."""
        decided = [
            message for messages in self._decided.values() for message in messages if isinstance(message, Reported)
        ]
        receipts = [message.delivery.receipt for message in decided]
        refused = [message.delivery.receipt for message in decided if message.refused]
        return [*self.receipts, *receipts], [*self._refused, *refused]
