"""Runs to look at: one of each kind that a screen shows differently. `screens` names what there is to see of them."""

from __future__ import annotations

from typing import Any, Protocol


class Starter(Protocol):
    def start(self, definition: dict[str, Any], *, wait: float = 0.0, **more: Any) -> str: ...

    def post(self, path: str, body: Any = None) -> Any: ...


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
    for definition in versions_of(FULFIL):
        site.post("/workflows?reason=as+a+sample", definition)
    for trigger in TRIGGERS:
        site.post("/triggers", trigger)
    site.post("/triggers/nightly/fire")
    site.post("/triggers/nightly/fire", {"inputs": {"city": 7}})
    return found


FULFIL: dict[str, Any] = {
    "name": "fulfil",
    "description": "Takes an order, charges the card and ships the parcel.",
    "inputs": {
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "title": "City", "description": "Where it goes."},
            "quantity": {"type": "integer", "title": "Quantity", "minimum": 1, "default": 1},
            "express": {"type": "boolean", "title": "Express"},
            "size": {"enum": ["small", "large"], "title": "Size"},
            "lines": {"type": "array", "title": "Lines", "items": {"type": "string"}},
        },
    },
    "nodes": [
        value("receive", "{{ inputs.city }}"),
        value("charge", "{{ inputs.quantity }}", "receive"),
        value("ship", "sent", "charge"),
    ],
}


TRIGGERS: tuple[dict[str, Any], ...] = (
    {
        "name": "nightly",
        "description": "Fulfils what came in during the day.",
        "workflow": "fulfil",
        "schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
        "inputs": {"city": "{{ trigger.at }}"},
        "overlap": "allow",
    },
    {"name": "quarterly", "workflow": "fulfil", "schedule": {"every": "15m"}, "inputs": {"city": "Oslo"}},
    {
        "name": "orders",
        "workflow": "fulfil",
        "webhook": {"verify": {"scheme": "standard", "secret": "SHOP"}},
        "key": "{{ item.body.customer }}",
        "inputs": {"city": "{{ item.body.city }}"},
    },
)
"""Two schedules and a webhook. A firing by hand of the first starts a run, and one with a wrong input is parked."""


def versions_of(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Three versions: a node is changed in the second, and one is added in the third."""
    receive, _, ship = definition["nodes"]
    dearer = {**definition, "nodes": [receive, value("charge", 7, "receive"), ship]}
    thankful = {**definition, "nodes": [*dearer["nodes"], value("thank", "yes", "ship")]}
    return [definition, dearer, thankful]


def screens(runs: dict[str, str]) -> dict[str, str]:
    waiting = f"/runs/{runs['waiting']}"
    return {
        "home": "/",
        "home-table": "/?span=1h&as=table",
        "runs": "/runs",
        "runs-filtered": "/runs?state=failed",
        "runs-none": "/runs?workflow=nothing",
        "run-graph": waiting,
        "run-drawer": f"{waiting}?node=manager",
        "run-failed": f"/runs/{runs['failed']}?node=charge",
        "run-timeline": f"{waiting}?tab=timeline",
        "run-timeline-table": f"{waiting}?tab=timeline&as=table",
        "run-children": f"{waiting}?tab=children",
        "run-costs": f"{waiting}?tab=costs",
        "run-past": f"{waiting}?at=5",
        "workflows": "/workflows",
        "workflow": "/workflows/fulfil",
        "workflow-versions": "/workflows/fulfil?tab=versions",
        "workflow-aliases": "/workflows/fulfil?tab=aliases",
        "workflow-diff": "/workflows/fulfil/diff?before=1&after=3",
        "workflow-start": "/workflows/fulfil/start",
        "workflow-edit": "/workflows/fulfil/edit",
        "workflow-new": "/workflows/new",
        "run-edit": f"{waiting}/edit",
        "run-journal": f"{waiting}?tab=journal",
        "run-values": f"{waiting}?tab=values",
        "run-logs": f"{waiting}?tab=logs",
        "run-missing": "/runs/nothing",
        "workers": "/workers",
        "queue": "/queues/default",
        "node-type": "/node-types/map",
        "search": "/search?q=order",
        "triggers": "/triggers",
        "trigger": "/triggers/nightly",
        "trigger-hook": "/triggers/orders",
        "trigger-missing": "/triggers/nothing",
        "schedules": "/schedules",
        "schedules-agenda": "/schedules?as=agenda",
        "agents": "/agents",
        "agent-sessions": "/agents?tab=sessions",
        "assets": "/assets",
        "costs": "/costs",
        "budgets": "/costs?tab=budgets",
        "keys": "/admin/keys",
        "access": "/admin/access",
        "audit": "/admin/audit",
        "settings": "/settings",
        "welcome": "/welcome",
        "login": "/login",
    }
