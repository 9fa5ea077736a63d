"""The suite watched: every adapter runs every case, every operation of the port has one."""

import inspect
import re
from collections import defaultdict
from pathlib import Path

from perdure.limits import Limits
from tests.conformance.limits.adapters import ADAPTERS
from tests.fast import collected

HERE = Path(__file__).parent
CASES = [path for path in sorted(HERE.glob("test_*.py")) if path != Path(__file__)]


def test_every_adapter_runs_every_case(request):
    ran = defaultdict(set)
    for item in collected(request.config):
        if item.path in CASES:
            ran[item.path.name, item.originalname].add(item.callspec.params.get("pair"))
    assert {case: adapters for case, adapters in ran.items() if adapters != set(ADAPTERS)} == {}


def test_no_case_is_skipped_for_anyone():
    assert [path.name for path in CASES if re.search(r"skip|xfail|ADAPTERS", path.read_text())] == []


def test_every_operation_of_the_port_has_a_case():
    operations = [name for name, member in vars(Limits).items() if inspect.isfunction(member) and name[0] != "_"]
    text = "".join(path.read_text() for path in CASES)
    assert sorted(operations) == ["enter", "leave", "occupy", "on_room"]
    assert [name for name in operations if f".{name}(" not in text] == []
