"""The past of a run: the film as the page folds it shows what the kernel shows, and the slider shows what the server says of any event."""

import json
import random
import re
import shutil
import subprocess
from random import Random

import pytest
from playwright.sync_api import expect

from perdure.kernel.evolve import evolve
from perdure.kernel.readings.film import Film
from perdure.kernel.readings.run_view import nodes_view
from perdure.kernel.state import State
from perdure.service.runs.films import _columns
from scripts.ui import UI, environment
from tests.property.walk import Mending, Walk, explore
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.browser import need_tools

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("film")]


# -- the fold

FOLD = """
import { readFileSync } from "node:fs";
import { Film } from "./src/film/film.ts";
const wrong = [];
let moments = 0;
for (const one of JSON.parse(readFileSync(0, "utf8"))) {
  const film = new Film();
  for (const page of one.pages) film.add(page);
  for (const [seq, nodes] of one.moments) {
    const found = film.nodesAt(seq);
    moments += 1;
    for (const [name, wanted] of Object.entries(nodes)) {
      const told = found.get(name) ?? { state: "pending", visit: 0, attempt: 0 };
      const said = JSON.stringify([told.state, told.visit, told.attempt, told.scope ?? []]);
      if (said !== JSON.stringify(wanted)) wrong.push(`${one.name} ${seq} ${name}: ${said}, not ${JSON.stringify(wanted)}`);
    }
  }
}
console.log(JSON.stringify({ moments, wrong: wrong.slice(0, 5) }));
"""


def filmed(name, library, journal):
    """The film of a history in two pages, as the API sends it, and what the kernel shows at some of its events."""
    film = Film(journal[0].run_id)
    film.state.library = dict(library)
    kernel = State(run_id=journal[0].run_id, library=dict(library))
    pages, moments = [], []
    half = len(journal) // 2
    for number, event in enumerate(journal, 1):
        film.feed([event])
        evolve(kernel, event)
        shown = {
            node: [view["state"], view["visit"], view["attempt"], list(view.get("scope", ()))]
            for node, view in nodes_view(kernel).items()
        }
        moments.append((event.seq, shown))
        if number in (half, len(journal)):
            more = number < len(journal)
            pages.append({**_columns(film), "last_seq": len(journal), "next_cursor": str(event.seq) if more else None})
            film.rows.clear()
            film.turns.clear()
    return {"name": name, "pages": pages, "moments": moments}


def fold(histories, folder=UI):
    """What the page makes of histories, by the sources of a folder."""
    done = subprocess.run(
        ["node", "--input-type=module-typescript", "-e", FOLD],
        cwd=folder,
        env=environment(),
        input=json.dumps(histories),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def explored():
    histories = []
    for seed in range(9_100_000, 9_100_040):
        kind = Mending if seed % 2 else Walk
        walk = explore(Random(seed), steps=40, size=10, kind=kind)
        histories.append(filmed(f"{kind.__name__} {seed}", walk.state.library, walk.run.journal))
    return histories


def test_the_page_folds_the_film_as_the_kernel_folds_the_journal():
    need_tools()
    found = fold(explored())
    assert found["wrong"] == []
    assert found["moments"] > 500


# What a fold may be wrong about, planted.
WRONG = {
    "a row that nothing shows is shown": ("if (this.#shown.at(index)) last", "last"),
    "rows of one page begin where the page before began": ("this.#seq.push(seq);", "this.#seq.push(page.seq[index]!);"),
    "iterations are numbered by page": ("scopes[page.scope[index]!]!", "page.scope[index]!"),
}


@pytest.mark.parametrize("planted", WRONG)
def test_a_wrong_fold_is_noticed(tmp_path, planted):
    need_tools()
    shutil.copytree(UI / "src", tmp_path / "src")
    film, (before, after) = tmp_path / "src" / "film" / "film.ts", WRONG[planted]
    text = film.read_text()
    assert text.count(before) == 1
    film.write_text(text.replace(before, after))
    assert fold(explored(), tmp_path)["wrong"]


STEPS = """
import { Film } from "./src/film/film.ts";
const count = 100_000, nodes = 5_000, ones = new Array(count).fill(1), film = new Film();
const node = ones.map((_, index) => index % nodes);
film.add({ nodes: Array.from({ length: nodes }, (_, one) => `n${one}`), states: ["pending", "completed"], scopes: [[]], seq: ones, at: ones,
  node, scope: ones.map(() => 0), item: ones.map(() => -1), visit: ones, attempt: ones, state: ones, started: ones, shown: ones,
  edges: { seq: [], from: [], to: [], fate: [] }, last_seq: count, next_cursor: null });
const begun = process.cpuUsage(), steps = 50;
for (let step = 1; step <= steps; step++) film.nodesAt((step * count) / steps);
const used = process.cpuUsage(begun);
console.log((used.user + used.system) / 1000 / steps);
"""
MOST_STEP_MS = 16


def test_a_step_of_the_slider_costs_less_than_a_frame():
    """At 100,000 transitions of 5,000 nodes, by the time of the processor: others may use it too."""
    need_tools()
    command = ["node", "--input-type=module-typescript", "-e", STEPS]
    done = subprocess.run(command, cwd=UI, env=environment(), capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) < MOST_STEP_MS


# -- the slider

RICH = {
    "name": "rich",
    "nodes": [
        samples.value("first", 1),
        {
            **samples.task("flaky", "fail", "first"),
            "retry": {"max_attempts": 3, "backoff_ms": 20},
            "on_failure": "continue",
        },
        *[samples.value(f"part-{number}", number, "first") for number in range(6)],
        samples.value("sum", "done", *[f"part-{number}" for number in range(6)]),
        {"id": "boss", "type": "human", "config": {"approvers": ["ann"]}, "dependencies": ["sum"]},
        samples.value("last", 2, "boss"),
    ],
}
SHOWN = "Object.fromEntries([...document.querySelectorAll('.outline-row')].map(row => [row.querySelector('.outline-id').textContent, row.querySelector('.state').textContent]))"
WORDS = {"upstream_failed": "not reached", "rolled_back": "rolled back"}


@pytest.fixture(scope="module")
def rich(site):
    run = site.start(RICH)
    wait_until(lambda: site.get(f"/runs/{run}")["nodes"]["boss"]["state"] == "waiting", "the approval waits")
    site.post(f"/runs/{run}/pause", {"reason": "stocktaking"})
    site.post(f"/runs/{run}/resume")
    site.post(f"/approvals/{run}:boss:1/decide", {"decision": "approve", "approver": "ann"})
    wait_until(lambda: site.get(f"/runs/{run}")["state"] in ("completed", "failed"), "the run ends")
    return run


def move_to(page, seq):
    """As a hand does it: the slider says where it is."""
    page.get_by_label("Event of the run").evaluate(
        "(slider, seq) => { slider.value = seq; slider.dispatchEvent(new Event('input', {bubbles: true})) }", str(seq)
    )


def wait_for(page, states, seq):
    wait_until(lambda: page.evaluate(SHOWN) == states, f"the states at event {seq}")


def test_at_any_event_the_page_shows_what_the_server_says_of_it(site, page, rich):
    events = site.get(f"/runs/{rich}/events?limit=1000")["items"]
    last = events[-1]["seq"]
    asked = []
    page.goto(f"{site.url}/runs/{rich}")
    expect(page.locator(".film-said")).to_contain_text(f"event {last} of {last}")
    expect(page.get_by_role("treeitem")).to_have_count(len(RICH["nodes"]))
    page.on("request", lambda request: asked.append(request.url))
    chosen = random.Random(7).choices(range(1, last), k=50)
    for seq in chosen:
        move_to(page, seq)
        wanted = site.get(f"/runs/{rich}/state?at={seq}&outputs=false")
        states = {name: WORDS.get(node["state"], node["state"]) for name, node in wanted["nodes"].items()}
        wait_for(page, states, seq)
        assert page.locator(".film-said").inner_text().startswith(f"event {seq} of {last}")
        assert page.locator(".run-head .state").inner_text() == WORDS.get(wanted["state"], wanted["state"])
    assert page.url.endswith(f"?at={chosen[-1]}")
    assert [url for url in asked if "/state" in url or "/film" in url] == []


def test_the_past_is_framed_moved_through_by_keys_and_left(site, page, rich):
    last = site.get(f"/runs/{rich}/events?limit=1000")["last_seq"]
    page.goto(f"{site.url}/runs/{rich}?at=3")
    expect(page.locator("section.past")).to_be_visible()
    expect(page.locator(".past-line")).to_contain_text(f"event 3 of {last}")
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(r"\?at=4$"))
    page.keyboard.press("[")
    page.keyboard.press("[")
    expect(page).to_have_url(re.compile(r"\?at=2$"))
    page.keyboard.press("}")
    expect(page).not_to_have_url(re.compile(r"\?at=2$"))
    slider = page.get_by_label("Event of the run")
    slider.focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile(r"\?at=1$"))
    expect(slider).to_be_focused()
    assert find_barriers(page) == []
    page.get_by_label("Speed").select_option("100")
    slider.focus()
    page.keyboard.press("Space")  # plays to the end, which is now
    expect(page).not_to_have_url(re.compile("at="))
    expect(page.locator("section.past")).to_have_count(0)
    page.goto(f"{site.url}/runs/{rich}?at=2&node=last")
    drawer = page.locator("aside.drawer")
    expect(drawer).to_contain_text("pending")
    page.get_by_role("button", name="Compare with now").click()
    expect(page.get_by_role("dialog", name="Since event 2")).to_contain_text("last")
    page.keyboard.press("Escape")
    page.keyboard.press("l")
    expect(drawer).to_contain_text("completed")


def test_the_journal_leads_to_the_run_as_it_was(site, page, rich):
    page.goto(f"{site.url}/runs/{rich}?tab=journal&order=oldest")
    page.get_by_role("button", name="Event 2, open its data").click()
    page.get_by_role("button", name="Look at the run here").click()
    expect(page).to_have_url(re.compile(r"order=oldest&at=2$"))
    expect(page.locator("section.past canvas")).to_be_visible()


def test_a_patch_changes_the_picture_from_its_event_on(site, page):
    nodes = [
        samples.value("a", 1),
        {"id": "boss", "type": "human", "config": {"approvers": ["ann"]}, "dependencies": ["a"]},
    ]
    run = site.start({"name": "patched-later", "nodes": nodes})
    wait_until(lambda: site.get(f"/runs/{run}")["nodes"]["boss"]["state"] == "waiting", "the approval waits")
    added = samples.value("added", 2, "boss")
    operation = {"op": "add", "path": "/nodes/-", "value": {key: added[key] for key in ("id", "type", "config")}}
    edge = {"op": "add", "path": "/edges/-", "value": {"from": "boss", "to": "added"}}
    done = site.post(f"/runs/{run}/patch", {"patch": [operation, edge], "reason": "one more"})
    assert done["applied"], done
    page.goto(f"{site.url}/runs/{run}")
    expect(page.get_by_role("treeitem")).to_have_count(3)
    move_to(page, 2)
    expect(page.get_by_role("treeitem")).to_have_count(2)
    page.keyboard.press("l")
    expect(page.get_by_role("treeitem")).to_have_count(3)


# -- what was made of the film


def test_the_timeline_shows_attempts_and_its_table_says_the_same(site, page, rich):
    page.goto(f"{site.url}/runs/{rich}?tab=timeline")
    canvas = page.locator(".timeline canvas")
    expect(canvas).to_have_attribute("data-lanes", str(len(RICH["nodes"])))
    canvas.click(position={"x": 40, "y": 26 + 28 + 14})  # the second lane by its name
    expect(page.locator("aside.drawer")).to_be_visible()
    page.get_by_label("Critical path").check()
    page.get_by_role("button", name="Table").click()
    expect(page).to_have_url(re.compile("as=table"))
    rows = page.locator(".plain-table tbody tr").filter(has_text="flaky")
    expect(rows.filter(has_text="attempt 3").filter(has_text="failed").first).to_be_visible()


def test_children_and_items_are_listed_failed_ones_first(site, page):
    site.post("/workflows", {"name": "small", "nodes": [samples.value("only", 1)]})
    child = {"id": "call", "type": "workflow", "config": {"workflow": "small"}}
    each = {
        "id": "each",
        "type": "map",
        "config": {"over": list(range(230)), "node": {"type": "transform", "config": {"value": "{{ item }}"}}},
        "dependencies": ["call"],
    }
    run = site.start({"name": "with-children", "nodes": [child, each]}, wait=60)
    page.goto(f"{site.url}/runs/{run}?tab=children")
    row = page.locator(".branch", has_text="small")
    expect(row).to_contain_text("completed")
    page.get_by_role("button", name=re.compile("^Children of")).click()
    expect(page.get_by_text("It started no run.")).to_be_visible()
    items = page.locator(".card", has_text="Items of each")
    expect(items.locator("li")).to_have_count(200)
    items.get_by_role("button", name="Show more").click()
    expect(items.locator("li")).to_have_count(230)
    expect(items.get_by_role("button", name="Show more")).to_have_count(0)
    items.get_by_role("button", name="Item 17", exact=True).click()
    expect(page).to_have_url(re.compile(r"tab=children&node=each&item=17$"))
    drawer = page.locator("aside.drawer")
    expect(drawer).to_contain_text("Item 17 of 230")
    expect(drawer.locator(".drawer-facts .state")).to_have_text("completed")
    expect(drawer.get_by_role("group", name="Part of the value")).to_contain_text("17")
    drawer.get_by_text("Input", exact=True).click()
    expect(drawer.locator(".fold-part").first).to_contain_text("value: 17")
    drawer.get_by_role("button", name="Item after").click()
    expect(drawer).to_contain_text("Item 18 of 230")
    assert find_barriers(page) == []
    page.reload()
    expect(drawer).to_contain_text("Item 18 of 230")
    drawer.get_by_role("button", name="The whole node").click()
    expect(drawer).to_contain_text("230 of 230 items")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"tab=children$"))
    items.get_by_label("State").select_option("failed")
    expect(items).to_contain_text("No item is in this state.")
    row.get_by_role("link").click()
    expect(page.locator("h1")).to_contain_text("small")
