"""`perdure approvals show` says whether the other system was told, or why not."""

import pytest

from perdure.cli.approvals import _told
from perdure.clock import system


def view(**notification):
    found = {"state": "waiting", "attempts": 0, "delivered_at": None, "next_at": None, "last_error": None}
    notify = {"url": "https://hooks.example/a?token=xyz", "secret": "HOOK"}
    return {"notify": notify, "notification": {**found, **notification}}


@pytest.mark.parametrize(
    ("notification", "said"),
    [
        ({}, "not yet, https://hooks.example/a"),
        ({"state": "delivered", "delivered_at": system.now()}, "https://hooks.example/a, "),
        (
            {"attempts": 2, "next_at": system.now() + 90, "last_error": "no connection"},
            "not yet, no connection; attempt 3",
        ),
        ({"state": "failed", "attempts": 9, "last_error": "answered 500"}, "no, answered 500"),
        ({"state": "stopped", "attempts": 1}, "no, it was decided before"),
    ],
)
def test_what_became_of_telling_is_said_without_values_of_the_query(notification, said):
    told = _told(view(**notification))
    assert told.startswith(said)
    assert "xyz" not in told


def test_nothing_is_said_where_nobody_else_is_told():
    assert _told({"notification": None}) == ""
