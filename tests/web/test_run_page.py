"""What a reader does with the page of a run: look at a box, leave out what is done, keep a picture, make the drawer wider."""

import itertools
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.engine import tasks
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.test_flow import open_gate

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


MAPPED = samples.definition_named(
    "mapped",
    samples.value("orders", list(range(9))),
    {
        "id": "charge",
        "type": "map",
        "config": {
            "over": "{{ orders }}",
            "max_concurrency": 2,
            "node": {
                "type": "task",
                "config": {"function": "tests.engine.tasks:gate", "args": {"name": "web-mapped"}},
            },
        },
        "dependencies": ["orders"],
    },
)


def test_a_map_counts_items_that_have_not_begun(site, page):
    tasks.gates.pop("web-mapped", None)
    run = site.start(MAPPED)
    page.goto(f"{site.url}/runs/{run}?node=charge")
    expect(page.locator("aside.drawer")).to_contain_text("0 of 9 items")
    site.post(f"/runs/{run}/cancel")
    open_gate(site, "web-mapped")


def test_a_node_leads_to_the_run_that_it_started_and_to_what_its_type_does(site, page, watch):
    watch.allowed.append("status of 404")
    site.post("/workflows", samples.definition_named("inner", samples.value("one", 1)))
    node = {"id": "report", "type": "workflow", "config": {"workflow": "inner"}}
    run = site.start(samples.definition_named("outer", node), wait=60)
    page.goto(f"{site.url}/runs/{run}?node=report")
    drawer = page.locator("aside.drawer")
    expect(drawer.locator(".attempts")).not_to_contain_text("not yet")
    child = drawer.get_by_role("link", name=f"{run}:report")
    expect(child).to_have_attribute("href", f"/runs/{quote(run + ':report', safe='')}")
    drawer.get_by_role("link", name="workflow").click()
    expect(page).to_have_url(f"{site.url}/node-types/workflow")
    expect(page.locator("main")).to_contain_text("the coordinator")
    expect(page.get_by_role("heading", name="Example")).to_be_visible()
    page.goto(f"{site.url}/node-types/map")
    about = page.locator("main > section, main").first
    expect(about.locator("p code").first).to_have_text("node")  # what stands between backticks is code
    keys = page.locator(".type-keys")
    expect(keys.locator("dt").first).to_contain_text(re.compile("over.*list.*required"))
    expect(keys.locator("dt", has_text="tolerated_failures")).to_contain_text("whole number, from 0 · without it 0")
    assert find_barriers(page) == []
    page.goto(f"{site.url}/node-types/nothing")
    expect(page.get_by_role("alert")).to_contain_text("nothing")


def test_who_failed_shows_its_error_and_no_output(site, page):
    failing = {**samples.task("charge", "fail"), "retry": 1}
    run = site.start(samples.definition_named("failing", failing), wait=60)
    page.goto(f"{site.url}/runs/{run}?node=charge")
    drawer = page.locator("aside.drawer")
    expect(drawer.get_by_role("heading", name="Error")).to_be_visible()
    expect(drawer.get_by_role("heading", name="Output")).to_have_count(0)


def test_on_a_phone_a_graph_begins_where_the_run_is_and_large_enough_to_read(site, page):
    page.set_viewport_size({"width": 390, "height": 800})
    nodes = [samples.value("begin", 1)]
    for layer in range(6):
        last = nodes[-1]["id"]
        parts = [samples.value(f"part-{layer}-{index}", {"no": index}, last) for index in range(9)]
        nodes += [*parts, samples.value(f"joined-{layer}", 1, *(one["id"] for one in parts))]
    nodes.append({"id": "paid", "type": "wait", "config": {"signal": "paid"}, "dependencies": [nodes[-1]["id"]]})
    run = site.start(samples.definition_named("wide", *nodes))
    page.goto(f"{site.url}/runs/{run}")
    canvas = page.locator("canvas")
    wait_until(lambda: float(canvas.get_attribute("data-scale") or 0) >= 0.55, "the boxes are read")
    page.get_by_role("button", name="Fit").click()
    wait_until(lambda: float(canvas.get_attribute("data-scale") or 1) < 0.55, "all of it is seen")


NESTED = {
    "lines": [{"total": index, "name": f"lamp {index}"} for index in range(30)],
    "seen": "https://example.org/a?b=1",
}


def test_a_value_is_searched_copied_by_place_and_seen_raw_and_its_link_asks_first(site, page, context):
    context.grant_permissions(["clipboard-write"])
    run = site.start(samples.definition_named("nested", samples.value("order", NESTED)), wait=60)
    page.goto(f"{site.url}/runs/{run}?node=order")
    tree = page.locator("aside.drawer .json").first
    tree.get_by_role("searchbox").fill("Lamp 17")
    expect(tree).to_contain_text("lamp 17")
    expect(tree).not_to_contain_text("lamp 18")
    assert find_barriers(page) == []
    tree.get_by_role("button", name="name", exact=True).click()
    for way, wanted in (("Copy template", "{{ order.lines[17].name }}"), ("Copy path", "/lines/17/name")):
        tree.get_by_role("button", name=way).click()
        expect(tree.get_by_role("button", name="Copied")).to_be_visible()
        find = page.get_by_placeholder("Find a node")
        find.fill("")
        find.press("Control+v")  # the policy lets no page read what is kept there
        expect(find).to_have_value(wanted)
        expect(tree.get_by_role("button", name="Copied")).to_have_count(0)
    tree.get_by_role("searchbox").fill("")
    expect(tree.get_by_role("link")).to_have_count(0)
    tree.get_by_role("button", name="Link to example.org").click()
    link = tree.get_by_role("link", name="Open example.org in a new tab")
    expect(link).to_have_attribute("href", "https://example.org/a?b=1")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    tree.get_by_role("button", name="Raw").click()
    expect(tree.locator("pre")).to_contain_text('"name":')


COLOURED = "\x1b[31mno paper\x1b[0m left"


def test_lines_are_left_out_by_level_and_node_wrapped_coloured_and_kept_as_a_file(site, page):
    says = samples.definition_named(
        "says", samples.task("print", "says", what=COLOURED), samples.task("ink", "says", what="x" * 900)
    )
    for node in says["nodes"]:
        node["config"]["args"] = {"what": node["config"].pop("what")}
    run = site.start(says, wait=60)
    page.goto(f"{site.url}/runs/{run}?tab=logs")
    lines = page.get_by_role("list", name="Lines that functions wrote").locator("li[data-level]")
    expect(lines.filter(has_text="no paper").first).to_be_visible()
    expect(lines.locator(".red").first).to_have_text("no paper")
    whole = lines.count()
    page.get_by_label("Node").select_option("ink")
    expect(lines.filter(has_text="no paper")).to_have_count(0)
    height = lines.first.bounding_box()["height"]
    page.get_by_label("Wrap lines").check()
    assert lines.first.bounding_box()["height"] > 2 * height
    assert find_barriers(page) == []
    page.get_by_label("Node").select_option("")
    expect(lines).to_have_count(whole)
    page.get_by_label("Level").select_option("error")
    expect(lines.filter(has_text="no paper")).to_have_count(len([one for one in levels(site, run) if one == "ERROR"]))
    page.get_by_label("Level").select_option("")
    with page.expect_download() as kept:
        page.get_by_role("button", name="Download").click()
    assert " info print no paper left 1\n" in kept.value.path().read_text(encoding="utf-8")


def levels(site, run):
    found = site.get(f"/runs/{run}/logs")["items"]
    return [one["level"].upper() for one in found if "no paper" in one["message"]]


def test_the_journal_is_searched_by_what_its_lines_say(site, page):
    failing = {**samples.task("charge", "fail"), "retry": 1}
    run = site.start(samples.definition_named("told", failing), wait=60)
    page.goto(f"{site.url}/runs/{run}?tab=journal")
    page.get_by_placeholder("type, node or text").fill("as it should")
    rows = page.locator(".event")
    expect(rows.first).to_contain_text("attempt 1 fails, as it should")
    expect(page.locator(".event").filter(has_text="run.created")).to_have_count(0)
