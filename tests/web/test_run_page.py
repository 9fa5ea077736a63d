"""What a reader does with the page of a run: look at a box, leave out what is done, keep a picture, make the drawer wider."""

import itertools
import re

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.web import samples

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("run-page")]

WAITING = samples.definition_named(
    "looked-at",
    samples.value("first", 1),
    samples.value("second", {"total": 2}, "first"),
    {"id": "paid", "type": "wait", "config": {"signal": "paid"}, "dependencies": ["second"]},
)


def view(page, name):
    page.get_by_role("button", name="View", exact=True).click()
    return page.get_by_role("group", name="View").get_by_text(name)


def test_what_is_done_is_left_out_of_picture_and_outline_and_the_address_says_so(site, page):
    run = site.start(WAITING, deadline_seconds=7_200)
    page.goto(f"{site.url}/runs/{run}")
    rows = page.get_by_role("treeitem")
    expect(rows).to_have_count(3)
    expect(page.locator(".facts")).to_contain_text(re.compile(r"Must end\s*in 1 h"))
    expect(rows.filter(has_text="paid")).to_contain_text("waiting")
    view(page, "Hide completed nodes").click()
    expect(page).to_have_url(re.compile(r"\?hide=completed$"))
    expect(rows).to_have_count(1)
    site.post(f"/runs/{run}/signal", {"name": "paid"})
    expect(rows).to_have_count(0)
    expect(page.locator(".plane")).to_contain_text("Every node of this run is completed")
    view(page, "Hide completed nodes").click()
    expect(rows).to_have_count(3)


def test_a_box_tells_what_it_is_where_the_pointer_rests_and_where_the_focus_is(site, page):
    node = {**samples.task("only", "fail"), "retry": 1, "on_failure": "park"}
    one = site.start(samples.definition_named("resting", node))
    wait_until(lambda: site.get(f"/runs/{one}/nodes/only")["state"] == "parked", "the node to be parked")
    page.goto(f"{site.url}/runs/{one}")
    canvas = page.locator("canvas")
    expect(canvas).to_have_attribute("data-nodes", "1")
    card = page.get_by_role("tooltip")

    steps = itertools.cycle((0, 1))

    def rest():
        """The picture comes a moment after its canvas, and then the pointer must move once more."""
        at = canvas.bounding_box()
        page.mouse.move(at["x"] + at["width"] / 2 + next(steps), at["y"] + at["height"] / 2)
        return card.count() == 1

    wait_until(rest, what="the card beside the box")
    expect(card).to_contain_text("parked")
    expect(card).to_contain_text("RuntimeError")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    expect(card).to_have_count(0)
    page.get_by_role("tree").focus()
    page.keyboard.press("Home")
    expect(card).to_contain_text("only")
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)


def test_the_picture_of_a_graph_is_kept_as_a_file(site, page):
    run = site.start(WAITING)
    page.goto(f"{site.url}/runs/{run}")
    expect(page.locator("canvas")).to_have_attribute("data-nodes", "3")
    for name, begins in (("Picture as PNG", b"\x89PNG"), ("Picture as SVG", b"<svg")):
        with page.expect_download() as found:
            view(page, name).click()
        assert found.value.suggested_filename == f"{run}.{name[-3:].lower()}"
        assert found.value.path().read_bytes().startswith(begins)
        page.keyboard.press("Escape")


def test_the_drawer_is_as_wide_as_it_was_left(site, page):
    run = site.start(WAITING)
    page.goto(f"{site.url}/runs/{run}?node=second")
    drawer, grip = page.locator("aside.drawer"), page.get_by_role("separator")
    expect(drawer).to_contain_text("completed")
    before = drawer.bounding_box()["width"]
    grip.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(grip).to_have_attribute("aria-valuenow", str(round(before) + 48))
    at = grip.bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + 60)
    page.mouse.down()
    page.mouse.move(at["x"] + at["width"] / 2 - 52, at["y"] + 60, steps=3)
    page.mouse.up()
    expect(grip).to_have_attribute("aria-valuenow", str(round(before) + 100))
    page.reload()
    expect(grip).to_have_attribute("aria-valuenow", str(round(before) + 100))
    expect(drawer).to_contain_text("completed")
    assert abs(drawer.bounding_box()["width"] - before - 100) < 2


def test_values_lead_to_what_differs_from_another_run(site, page):
    first, second = (
        site.start(samples.definition_named("compared", samples.value("a", number)), wait=60) for number in (1, 2)
    )
    page.goto(f"{site.url}/runs/{second}?tab=values")
    expect(page.locator(f"datalist option[value='{first}']")).to_have_count(1)
    page.get_by_label("Compare with another run").fill(first)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page).to_have_url(f"{site.url}/runs/{second}?compare={first}")
    expect(page.locator(".paths-table").first).to_contain_text("/output")


def test_what_a_function_asked_for_is_said_with_its_button(site, page):
    run = site.start(samples.definition_named("asking", samples.task("collect", "asks_for_signal")))
    page.goto(f"{site.url}/runs/{run}")
    line = page.locator(".reason")
    expect(line).to_contain_text("collect waits for payment")
    line.get_by_role("button", name="Signal").click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_label("Name")).to_have_value("payment")
