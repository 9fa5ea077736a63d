"""The first minute: `perdure dev` in an empty folder, a moving graph, a process that is killed for real, a person, the end."""

import re

import pytest
from playwright.sync_api import expect

from tests.cli.helpers import Shell
from tests.waiting import wait_until
from tests.web.axe import find_barriers
from tests.web.conftest import Watch

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("first-minute")]


@pytest.fixture(scope="module")
def where(tmp_path_factory, browser):
    """The sample runs from here on, so the browser is there and has drawn a page before."""
    browser.new_page().close()
    shell = Shell(tmp_path_factory.mktemp("empty"))
    process = shell.start_interpreter("dev", "--port", "0", "--no-browser").wait_for("Ctrl-C ends all of this")
    found = re.search(r"A sample runs: (http://[^/]+)", process.text)
    assert found is not None
    yield found[1]
    shell.close()


@pytest.fixture
def watch(where):
    made = Watch(where)
    made.allowed += ["ERR_", "net::"]  # the process is killed while it is asked
    yield made
    made.check()


def counts_what_crashed(page, where, hint, seen):
    """Whether the hint counts the attempts that ended with their process: surely those of nodes that were seen running."""
    nodes = page.request.get(f"{where}/api/v1/runs/sample").json()["nodes"]
    details = [page.request.get(f"{where}/api/v1/runs/sample/nodes/{node}").json() for node in nodes]
    crashed = [one["node"] for one in details for attempt in one["attempts"] if attempt["state"] == "crashed"]
    least = sum(1 for node in set(crashed) if any(node in text.split() for text in seen))
    told = re.search(r"(\d) repeated", hint.inner_text())
    return told is not None and least <= int(told[1]) <= len(crashed)


def test_the_sample_survives_a_kill_and_ends_when_a_person_agrees(where, page):
    page.goto(f"{where}/runs/sample?welcome=1")
    hint = page.locator(".welcome")
    expect(page.locator("canvas")).to_have_attribute("data-nodes", "9")
    running = page.get_by_role("treeitem").filter(has_text="running")
    expect(running.first).to_be_visible()
    expect(hint).to_contain_text("Each step is on disk before the next")
    seen = running.all_inner_texts()
    page.get_by_role("button", name="Kill the process").click()
    expect(hint).to_contain_text(re.compile(r"back after \d+\.\d s"))
    expect(hint).to_contain_text(re.compile(r"0 steps lost, \d repeated"))
    # What ran when it was looked at may be done when the process is killed: the journal knows what was interrupted.
    wait_until(lambda: counts_what_crashed(page, where, hint, seen), "as many steps are repeated as were interrupted")
    expect(page.locator(".live").first).to_have_text("live")
    assert find_barriers(page) == []
    hint.get_by_role("button", name="Approve").click()
    expect(page.locator(".run-head .state")).to_have_text("completed")
    expect(page.locator(".facts")).to_contain_text("9 of 9 nodes")
    expect(hint).to_contain_text("Your turn")
    expect(hint.get_by_role("button", name="Copy")).to_have_count(3)
    expect(hint.get_by_role("link", name="Edit")).to_have_attribute("href", "/workflows/sample-order/edit")
    assert (
        "sample-order"
        in page.request.get(where + str(hint.get_by_role("link", name="YAML").get_attribute("href"))).text()
    )
    assert find_barriers(page) == []
    hint.get_by_role("button", name="Run again").click()
    expect(page).to_have_url(re.compile(r"/runs/(?!sample)[^/?]+\?welcome=1$"))
    expect(hint).to_contain_text("1 of 4")
    page.get_by_role("button", name="Do not show this again").click()
    expect(hint).to_have_count(0)
    page.goto(f"{where}/welcome")
    expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    assert find_barriers(page) == []
    page.get_by_role("button", name="Remove the sample").click()
    expect(page).to_have_url(f"{where}/runs")
    expect(page.locator("tr.row").first).to_contain_text("cancelled")
