"""The editor: text, form and graph are one document; what two people change at once is brought together."""

import json
import random
import re
import subprocess

import pytest
from playwright.sync_api import expect

from perdure.model.problems import Problems
from perdure.model.yaml_reader import read_yaml
from perdure.nodes.registry import BUILT_IN
from scripts.ui import UI, environment
from tests.waiting import wait_until
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.browser import need_tools

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("editor")]

PRINT = """
import { readFileSync } from "node:fs";
import { printYaml } from "./src/screens/editor/yaml.ts";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(printYaml)));
"""
TEXTS = [
    "a", "true", "No", "null", "~", "", " ", "a b", "a: b", "- x", "#", "{{ inputs.city }}", "12", "1e3", "0x1f", "=",
    "2026-11-16", "12:30", "a\nb", "tab\t", "é ü", "\u2028", "\x7f\x85", "@x", "`", "%", "!tag", "&a", "*a", "a #b", "'", '"', "\\",
    "on", "a,b", "[", "}", "?", "| ", "> ", ".inf", ".nan", "_", "a ", " a", "---", "...", "<<", "\u00a0", "\ufeff", "x" * 90,
]  # fmt: skip


def made(chance, depth):
    kind = chance.randrange(7 if depth else 5)
    if kind == 0:
        return chance.choice(TEXTS)
    if kind == 1:
        return chance.choice([0, -1, 3, 1.5, -0.25, 1e21, 1e-7, 2**40])
    if kind < 5:
        return chance.choice([None, True, False, *TEXTS])
    if kind == 5:
        return [made(chance, depth - 1) for _ in range(chance.randrange(4))]
    keys = [chance.choice(TEXTS) or "k" for _ in range(chance.randrange(4))]
    return {key: made(chance, depth - 1) for key in keys}


SMALLEST = """
import { readFileSync } from "node:fs";
import { addNode } from "./src/screens/editor/model.ts";
const kinds = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(kinds.map((kind) => addNode({ name: "w", nodes: [], edges: [] }, kind, "").definition)));
"""


def run_node(script, given):
    need_tools()
    done = subprocess.run(
        ["node", "--input-type=module-typescript", "-e", script],
        cwd=UI,
        env=environment(),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_printed_as_yaml_is_read_as_what_it_was():
    chance = random.Random(11)
    values = [{"value": one} for one in TEXTS] + [{text: 1} for text in TEXTS if text]
    values += [{"a": made(chance, 4)} for _ in range(400)]
    for value, text in zip(values, run_node(PRINT, values), strict=True):
        problems = Problems()
        assert read_yaml(text, problems, max_depth=50, max_values=100_000) == value, (text, problems.found)


def test_a_node_that_is_added_is_valid_by_itself(site):
    kinds = [kind for kind in site.get("/node-types")["items"] if kind["source"] == BUILT_IN]
    assert {"task", "transform", "human", "map"} <= {kind["name"] for kind in kinds}
    wrong = {
        kind["name"]: answer["problems"]
        for kind, definition in zip(kinds, run_node(SMALLEST, kinds), strict=True)
        if not (answer := site.post("/workflows/validate", definition))["valid"]
    }
    # Which workflow is started, what a model is asked, into what a text is sorted, where is searched and what is taken, only the author
    # knows.
    assert wrong.keys() <= {"agent", "workflow", "llm", "classifier", "search", "trigger"}, wrong


def text_of(page):
    expect(page.locator(".cm-content")).to_be_visible()  # the editor comes after the page
    return page.evaluate(
        "[...document.querySelector('.code-host').shadowRoot.querySelectorAll('.cm-line')].map(l => l.textContent).join('\\n')"
    )


def test_a_workflow_is_written_by_keyboard_alone_and_two_editors_lose_nothing(site, page, watch):
    watch.allowed.append("409")  # the second of two editors is to be refused
    page.goto(f"{site.url}/workflows/new")
    expect(page.locator(".problems")).to_contain_text("No problems")
    outline = page.get_by_role("tree", name="Outline")
    outline.focus()
    page.keyboard.press("Home")
    page.keyboard.press("a")
    expect(page.get_by_label("Type")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("treeitem")).to_have_count(2)
    expect(page.get_by_label("Name")).to_have_value("transform")
    assert find_barriers(page) == []
    page.get_by_role("button", name="Save").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the beginning")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/workflows/my-workflow$"))
    found = site.get("/workflows/my-workflow")
    assert [node["id"] for node in found["definition"]["nodes"]] == ["first", "transform"]
    assert found["reason"] == "the beginning"
    # Two at once: one changes `first`, the other has added a node meanwhile.
    page.get_by_role("link", name="Edit").click()
    expect(page.locator(".problems")).to_contain_text("No problems")
    page.get_by_role("treeitem").filter(has_text="first").click()
    rest = page.get_by_label("Everything else of the node, as JSON")
    rest.fill('{"type": "transform", "priority": 3}')
    rest.press("Tab")
    expect(page.locator(".problems")).to_have_attribute("data-checked", "true")
    theirs = {"op": "add", "path": "/nodes/-", "value": {"id": "theirs", "type": "transform", "config": {"value": 2}}}
    site.post("/workflows/my-workflow/patch", {"patch": [theirs], "reason": "meanwhile"})
    page.get_by_role("button", name="Save").click()
    expect(dialog).to_contain_text("Version 2 came meanwhile")
    dialog.get_by_role("button", name="Go on with this").click()
    expect(page.get_by_role("treeitem")).to_have_count(3)
    page.get_by_role("button", name="Save").click()
    expect(dialog).to_contain_text("first")
    dialog.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("/workflows/my-workflow$"))
    nodes = {node["id"]: node for node in site.get("/workflows/my-workflow")["definition"]["nodes"]}
    assert set(nodes) == {"first", "transform", "theirs"}
    assert nodes["first"]["priority"] == 3


def test_text_and_form_are_one_document_and_undo_leads_to_its_first_bytes(site, page, watch):
    site.post("/workflows", {**samples.FULFIL, "name": "two-sides"})
    page.goto(f"{site.url}/workflows/two-sides/edit")
    expect(page.locator(".problems")).to_contain_text("No problems")
    original = text_of(page)
    page.get_by_role("treeitem").filter(has_text="ship").click()
    page.get_by_role("button", name="Remove this node").click()
    expect(page.get_by_role("treeitem")).to_have_count(2)
    page.get_by_role("tab", name="Text").click()
    assert "id: ship" in original
    assert "id: ship" not in text_of(page)
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("nonsense: 1")
    expect(page.locator(".problems")).to_contain_text("nonsense")
    expect(page.locator(".workbench-graph.stale")).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.reload()  # the draft outlives the page
    expect(page.get_by_text("the draft is here again")).to_be_visible()
    expect(page.locator(".problems")).to_contain_text("nonsense")
    page.get_by_role("button", name="Discard the draft").click()
    expect(page.locator(".problems")).to_contain_text("No problems")
    assert text_of(page) == original
    page.get_by_role("treeitem").filter(has_text="ship").click()
    page.get_by_role("button", name="Remove this node").click()
    expect(page.get_by_role("treeitem")).to_have_count(2)
    page.get_by_role("tab", name="Text").click()
    editor.click()
    page.keyboard.press("Control+z")
    expect(page.get_by_role("treeitem")).to_have_count(3)
    assert text_of(page) == original


def test_what_a_node_can_name_is_offered_and_a_condition_is_written_in_the_form(site, page, watch):
    site.post("/workflows", {**samples.FULFIL, "name": "named"})
    page.goto(f"{site.url}/workflows/named/edit")
    page.get_by_role("treeitem").filter(has_text="ship").click()
    when = page.get_by_label("Only if")
    listed = page.locator("datalist#editor-names option")
    expect(page.locator("details.named summary")).to_have_text("What can be named here (7)")
    assert listed.evaluate_all("all => all.map(one => one.value)")[:3] == ["charge", "receive", "inputs.city"]
    expect(when).to_have_attribute("list", "editor-names")
    when.fill("inputs.city != ''")
    when.press("Tab")
    page.get_by_role("tab", name="Text").click()
    assert "when:" in text_of(page)
    expect(page.locator(".problems")).to_contain_text("No problems")


# -- a run that goes on


def test_a_run_is_patched_where_it_can_be_and_asked_again_when_it_moves(site, page, watch):
    boss = {"id": "boss", "type": "human", "config": {"approvers": ["ann"]}, "dependencies": ["a"]}
    chief = {"id": "chief", "type": "human", "config": {"approvers": ["ann"]}, "dependencies": ["boss"]}
    nodes = [samples.value("a", 1), boss, chief, samples.value("end", 2, "chief")]
    run = site.start({"name": "patched-live", "nodes": nodes})
    wait_until(lambda: site.get(f"/runs/{run}")["nodes"]["boss"]["state"] == "waiting", "the first approval waits")
    page.goto(f"{site.url}/runs/{run}")
    page.get_by_role("link", name="Patch").click()
    proof = page.locator(".proof")
    expect(proof).to_contain_text("Nothing has changed yet.")
    page.get_by_role("treeitem").filter(has_text="boss").click()
    page.get_by_role("button", name="Remove this node").click()
    expect(proof.locator(".verdict")).to_contain_text("No:")  # it waits for a person
    expect(proof.get_by_role("button", name="Apply")).to_be_disabled()
    page.get_by_role("tab", name="Text").click()
    page.locator(".cm-content").click()
    page.keyboard.press("Control+z")
    expect(proof).to_contain_text("Nothing has changed yet.")
    page.get_by_role("treeitem").filter(has_text="end").click()
    page.get_by_role("button", name="Remove this node").click()
    expect(proof.locator(".verdict")).to_contain_text("Yes:")
    asked = proof.inner_text()
    site.post(f"/approvals/{run}:boss:1/decide", {"decision": "approve", "approver": "ann"})  # the run moves
    wait_until(
        lambda: proof.inner_text() != asked and proof.get_attribute("data-proven") == "true", "it is asked again"
    )
    expect(proof.locator(".verdict")).to_contain_text("Yes:")
    expect(proof.get_by_role("button", name="Apply")).to_be_disabled()  # a reason is missing
    proof.get_by_label("Reason").fill("no end is needed")
    assert find_barriers(page) == []
    proof.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(f"{site.url}/runs/{run}")
    expect(page.get_by_role("treeitem")).to_have_count(3)
    patched = [event for event in site.get(f"/runs/{run}/events?limit=1000")["items"] if event["type"] == "run.patched"]
    assert len(patched) == 1
    assert patched[0]["data"]["reason"] == "no end is needed"


def test_a_text_with_problems_is_kept_when_another_patches_the_run(site, page, watch):
    boss = {"id": "boss", "type": "human", "config": {"approvers": ["ann"]}}
    run = site.start({"name": "patched-by-two", "nodes": [boss, samples.value("end", 2, "boss")]})
    wait_until(lambda: site.get(f"/runs/{run}")["nodes"]["boss"]["state"] == "waiting", "the approval waits")
    page.goto(f"{site.url}/runs/{run}/edit")
    proof = page.locator(".proof")
    expect(proof).to_contain_text("Nothing has changed yet.")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("nonsense: 1")
    expect(page.locator(".problems")).to_contain_text("nonsense")
    written = text_of(page)
    theirs = {"op": "add", "path": "/nodes/-", "value": {"id": "theirs", "type": "transform", "config": {"value": 2}}}
    site.post(f"/runs/{run}/patch", {"patch": [theirs], "reason": "meanwhile"})
    expect(proof.locator(".moved")).to_contain_text("Your text is as you left it")
    expect(proof.locator(".moved")).to_contain_text("theirs")
    assert text_of(page) == written
    page.reload()  # also then: the draft was made of what the run followed before
    expect(page.locator(".problems")).to_contain_text("nonsense")
    expect(proof.locator(".moved")).to_contain_text("theirs")
    assert text_of(page) == written
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    for _ in "nonsense: 1":
        page.keyboard.press("Backspace")
    page.keyboard.type("description: mine")
    expect(proof.locator(".moved")).to_contain_text("brought together")
    expect(proof).to_have_attribute("data-proven", "true")
    assert "id: theirs" in text_of(page)
    assert "description: mine" in text_of(page)
    assert find_barriers(page) == []


def test_what_is_not_saved_is_tried_and_its_states_are_seen_in_the_graph(site, page, watch):
    def versions():
        return [(one["name"], one["version"]) for one in site.get("/workflows")["items"]]

    before = versions()
    page.goto(f"{site.url}/workflows/new")
    page.get_by_role("button", name="Try").click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text("It is a real run")
    expect(sheet).to_have_attribute("data-ready", "true")  # it takes no click in its first 300 ms
    assert find_barriers(page) == []
    sheet.get_by_role("button", name="Start").click()
    line = page.locator(".trial")
    expect(line).to_contain_text("completed")
    expect(page.get_by_role("treeitem").filter(has_text="first")).to_contain_text("completed")
    assert find_barriers(page) == []
    assert versions() == before  # nothing was saved
    line.get_by_role("link", name="Open the run").click()
    expect(page.locator("h1")).to_contain_text("my-workflow not registered")
