"""Refusals by the service itself, beside those by runs: input that does not fit, with all its problems at once.

It must not know HTTP; a status is a number that an edge may use.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.errors import PerdureError


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with the input, and where."""

    path: str
    code: str
    message: str


class Invalid(PerdureError):
    """The input does not fit. `troubles` has everything that is wrong with it."""

    code = "invalid_request"
    status = 422

    def __init__(self, message: str, troubles: Sequence[Trouble] = ()) -> None:
        super().__init__(message)
        self.troubles = tuple(troubles)


class InputsInvalid(Invalid):
    """The inputs of a run, or the data of a decision, do not fit their schema."""

    code = "invalid_inputs"


class Overloaded(PerdureError):
    """The engine has as much work as it was allowed to take; nothing was written."""

    code = "overloaded"
    status = 503


class TriggerFull(Overloaded):
    """A trigger has as many items waiting as it may; nothing was written."""

    code = "trigger_full"


class EventsFull(Overloaded):
    """A tenant has as many events that triggers have still to read as may be kept; nothing was written."""

    code = "events_full"


class AnswerLate(PerdureError):
    """The coordinator that holds this run did not answer in time. The request is stored and may still be decided."""

    code = "answer_late"
    status = 504


class TooLargeToDraw(PerdureError):
    """A workflow has more edges than a picture can have."""

    code = "too_large_to_draw"
    status = 422
