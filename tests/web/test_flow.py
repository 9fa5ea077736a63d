"""What moves while a run goes on: chunks of a stream as they are yielded, dots on the edges, and the visits of a loop."""

import re

import pytest
from playwright.sync_api import expect

from tests.engine import tasks
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("run-page")]


def streaming(id, function, *dependencies, **more):
    config = {"function": f"tests.engine.streaming:{function}", "args": more.pop("args", {})}
    return {"id": id, "type": "task", "config": config, "dependencies": list(dependencies), **more}


def open_gate(site, name):
    wait_until(lambda: name in tasks.gates, f"the gate {name} is waited for")
    site._loop.call_soon_threadsafe(tasks.gates[name].set)


def test_words_are_shown_while_they_are_said_and_after(site, page):
    run = site.start(samples.definition_named("talk", streaming("answer", "words", stream={})))
    page.goto(f"{site.url}/runs/{run}?node=answer")
    said = page.get_by_role("log", name="Chunks")
    expect(said).to_have_text("one two ")
    facts = page.locator(".stream-facts")
    expect(facts).to_have_text(re.compile("flows.*2 chunks"))
    assert find_barriers(page) == []
    open_gate(site, f"words {run}")
    expect(said).to_have_text("one two three")
    expect(facts).to_have_text(re.compile("ended.*3 chunks"))
    page.reload()
    expect(said).to_have_text("one two three")
    expect(facts).to_have_text(re.compile("ended.*3 chunks"))


def test_of_many_chunks_the_newest_are_shown_one_in_a_line_and_the_rest_is_counted(site, page):
    node = streaming("numbers", "count", args={"n": 700}, stream={"collect": "count"})
    run = site.start(samples.definition_named("count", node), wait=60)
    page.goto(f"{site.url}/runs/{run}?node=numbers")
    lines = page.get_by_role("log", name="Chunks").get_by_role("listitem")
    expect(lines).to_have_count(500)
    expect(lines.last).to_have_text("700")
    expect(page.locator(".stream")).to_contain_text("200 earlier chunks are not shown.")


def test_a_node_that_yields_nothing_has_no_stream(site, page):
    run = site.start(samples.definition_named("plain", samples.value("a", 1)), wait=60)
    page.goto(f"{site.url}/runs/{run}?node=a")
    expect(page.locator("aside.drawer")).to_contain_text("Attempts")
    expect(page.locator(".stream")).to_have_count(0)
    assert site.get(f"/runs/{run}/nodes/a")["ports"] == []


DOTS = samples.definition_named(
    "dots", samples.value("before", 1), samples.task("busy", "gate", "before", args={"name": "web-dots"})
)


def test_a_dot_moves_to_what_is_executed_and_none_when_nothing_is(site, page):
    tasks.gates.pop("web-dots", None)
    run = site.start(DOTS)
    page.goto(f"{site.url}/runs/{run}")
    canvas = page.locator("canvas")
    expect(page.get_by_role("treeitem").filter(has_text="busy")).to_contain_text("running")
    expect(canvas).to_have_attribute("data-moving", "true")
    first = canvas.screenshot()
    wait_until(lambda: canvas.screenshot() != first, "the picture moves")
    page.emulate_media(reduced_motion="reduce")
    expect(canvas).to_have_attribute("data-moving", "false")
    page.emulate_media(reduced_motion="no-preference")
    expect(canvas).to_have_attribute("data-moving", "true")
    open_gate(site, "web-dots")
    expect(page.locator(".run-head .state")).to_have_text("completed")
    expect(canvas).to_have_attribute("data-moving", "false")


LOOP = samples.definition_named(
    "round",
    samples.value("start", 0),
    {
        **samples.value("try", {"round": "{{ loop.iteration }}"}, "start"),
        "loop": {"condition": "loop.iteration < 3", "max_iterations": 5},
    },
    samples.value("end", 1, "try"),
)


def test_each_visit_of_a_loop_is_looked_at_by_itself(site, page):
    run = site.start(LOOP, wait=60)
    visits = site.get(f"/runs/{run}/nodes/try")["visits"]
    page.goto(f"{site.url}/runs/{run}?node=try")
    drawer = page.locator("aside.drawer")
    picker = drawer.get_by_role("combobox", name="Visit")
    expect(picker.get_by_role("option")).to_have_count(len(visits))
    expect(drawer.locator(".json").first).to_contain_text(f"round: {visits[-1]['output']['round']}")
    drawer.get_by_role("button", name="Visit before").click()
    expect(page).to_have_url(re.compile(r"visit=\d+"))
    picker.select_option("1")
    expect(page).to_have_url(re.compile(r"visit=1(&|$)"))
    expect(drawer.locator(".parts")).to_contain_text(re.compile(rf"round\s*{visits[0]['output']['round']}"))
    expect(drawer.locator(".attempts li")).to_have_count(1)
    assert find_barriers(page) == []
    drawer.get_by_role("button", name="Look at the run then").click()
    expect(page).to_have_url(re.compile(r"at=\d+"))
    expect(page.get_by_role("treeitem").filter(has_text="end")).to_contain_text("pending")
    page.get_by_role("treeitem").filter(has_text="start").click()
    expect(page).not_to_have_url(re.compile("visit="))
