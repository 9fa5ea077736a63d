"""What can go wrong between Perdure and another host.

PerdureError
└── EgressError         an outgoing call did not give an answer
    ├── EgressRefused   the rules do not allow it; trying again will not help
    ├── NetworkFailed   no connection, or it broke
    ├── TimedOut        no answer in time
    ├── AnswerTooLarge  more bytes than the caller allows
    └── AnswerInvalid   bytes that are no answer

`sent` says whether the other side may have seen the request: False means that nothing was done there. Messages name
the host and the path; never user names, query values or bodies, and never an address that a name resolved to.
"""

from __future__ import annotations

from perdure.errors import PerdureError


class EgressError(PerdureError):
    code = "egress"
    status = 502

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class EgressRefused(EgressError):
    code = "egress_refused"


class NetworkFailed(EgressError):
    code = "network"


class TimedOut(EgressError):
    code = "timeout"


class AnswerTooLarge(EgressError):
    code = "response_too_large"


class AnswerInvalid(EgressError):
    code = "bad_response"
