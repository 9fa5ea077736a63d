"""Texts of another length and times of another zone: what is written in words may be longer, and clocks are put back."""

import re

import pytest
from playwright.sync_api import expect

from perdure.api import Options
from tests.web import samples
from tests.web.conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("language")]

# A language that is longer than English: every word of the interface grows by two fifths and gets accents. What comes from
# elsewhere (`bdi`, `code`, numbers, times) stays, as it would. It is measured in the same breath, so that nothing is drawn anew.
LONGER = """() => {
  const accents = new Map([...'aeiouncsyAEIOU'].map((one, index) => [one, [...'áéíóúñçšýÁÉÍÓÚ'][index]]));
  const foreign = 'bdi, code, pre, time, .number, .id, svg, script, style, option, kbd, .brand';
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!/[A-Za-z]{2}/.test(node.data) || node.parentElement.closest(foreign)) continue;
    found.push(node);
  }
  for (const node of found) {
    const text = [...node.data].map(one => accents.get(one) ?? one).join('');
    node.data = text + ' ' + 'ého '.repeat(10).slice(0, Math.ceil(text.trim().length * 0.4));
  }
  const cut = [];
  for (const node of found) {
    const element = node.parentElement;
    const style = getComputedStyle(element);
    if (!element.checkVisibility() || element.closest('.hidden, [hidden], .scroller, .tabs, .chips')) continue;
    if (style.display === 'inline') continue;
    const hides = style.overflowX !== 'visible' || ['BUTTON', 'A', 'SUMMARY'].includes(element.tagName);
    if (hides && element.scrollWidth > element.clientWidth + 1) cut.push(element.tagName + '.' + element.className + ': ' + node.data);
  }
  const wide = document.documentElement.scrollWidth - innerWidth;
  return [...new Set(cut), ...(wide > 1 ? ['the page is wider than the screen by ' + wide] : [])];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server of its own: the lists of the others hold what their tests put there, and nothing else."""
    made = Site(tmp_path_factory.mktemp("language"), Options(ui=True))
    yield made
    made.close()


@pytest.fixture(scope="module")
def runs(site):
    return samples.fill(site)


SCREENS = (
    *("home", "runs-filtered", "runs-none", "run-graph", "run-drawer", "run-timeline", "run-values", "workflows"),
    *("workflow-versions", "workflow-start", "triggers", "trigger", "workers", "keys", "audit", "settings", "welcome"),
    *("agents", "assets", "costs", "budgets", "run-costs"),
)


@pytest.mark.parametrize("width", [1280, 390])
def test_words_that_are_longer_by_two_fifths_are_cut_nowhere(site, page, runs, width):
    page.set_viewport_size({"width": width, "height": 900})
    paths = samples.screens(runs)
    faults = {}
    for name in SCREENS:
        page.goto(f"{site.url}{paths[name]}")
        expect(page.locator("h1").first).to_be_attached()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if found := page.evaluate(LONGER):
            faults[name] = found
    assert faults == {}


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("Asia/Kolkata", "11:00:00", "12:00:00"),
        ("UTC", "05:30:00", "06:30:00"),
        ("America/New_York", "01:30:00", "01:30:00"),  # the clocks are put back between the two
    ],
)
def test_moments_around_a_change_of_clocks_are_those_of_the_zone(site, browser, watch, zone, before, after):
    """Two runs an hour apart on the night of 1 November 2026, in the zone of the browser and in one that an address names."""
    run = site.start(samples.definition_named("dst", samples.value("a", 1)), wait=60)
    events = site.get(f"/runs/{run}/events?limit=100")["items"]
    moments = (1793511000.0, 1793514600.0)  # 05:30 and 06:30 UTC

    def shift(route):
        answer = route.fetch()
        body = answer.json()
        for index, one in enumerate(sorted(body["items"], key=lambda event: event["seq"])):
            one["at"] = moments[min(index, 1)]
        route.fulfill(response=answer, json=body)

    for query, local in (("", zone), (f"&tz={zone}", "Asia/Tokyo")):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id=local)
        try:
            context.on("page", watch.follow)
            page = context.new_page()
            page.route(re.compile(r"/events\?"), shift)
            page.goto(f"{site.url}/runs/{run}?tab=journal{query}")
            rows = page.locator(".event")
            expect(rows).to_have_count(len(events))
            expect(rows.last.locator("time")).to_contain_text(before)
            expect(rows.first.locator("time")).to_contain_text(after)
            title = rows.last.locator("time").get_attribute("title") or ""
            assert "05:30:00" in title, title  # exactly, in UTC too
        finally:
            context.close()
