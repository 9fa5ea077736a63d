"""What the pages of a shop say."""

import csv
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class Page(HTMLParser):
    """Keeps the text of elements that have a class we look for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = dict(attrs).get("class") or ""

    def handle_data(self, data: str) -> None:
        if self._within in ("name", "price"):
            self.found[self._within] = data.strip()
            self._within = ""


def read(paths: list[str], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The answers are in the order of the paths; one that failed is `{error: {code, message, attempts}}`."""
    rows, missing = [], []
    for path, answer in zip(paths, answers, strict=True):
        if "error" in answer:
            missing.append({"page": path, "why": answer["error"]["code"]})
            continue
        page = Page()
        page.feed(answer["body"])
        rows.append({"page": path, "name": page.found["name"], "price": float(page.found["price"].lstrip("€ "))})
    return {"rows": rows, "missing": missing, "cheapest": min(rows, key=lambda row: row["price"])["name"]}


def save(rows: list[dict[str, Any]]) -> dict[str, str]:
    with Path("prices.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return {"file": "prices.csv"}
