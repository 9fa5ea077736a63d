"""What can be done with a run, in a real browser: each says first what happens next, then does it, and the journal is followed."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.engine import tasks
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("actions")]

UNDO = {"type": "task", "config": {"function": "tests.engine.tasks:undo"}}


def wait_for(id: str, *dependencies: str, **config: Any) -> dict[str, Any]:
    return {"id": id, "type": "wait", "config": config, "dependencies": list(dependencies)}


def state_of(site, run):
    return site.get(f"/runs/{run}")["state"]


def until_state(site, run, state):
    wait_until(lambda: state_of(site, run) == state, f"{run} is {state}")


def until_node(site, run, node, state):
    wait_until(lambda: site.get(f"/runs/{run}/nodes/{node}")["state"] == state, f"{node} is {state}")


CLICK_AT_ONCE = """() => { window.__clicked = 0; new MutationObserver((_, watcher) => {
  const button = document.querySelector('dialog[open]:not([data-ready=true]) button[type=submit]');
  if (!button) return;
  watcher.disconnect(); button.click(); window.__clicked += 1;
}).observe(document.body, {subtree: true, childList: true, attributes: true}); }"""
"""Press the button of a sheet in the moment in which it opens, as somebody does who aimed at what lay below."""


def sheet(page, name):
    found = page.get_by_role("dialog", name=name)
    expect(found).to_have_attribute("data-ready", "true")  # it takes no click in its first 300 ms
    return found


def test_a_run_is_paused_resumed_signalled_and_goes_on(site, page):
    run = site.start(
        samples.definition_named("signalled", wait_for("paid", signal="paid"), samples.value("end", 1, "paid"))
    )
    page.goto(f"{site.url}/runs/{run}")
    expect(page.locator(".reason")).to_contain_text("waits for signal paid")
    page.locator(".actions").get_by_role("button", name="Pause").click()
    asked = sheet(page, "Pause this run")
    expect(asked).to_contain_text("the run is then paused")
    asked.get_by_label("Reason").fill("stocktaking")
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Pause").click()
    expect(asked.get_by_role("status")).to_contain_text("paused")
    asked.get_by_role("button", name="Close").last.click()
    expect(page.locator(".reason")).to_contain_text("paused by local: stocktaking")
    page.locator(".reason").get_by_role("button", name="Resume").click()
    sheet(page, "Resume this run").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("resumed")
    page.keyboard.press("Escape")
    page.locator(".reason").get_by_role("button", name="Signal").click()
    asked = sheet(page, "Signal this run")
    expect(asked.get_by_label("Name")).to_have_value("paid")
    expect(asked).to_contain_text("The run waits for paid.")
    asked.get_by_label("Payload, JSON").fill("{nonsense")
    expect(asked.get_by_role("button", name="Signal")).to_have_attribute("aria-disabled", "true")
    asked.get_by_label("Payload, JSON").fill('{"amount": 9223372036854775807}')
    asked.get_by_label("Id of the signal").fill("payment-1")
    asked.get_by_text("Copy as command, curl or Python").click()
    copied = f"perdure runs signal {run} paid '{{\"amount\":9223372036854775807}}' --signal-id payment-1"
    expect(asked.locator("pre").first).to_contain_text(copied)
    asked.get_by_role("button", name="Signal", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("paid completed")
    until_state(site, run, "completed")
    [event] = [one for one in site.get(f"/runs/{run}/events?limit=100")["items"] if one["type"] == "run.signalled"]
    assert event["data"]["payload"] == {"amount": 9223372036854775807}


def test_a_failed_run_is_retried_and_the_page_follows_it_again(site, page, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("")
    failing = samples.task("charge", "fail_while", "order", args={"path": str(broken)}) | {"retry": 1}
    definition = samples.definition_named(
        "mended", samples.value("order", 7), failing, samples.value("ship", 1, "charge")
    )
    run = site.start(definition, wait=60)
    page.goto(f"{site.url}/runs/{run}")
    expect(page.locator(".live")).to_have_text("ended")
    page.locator(".actions").get_by_role("button", name="Retry").click()
    asked = sheet(page, "Retry this run")
    expect(asked).to_contain_text("again: charge and ship")
    expect(asked).to_contain_text("1 node keeps its result")
    broken.unlink()
    asked.get_by_role("button", name="Retry").click()
    expect(asked.get_by_role("status")).to_contain_text("retried, generation 2")
    expect(asked.get_by_role("status")).to_contain_text("charge queued")
    page.keyboard.press("Escape")
    expect(page.locator(".run-head .state")).to_have_text("completed")
    expect(page.locator(".facts")).to_contain_text("3 of 3 nodes")


def test_what_is_cancelled_and_rolled_back_is_told_before(site, page):
    done = [
        {**samples.value(name, 1, *before), "compensator": UNDO} for name, before in (("book", ()), ("pay", ("book",)))
    ]
    run = site.start(samples.definition_named("trip", *done, wait_for("fly", "pay", signal="go")))
    until_node(site, run, "fly", "waiting")
    page.goto(f"{site.url}/runs/{run}")
    expect(page.locator(".run-head")).to_be_visible()
    page.keyboard.press(".")
    menu = page.get_by_role("dialog", name="What can be done with this run")
    refused = menu.get_by_role("button", name="Retry")
    expect(refused).to_have_attribute("aria-disabled", "true")
    expect(refused).to_contain_text("only a failed run can be retried")
    assert find_barriers(page) == []
    page.evaluate(CLICK_AT_ONCE)
    menu.get_by_role("button", name="Cancel", exact=False).first.click()
    asked = sheet(page, "Cancel this run")
    assert page.evaluate("window.__clicked") == 1
    assert state_of(site, run) == "running"  # a click that was meant for what lay below did nothing
    expect(asked).to_contain_text("does not go on: fly")
    expect(asked.get_by_role("button", name="Keep the run running")).to_be_visible()
    expect(asked.get_by_role("button", name="Close")).to_have_count(0)
    asked.get_by_label("Reason").fill("too late")
    asked.get_by_role("button", name="Cancel", exact=True).click()
    expect(asked.get_by_role("status")).to_contain_text("cancelled")
    page.keyboard.press("Escape")
    expect(page.locator(".run-head .state")).to_have_text("cancelled")
    page.keyboard.press(".")
    menu.get_by_role("button", name="Roll back").click()
    asked = sheet(page, "Roll back this run")
    expect(asked.locator(".next ol li")).to_have_text(["pay", "book"])
    asked.get_by_role("button", name="Roll back").click()
    expect(asked.get_by_role("status")).to_contain_text("compensating")
    page.keyboard.press("Escape")
    expect(page.locator(".run-head .state")).to_have_text("rolled back")


def test_what_the_server_refuses_meanwhile_is_said_and_the_sheet_stays(site, page, watch):
    watch.allowed.append("409")
    run = site.start(samples.definition_named("meanwhile", wait_for("w", signal="go")))
    page.goto(f"{site.url}/runs/{run}")
    page.locator(".actions").get_by_role("button", name="Pause").click()
    asked = sheet(page, "Pause this run")
    expect(asked).to_contain_text("the run is then paused")
    page.route(
        "**/pause",
        lambda route: (
            site.post(f"/runs/{run}/signal", {"name": "go"}),
            until_state(site, run, "completed"),
            route.continue_(),
        ),
    )
    asked.get_by_role("button", name="Pause").click()
    expect(asked.get_by_role("alert")).to_contain_text("only a running run can be paused")


def test_a_run_is_made_anew_from_a_node_with_another_input(site, page):
    definition = samples.definition_named(
        "anew", samples.value("first", {"n": 1, "keep": "x"}), samples.value("second", "{{ first.n }}", "first")
    )
    run = site.start(definition, wait=60)
    page.goto(f"{site.url}/runs/{run}?node=second")
    page.get_by_role("complementary").get_by_role("button", name="Rerun from here").click()
    asked = sheet(page, "Rerun")
    field = asked.get_by_label("What second is given")
    expect(field).to_have_value(re.compile('"keep": "x"'))
    field.fill('{"first": {"n": 2, "keep": "x"}}')
    expect(asked.get_by_role("row", name="/first/n")).to_contain_text("2")
    expect(asked).to_contain_text("1 node keeps its result")
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Rerun", exact=True).click()
    expect(page).not_to_have_url(re.compile(run))
    expect(page.locator(".run-head .state")).to_have_text("completed")
    new = page.url.rpartition("/")[2].partition("?")[0]
    assert site.get(f"/runs/{new}/nodes/second")["output"] == 2
    expect(page.locator(".facts")).to_contain_text(run)


def waits(site):
    """Runs that stand still, each for another reason: what the line says, and what its button is called."""
    parked = {**samples.task("charge", "fail"), "on_failure": "park", "retry": 1}
    again = {
        **samples.task("credit", "fail"),
        "retry": {"max_attempts": 3, "backoff_ms": 3_000_000, "max_backoff_ms": 3_000_000, "jitter": False},
    }
    slow = samples.task("busy", "gate", args={"name": "web-actions"})
    made = {
        "approval": (
            [samples.ORDER["nodes"][5] | {"dependencies": []}],
            "ann and bob are asked; you may decide",
            "Decide",
        ),
        "parked": ([parked], "charge is parked: error", "Requeue or discard"),
        "retry": ([again], "retry of credit in 49 min", "Look at it"),
        "timer": ([wait_for("nap", seconds=86_000)], "nap waits for a time, in 23 h", "Look at it"),
        "signal": ([wait_for("paid", signal="paid")], "waits for signal paid", "Signal"),
        "event": (
            [wait_for("paid", event="order.paid", key="o 7")],
            "waits for event order.paid with the key o 7",
            "Send it",
        ),
        "join": (
            [wait_for("late", signal="x"), slow, samples.value("j", 1, "late", "busy")],
            "waits for signal x",
            "Signal",
        ),
    }
    return {
        name: (site.start(samples.definition_named(f"waits-{name}", *nodes)), said, button)
        for name, (nodes, said, button) in made.items()
    }


def test_each_kind_of_wait_is_said_with_its_button(site, page):
    try:
        for name, (run, said, button) in waits(site).items():
            page.goto(f"{site.url}/runs/{run}")
            line = page.locator(".reason")
            expect(line, name).to_contain_text(re.compile(re.escape(said).replace("49\\ min", "(49|50) min")))
            expect(line.get_by_role("button", name=button).or_(line.get_by_role("link", name=button))).to_be_visible()
            if name == "join":
                page.goto(f"{site.url}/runs/{run}?node=j")
                expect(page.get_by_role("complementary")).to_contain_text("late")
    finally:
        for gate in [tasks.gates.get("web-actions")]:
            if gate is not None:
                site._loop.call_soon_threadsafe(gate.set)


def test_an_event_that_is_waited_for_is_sent_from_the_page(site, page):
    run = site.start(samples.definition_named("heard", wait_for("paid", event="order.heard", key="o 7")))
    page.goto(f"{site.url}/runs/{run}")
    page.locator(".reason").get_by_role("button", name="Send it").click()
    asked = page.get_by_role("dialog", name="Send an event")
    expect(asked).to_have_attribute("data-ready", "true")
    expect(asked.get_by_label("Name")).to_have_value("order.heard")
    asked.get_by_label("Key").fill("o 8")
    asked.get_by_label("Payload").fill("{")
    expect(asked.locator("footer")).to_contain_text("This is not JSON")
    asked.get_by_label("Payload").fill('{"amount": 12}')
    assert find_barriers(page) == []
    asked.get_by_role("button", name="Send", exact=True).click()
    expect(asked).to_contain_text("1 wait for it under another key.")
    page.keyboard.press("Escape")
    page.locator(".reason").get_by_role("button", name="Send it").click()
    expect(asked).to_have_attribute("data-ready", "true")
    asked.get_by_label("Payload").fill('{"amount": 12}')
    asked.get_by_role("button", name="Send", exact=True).click()
    expect(asked).to_contain_text("1 trigger or run listens")
    page.keyboard.press("Escape")
    expect(page.locator(".run-head .state")).to_have_text("completed")


def test_a_queue_that_nobody_listens_to_is_named_with_the_command_that_ends_that(site, page):
    """An embedded server listens to every queue, so what a distributed one would say is put into its answer."""
    run = site.start(samples.definition_named("far", wait_for("w", signal="go")))

    def far(route):
        answer = route.fetch()
        body = answer.json() | {"first": {"code": "no_worker", "node": "w", "queue": "gpu two"}, "nodes": {}}
        route.fulfill(response=answer, json=body)

    page.route("**/explain", far)
    page.add_init_script("navigator.clipboard.writeText = async text => { window.__copied = text; }")
    page.goto(f"{site.url}/runs/{run}")
    expect(page.locator(".reason")).to_contain_text("no worker listens to queue gpu two")
    page.get_by_role("button", name="Copy the command that starts one").click()
    expect(page.locator(".reason")).to_contain_text("Copied")
    assert page.evaluate("window.__copied") == "perdure worker --queues 'gpu two'"
