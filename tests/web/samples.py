"""Runs to look at: one of each kind that a screen shows differently. `screens` names what there is to see of them."""

from __future__ import annotations

from typing import Any, Protocol


class Starter(Protocol):
    def start(self, definition: dict[str, Any], *, wait: float = 0.0, **more: Any) -> str: ...


def task(id: str, function: str, *dependencies: str, **config: Any) -> dict[str, Any]:
    config = {"function": f"tests.engine.tasks:{function}", **config}
    return {"id": id, "type": "task", "config": config, "dependencies": list(dependencies)}


def value(id: str, content: Any, *dependencies: str) -> dict[str, Any]:
    return {"id": id, "type": "transform", "config": {"value": content}, "dependencies": list(dependencies)}


ORDER: dict[str, Any] = {
    "name": "order",
    "nodes": [
        value("received", {"item": "lamp", "quantity": 3, "customer": {"name": "Ada", "country": "NL"}}),
        value("stock", {"left": 41}, "received"),
        value("credit", {"score": 0.82, "limit": 9223372036854775807}, "received"),
        value("freight", {"price": "4.20"}, "received"),
        value("offer", {"total": "31.50"}, "stock", "credit", "freight"),
        {
            "id": "manager",
            "type": "human",
            "config": {"approvers": ["ann", "bob"], "title": "Offer 31.50 to Ada?"},
            "dependencies": ["offer"],
        },
        value("charge", {"paid": True}, "manager"),
        value("ship", {"parcel": "P-1"}, "charge"),
    ],
}


def definition_named(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "nodes": list(nodes)}


def fill(site: Starter) -> dict[str, str]:
    """Start them; the ids by what they show."""
    found = {}
    for number in range(12):
        plain = definition_named("nightly-report", value("collect", number), value("write", "done", "collect"))
        found["completed"] = site.start(plain, wait=60, tags={"team": "blue"})
    failing = definition_named(
        "payment", value("order", 7), task("charge", "fail", "order"), value("receipt", 1, "charge")
    )
    failing["nodes"][1]["retry"] = 1
    found["failed"] = site.start(failing, wait=60, tags={"team": "red", "region": "eu-west"})
    found["waiting"] = site.start(ORDER, tags={"team": "blue"})
    return found


def screens(runs: dict[str, str]) -> dict[str, str]:
    waiting = f"/runs/{runs['waiting']}"
    return {
        "runs": "/runs",
        "runs-filtered": "/runs?state=failed",
        "runs-none": "/runs?workflow=nothing",
        "run-graph": waiting,
        "run-drawer": f"{waiting}?node=manager",
        "run-failed": f"/runs/{runs['failed']}?node=charge",
        "run-journal": f"{waiting}?tab=journal",
        "run-values": f"{waiting}?tab=values",
        "run-logs": f"{waiting}?tab=logs",
        "run-missing": "/runs/nothing",
        "login": "/login",
    }
