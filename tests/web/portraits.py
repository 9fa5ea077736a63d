"""`python -m tests.web.portraits`: the pictures of the web interface in docs/pictures, of real runs in a real browser.

They are looked at before they are committed: nothing compares them."""

from __future__ import annotations

import random
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from perdure.api import Options
from tests.web import samples
from tests.web.browser import launch_options
from tests.web.conftest import Site

PICTURES = Path(__file__).resolve().parent.parent.parent / "docs" / "pictures"
WAIT_MS = 60_000
HOOK_SECRET = {"SHOP": "whsec_" + "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}
CLAIM = {"amount": 120.5, "note": "two lamps arrived broken", "express": False}
REFUND = {
    "name": "refund",
    "nodes": [
        samples.value("claim", CLAIM),
        {
            "id": "approve",
            "type": "human",
            "config": {
                "approvers": ["ann", "bob"],
                "title": "Refund 120.50 to Ada?",
                "show": "{{ claim }}",
                "form": {
                    "type": "object",
                    "properties": {
                        "amount": {"type": "number", "title": "Amount", "minimum": 0},
                        "note": {"type": "string", "title": "Note for the customer"},
                        "express": {"type": "boolean", "title": "Express"},
                    },
                },
            },
            "dependencies": ["claim"],
        },
    ],
}
BUSY = samples.task("train", "wait_for_file", args={"path": "/nowhere"})


def fill(site: Site) -> dict[str, str]:
    runs = samples.fill(site)
    site.post("/workflows", samples.ORDER)
    for _ in range(2):
        runs["order"] = str(site.post("/runs", {"workflow": "order", "tags": {"team": "blue"}})["run_id"])
    runs["refund"] = site.start(REFUND)
    for _ in range(3):
        site.start(samples.definition_named("training", BUSY))
    return runs


def spread(folder: Path) -> None:
    """More runs, over the whole day: rows beside the real ones."""
    chance = random.Random(17)
    with sqlite3.connect(folder / "perdure.db") as base:
        names = [row[1] for row in base.execute("PRAGMA table_info(runs)")]
        query = "SELECT run_id FROM runs WHERE state IN ('completed', 'failed') ORDER BY state"
        ended = [row[0] for row in base.execute(query)]
        for number in range(170):
            [seed] = chance.choices(ended, [8 if index < 12 else 1 for index in range(len(ended))])
            ago = int(86_000 * chance.random() ** 0.8)
            made = {"run_key": "NULL", "run_id": f"'day-{number:04d}'"}
            made |= {name: f"{name} - {ago}" for name in ("created_at", "ended_at")}
            columns = ", ".join(made.get(name, name) for name in names)
            base.execute(f"INSERT INTO runs ({', '.join(names)}) SELECT {columns} FROM runs WHERE run_id = ?", (seed,))
    base.close()


def take(page: Page, name: str, height: int) -> None:
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.set_viewport_size({"width": 1280, "height": height})
    page.wait_for_timeout(400)  # what fades in has come
    page.screenshot(path=str(PICTURES / f"web-{name}.png"))
    page.set_viewport_size({"width": 1280, "height": 900})


def portray(site: Site, page: Page, runs: dict[str, str]) -> None:
    one = f"{site.url}/runs/{runs['order']}"
    page.goto(f"{site.url}/")
    expect(page.locator(".needs")).to_be_visible()
    take(page, "home", 800)
    page.goto(f"{site.url}/runs")
    expect(page.locator("tr.row").first).to_be_visible()
    take(page, "runs", 720)
    page.goto(f"{one}?node=manager")
    expect(page.locator("canvas")).to_have_attribute("data-nodes", "8")
    expect(page.locator("aside.drawer")).to_contain_text("Attempts")
    take(page, "run", 880)
    page.goto(one)
    page.locator(".run-head").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_contain_text("What happens next")
    take(page, "cancel", 800)
    [approval] = site.get(f"/approvals?run_id={runs['refund']}")["items"]
    page.goto(f"{site.url}/approvals/{approval['approval_id']}")
    expect(page.get_by_label("Note for the customer")).to_have_value(str(CLAIM["note"]))
    take(page, "approval", 900)
    page.goto(f"{site.url}/workers")
    expect(page.get_by_role("table", name="Workers")).to_contain_text("3 of 100")
    take(page, "workers", 620)


def portray_sample(page: Page, folder: Path) -> None:
    command = [sys.executable, "-m", "perdure", "dev", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            found = next(filter(None, (re.search(r"A sample runs: (\S+)", line) for line in process.stdout)))
            page.goto(found[1])
            expect(page.locator("canvas")).to_have_attribute("data-nodes", "9")
            page.get_by_role("button", name="Kill the process").click()
            expect(page.locator(".welcome")).to_contain_text("steps lost")
            expect(page.locator("canvas")).to_have_attribute("data-moving", "true")
            take(page, "welcome", 800)
        finally:
            process.terminate()


def main() -> None:
    expect.set_options(timeout=WAIT_MS)
    with tempfile.TemporaryDirectory(prefix="perdure-portraits-") as name, sync_playwright() as playwright:
        folder, empty = Path(name) / "full", Path(name) / "empty"
        for one in (folder, empty):
            one.mkdir()
        site = Site(folder, Options(ui=True), secrets=HOOK_SECRET)
        runs = fill(site)
        site.close()
        spread(folder)
        site = Site(folder, Options(ui=True), secrets=HOOK_SECRET)
        browser = playwright.chromium.launch(**launch_options())
        try:
            page = browser.new_page(color_scheme="light", locale="en-GB", timezone_id="Europe/Berlin")
            page.set_viewport_size({"width": 1280, "height": 900})
            page.set_default_timeout(WAIT_MS)
            portray(site, page, runs)
            portray_sample(page, empty)
        finally:
            browser.close()
            site.close()


if __name__ == "__main__":
    main()
