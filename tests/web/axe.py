"""axe-core on a page: what keeps people with a keyboard, a screen reader or weak eyes from using it."""

from __future__ import annotations

from functools import cache

from playwright.sync_api import Page

from scripts.ui import UI

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def _source() -> str:
    return (UI / "node_modules" / "axe-core" / "axe.min.js").read_text()


def _show_whole(page: Page) -> None:
    """Make the window as high as the page, and let the bar at the bottom of a phone stand behind it, also if it grows: what the bar
    covers is in its way only until it is scrolled."""
    page.evaluate("() => document.querySelector('.rail')?.style.setProperty('position', 'static')")
    size = page.viewport_size
    height = page.evaluate("document.documentElement.scrollHeight")
    if size is not None and size["width"] < 640 and size["height"] < height <= 8000:
        page.set_viewport_size({"width": size["width"], "height": height + 120})


def find_barriers(page: Page) -> list[str]:
    _show_whole(page)
    if not page.evaluate("'axe' in window"):
        page.evaluate(_source())
    found = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES)
    return [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for one in found["violations"]
        for node in one["nodes"]
    ]
