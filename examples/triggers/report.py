"""A report that is made every night, and whenever the shop says that an order was cancelled."""

import perdure


@perdure.task
def count(since: str, until: str) -> int:
    """The orders of a time; a real one would ask the shop."""
    return len(since) + len(until)


@perdure.workflow
def report(since: str, until: str) -> dict[str, object]:
    return {"until": until, "orders": count(since, until)}


nightly = perdure.schedule(
    report,
    name="nightly",
    cron="30 2 * * *",
    timezone="Europe/Oslo",
    inputs={"since": "{{ trigger.previous }}", "until": "{{ trigger.at }}"},
    pause_after_failures=5,
)

cancelled = perdure.on_webhook(
    report,
    name="cancelled",
    scheme="standard",
    secret="SHOP",
    filter="item.body.type == 'order.cancelled'",
    key="{{ item.body.customer }}",  # orders of one customer are looked at one after the other
    inputs={"since": "{{ item.body.ordered }}", "until": "{{ item.body.cancelled }}"},
)
