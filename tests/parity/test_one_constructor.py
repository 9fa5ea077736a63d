"""What a person asks of a run is asked in one way: only the service makes these requests, so no rule about them can be gone
around; and one implementation follows a run to its end, takes it over and asks its people."""

import ast
import re
from pathlib import Path

SRC = Path(__file__).parent.parent.parent / "src" / "perdure"
ASKED = {"vote", "delegate", "start", "retry", "rerun", "patch", "requeue", "discard"}
OWN = {"service", "simulation"}  # the simulator has people of its own, who ask an engine without a service
ENGINES = Path(
    "runtime/triggers.py"
)  # the run that a trigger is: of a definition of the engine's own, started by no person


def test_only_the_service_makes_the_requests_of_people():
    found = [
        f"{path.relative_to(SRC)}:{call.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        if path.relative_to(SRC).parts[0] not in OWN and path.relative_to(SRC) != ENGINES
        if "Request(" in (text := path.read_text(encoding="utf-8"))  # looking through every tree takes a second
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Request" and _kind(call) in ASKED
    ]
    assert found == []


def test_edges_ask_the_service_and_read_no_journal():
    """A journal of an engine, or what is kept beside it, opened or looked into where people ask."""
    read = re.compile(r"\.(journal|archive|leases)\b(?!\s+import)|\bopen_journal\b")
    found = [
        f"{path.relative_to(SRC)}:{number}"
        for edge in ("cli", "sdk", "api")
        for path in sorted((SRC / edge).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if read.search(line)
    ]
    assert found == []


def _kind(call):
    return next((getattr(one.value, "value", None) for one in call.keywords if one.arg == "kind"), None)


def test_one_implementation_follows_a_run_and_takes_it_over():
    texts = {path.relative_to(SRC): path.read_text(encoding="utf-8") for path in SRC.rglob("*.py")}
    for written in (r"in follower\.events\(\)", r"while not await \w+\.hold\(", r"def \w*look_for_quarantine\("):
        found = [where for where, text in texts.items() if re.search(written, text) and where.parts[0] not in OWN]
        assert found == [Path("sdk/follower.py")], written
