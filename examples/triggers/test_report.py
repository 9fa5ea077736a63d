"""What starts the report, tested in virtual time: no server, no waiting."""

from report import cancelled, nightly

from perdure.testing import Pushed, deliver, run_schedule


def test_the_night_on_which_clocks_go_forward_has_its_report():
    fired = run_schedule(nightly, since="2026-03-28", until="2026-03-30", stubs={"count": 7})
    assert [run.inputs["until"] for run in fired.runs] == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"]
    assert [run.outputs["orders"] for run in fired.runs] == [7, 7]


def test_a_message_that_is_sent_twice_counts_once():
    body = {"type": "order.cancelled", "customer": "ann", "ordered": "Monday", "cancelled": "Friday"}
    messages = [Pushed({"body": body}, id="m1"), Pushed({"body": body}, id="m1", at=30), {"body": {"type": "other"}}]
    fired = deliver(cancelled, *messages, real=True)
    assert [run.outputs for run in fired.runs] == [{"until": "Friday", "orders": 12}]
    assert len(fired.filtered) == 1
