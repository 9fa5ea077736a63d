"""Whoever votes or starts a run asks the service: nothing else makes these requests, so no rule about them can be gone around."""

import ast
from pathlib import Path

SRC = Path(__file__).parent.parent.parent / "src" / "perdure"
ASKED = {"vote", "delegate", "start", "retry", "rerun", "patch", "requeue", "discard"}
OWN = {"service", "simulation"}  # the simulator has people of its own, who ask an engine without a service


def test_only_the_service_makes_the_requests_of_people():
    found = [
        f"{path.relative_to(SRC)}:{call.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        if path.relative_to(SRC).parts[0] not in OWN
        if "Request(" in (text := path.read_text(encoding="utf-8"))  # looking through every tree takes a second
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Request" and _kind(call) in ASKED
    ]
    assert found == []


def _kind(call):
    return next((getattr(one.value, "value", None) for one in call.keywords if one.arg == "kind"), None)
