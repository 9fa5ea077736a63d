"""The screens in a real browser: what they show, how they are moved through, and that they follow what happens."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("screens")]


@pytest.fixture(scope="module")
def runs(site):
    return samples.fill(site)


def journal_of(page):
    """The numbers of the events that the page shows, from all of its rows."""
    return page.evaluate("[...document.querySelectorAll('.event .seq')].map(one => Number(one.textContent))")


# -- the list


def test_the_list_shows_runs_and_follows_them(site, page, runs):
    page.goto(f"{site.url}/runs")
    row = page.locator("tr.row", has_text=runs["failed"])
    expect(row).to_contain_text("failed")
    expect(row).to_contain_text("RuntimeError")
    definition = samples.definition_named("just-now", samples.value("a", 1))
    fresh = site.start(definition, wait=60)
    expect(page.locator("tr.row", has_text=fresh)).to_contain_text("completed")


def test_filters_are_in_the_address_and_back_undoes_them(site, page, runs):
    page.goto(f"{site.url}/runs?workflow=payment")
    page.get_by_role("button", name="failed").click()
    expect(page).to_have_url(f"{site.url}/runs?workflow=payment&state=failed")
    expect(page.locator("tr.row")).to_have_count(1)
    page.locator("tr.row .c-workflow").click()
    expect(page).to_have_url(re.compile(f"/runs/{runs['failed']}$"))
    page.go_back()
    expect(page.locator("tr.row")).to_have_count(1)
    expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "false")
    page.goto(f"{site.url}/runs?workflow=payment&tag=team%3Dred")
    expect(page.locator("tr.row")).to_have_count(1)
    page.goto(f"{site.url}/runs?workflow=nobody-has-this")
    expect(page.get_by_role("heading", name="No run fits this filter")).to_be_visible()


def test_a_filter_that_the_server_refuses_is_explained(site, page, watch, runs):
    watch.allowed.append("422")
    watch.allowed.append("400")
    page.goto(f"{site.url}/runs?since=yesterday")
    expect(page.get_by_role("alert")).to_contain_text("since")


# -- one run


def test_the_graph_and_its_outline_show_the_same_nodes(site, page, runs):
    page.goto(f"{site.url}/runs/{runs['waiting']}")
    expect(page.locator("canvas")).to_have_attribute("data-nodes", "8")
    rows = page.get_by_role("treeitem")
    expect(rows).to_have_count(8)
    expect(rows.filter(has_text="manager")).to_contain_text("waiting")
    expect(rows.filter(has_text="ship")).to_contain_text("pending")
    expect(page.locator(".reason")).to_contain_text("manager waits for a person")


def test_a_node_is_opened_by_the_sentence_by_its_box_and_by_the_keyboard_alone(site, page, runs):
    page.goto(f"{site.url}/runs/{runs['waiting']}")
    page.get_by_role("button", name="Look at it").click()
    expect(page).to_have_url(re.compile(r"\?node=manager$"))
    drawer = page.get_by_role("complementary", name="Node manager")
    expect(drawer).to_contain_text("0 of 1 approvals")
    expect(drawer.get_by_role("heading", name="manager")).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page.get_by_role("button", name="Look at it")).to_be_focused()
    outline = page.get_by_role("tree", name="Outline")
    outline.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")  # along an edge: from `received` to what it leads to
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?node=(credit|freight|stock)$"))
    expect(page.locator("aside.drawer")).to_contain_text("completed")


def test_a_box_is_chosen_where_it_is_drawn(site, page, runs):
    """The canvas has no elements: the box in the middle of a graph of one node is clicked."""
    one = site.start(samples.definition_named("single", samples.value("only", {"answer": 42})), wait=60)
    page.goto(f"{site.url}/runs/{one}")
    canvas = page.locator("canvas")
    expect(canvas).to_have_attribute("data-nodes", "1")
    box = canvas.bounding_box()
    assert box is not None
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(page.locator("aside.drawer")).to_contain_text("42")


def test_a_run_is_followed_to_its_end_and_no_event_is_missing_or_twice(site, page, context, runs):
    run = site.start(samples.ORDER)
    page.goto(f"{site.url}/runs/{run}?tab=journal")
    expect(page.locator(".live")).to_have_text("live")
    expect(page.locator(".event").first).to_be_visible()
    site.post(f"/approvals/{run}:manager:1/decide", {"decision": "approve", "approver": "ann"})
    expect(page.locator(".run-head .state")).to_have_text("completed")
    expect(page.locator(".live")).to_have_text("ended")
    wanted = [event["seq"] for event in site.get(f"/runs/{run}/events?limit=1000")["items"]]
    wait_until(lambda: sorted(journal_of(page)) == wanted, "every event is shown once")
    expect(page.locator(".facts")).to_contain_text("8 of 8 nodes")
    expect(page.locator(".reason")).to_have_count(0)
    fresh = context.new_page()
    fresh.goto(f"{site.url}/runs/{run}?tab=journal")
    wait_until(lambda: journal_of(fresh) == journal_of(page), "a fresh page shows the same")


def test_values_keep_their_digits_and_tabs_are_in_the_address(site, page, runs):
    page.goto(f"{site.url}/runs/{runs['waiting']}")
    expect(page.locator(".run-head")).to_be_visible()
    page.keyboard.press("4")
    expect(page).to_have_url(re.compile(r"\?tab=values$"))
    expect(page.locator(".values")).to_contain_text("9223372036854775807")
    page.get_by_role("tab", name="Values").press("ArrowRight")
    expect(page.get_by_role("tab", name="Logs")).to_be_focused()
    expect(page.get_by_role("tabpanel")).to_contain_text("No function of this run wrote anything")


def test_what_is_not_there_is_said_with_its_code(site, page, watch, runs):
    watch.allowed.append("404")
    page.goto(f"{site.url}/runs/nothing")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("not_found")


def test_a_server_that_is_silent_is_told_of_and_the_page_stays(site, page, context, watch, runs):
    watch.allowed.append("ERR_INTERNET_DISCONNECTED")
    page.goto(f"{site.url}/runs")
    expect(page.locator("tr.row").first).to_be_visible()
    context.set_offline(True)
    expect(page.locator(".banner")).to_contain_text("No answer since")
    expect(page.locator("tr.row").first).to_be_visible()
    context.set_offline(False)
    expect(page.locator(".banner")).to_have_count(0)


# -- the frame


def test_the_theme_is_kept_and_the_time_is_that_of_the_chosen_zone(site, page, context, runs):
    page.goto(f"{site.url}/runs/{runs['completed']}?tab=journal")
    first = page.locator(".event time").first
    local = first.inner_text()
    page.get_by_label("Time").select_option("utc")
    assert int(local[:2]) != int(first.inner_text()[:2])  # Berlin is never UTC
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
    fresh = context.new_page()
    fresh.goto(f"{site.url}/runs")
    assert fresh.evaluate("document.documentElement.dataset.theme") == "dark"


def test_keys_are_listed_and_can_be_turned_off(site, page, runs):
    page.goto(f"{site.url}/runs/{runs['waiting']}")
    expect(page.locator(".run-head")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Single letters are shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_no_screen_has_a_barrier(site, browser, watch, runs, scheme, width):
    watch.allowed.append("404")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.on("page", watch.follow)
    page = context.new_page()
    for name, path in samples.screens(runs).items():
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(site.url + path)
        expect(page.locator("h1").first).to_be_attached()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert find_barriers(page) == [], name
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, name
    context.close()


def test_a_phone_tears_no_word_and_scrolls_what_is_wide(site, page, runs):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{site.url}/workers")
    expect(page.get_by_role("link", name="default")).to_be_visible()
    lines = "one => { const range = document.createRange(); range.selectNodeContents(one); return range.getClientRects().length }"
    assert page.get_by_role("link", name="default").locator("bdi").evaluate(lines) == 1
    torn = """rows => rows.filter(one => {
      const range = document.createRange(); range.selectNodeContents(one);
      const tops = [...range.getClientRects()].map(box => box.top);
      return !/\\s/.test(one.textContent.trim()) && Math.max(...tops) - Math.min(...tops) > 14;
    }).map(one => one.textContent)"""
    for path in ("?tab=timeline&as=table", "/print"):
        page.goto(f"{site.url}/runs/{runs['waiting']}{path}")
        cells = page.locator(".plain-table tbody td")
        expect(cells.first).to_be_visible()
        assert cells.evaluate_all(torn) == [], path
    page.goto(f"{site.url}/admin/access")
    frame = page.locator(".scroller").last
    expect(frame).to_be_visible()
    assert frame.evaluate("one => one.scrollWidth > one.clientWidth && getComputedStyle(one).overflowX") == "auto"
    over = "all => all.filter(one => one.scrollWidth > one.parentElement.clientWidth).map(one => one.textContent)"
    assert page.locator(".rail span").evaluate_all(over) == []
    page.goto(f"{site.url}/workflows/fulfil?tab=runs")
    expect(page.locator(".own-runs .cut-id a").first).to_be_visible()
    for one in page.locator(".own-runs .cut-id bdi").all():
        assert one.bounding_box()["height"] < 30
    more = page.get_by_role("button", name="More")
    expect(page.get_by_role("link", name="Triggers")).to_be_hidden()
    more.click()
    page.get_by_role("link", name="Triggers").click()
    expect(page.get_by_role("heading", name="Triggers", exact=True)).to_be_visible()
    expect(more).to_have_attribute("aria-expanded", "false")
    page.goto(f"{site.url}/runs/{runs['waiting']}?tab=children")
    tab = page.get_by_role("tab", name="Children")
    expect(tab).to_be_in_viewport(ratio=1)


def test_a_node_shows_what_it_was_given_what_it_lacks_and_a_large_output_part_by_part(site, page):
    """A stored value is never loaded whole: a part of it is asked for by its place (scenario 19)."""
    rows = [{"number": number, "text": "x" * 300} for number in range(1500)]
    deep: list[Any] = [7]
    for _ in range(50):
        deep = [deep]
    definition = samples.definition_named(
        "large-values",
        samples.value("rows", "{{ inputs.rows }}"),
        samples.value("long", "y" * 300_000, "rows"),
        samples.value("deep", deep, "rows"),
        {"id": "other", "type": "wait", "config": {"signal": "go"}},
        samples.value("joined", "{{ rows.0.number }}", "rows", "other"),
    )
    run = site.start(definition, inputs={"rows": rows})
    wait_until(lambda: site.get(f"/runs/{run}/nodes/deep")["state"] == "completed", "the values are there")
    page.goto(f"{site.url}/runs/{run}?node=rows")
    drawer = page.locator("aside.drawer")
    drawer.get_by_role("button", name="Look through it").click()
    parts = drawer.get_by_role("group", name="Part of the value")
    expect(parts).to_contain_text("1,500 entries")
    parts.get_by_role("button", name="99", exact=False).last.click()
    expect(parts).to_contain_text("number")
    expect(parts).to_contain_text("99")
    expect(drawer.get_by_role("link", name="Download")).to_have_attribute("download", re.compile(r"^[A-Za-z0-9._-]+$"))
    drawer.get_by_text("Definition", exact=True).click()
    expect(drawer).to_contain_text("{{ inputs.rows }}")
    page.goto(f"{site.url}/runs/{run}?node=long")
    drawer.get_by_role("button", name="Look through it").click()
    expect(parts).to_contain_text("300,000 characters")
    parts.get_by_role("button", name="More").click()
    page.goto(f"{site.url}/runs/{run}?node=deep")
    expect(drawer).to_contain_text("completed")
    page.goto(f"{site.url}/runs/{run}?node=joined")
    expect(drawer.locator(".awaited")).to_contain_text("other")
    site.post(f"/runs/{run}/signal", {"name": "go"})
    expect(drawer.locator(".state").first).to_have_text("completed")
    drawer.get_by_text("Input", exact=True).click()
    expect(drawer).to_contain_text("Config, as the worker got it")
    page.goto(f"{site.url}/runs/{run}?tab=journal")
    first = page.locator(".event", has_text="node.completed").last
    first.locator(".seq").click()
    first.locator(".event-ways button.quiet").click()
    expect(page).to_have_url(re.compile(r"event=\d+"))
    assert page.locator("*").count() < 3000


def test_the_timeline_is_not_called_empty_before_it_is_read(site, page, runs):
    held: list[Any] = []
    opened: list[bool] = []
    page.route("**/film*", lambda route: route.continue_() if opened else held.append(route))
    page.goto(f"{site.url}/runs/{runs['waiting']}?tab=timeline&as=table")
    expect(page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
    wait_until(lambda: page.evaluate("1") and held, "the film is asked for")
    expect(page.locator("[role=tabpanel] [aria-busy=true]")).to_be_visible()
    opened.append(True)
    for one in held:
        one.continue_()
    expect(page.locator(".plain-table tbody tr").first).to_be_visible()
