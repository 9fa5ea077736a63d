"""The suite watched: every adapter runs every case, every operation of the port has one."""

import inspect
import re
from collections import defaultdict
from pathlib import Path

import perdure.transports
from perdure.transport import Transport
from tests.conformance.transport.adapters import ADAPTERS
from tests.fast import collected

HERE = Path(__file__).parent
CASES = [path for path in sorted(HERE.glob("test_*.py")) if path != Path(__file__)]
# Modules of transports/ that are parts of an adapter, or of another port.
PARTS = {"queue", "local_limits", "envelopes"}


def operations() -> list[str]:
    members = {name: member for name, member in vars(Transport).items() if not name.startswith("_")}
    return [name for name, member in members.items() if inspect.isfunction(member) or isinstance(member, property)]


def test_every_adapter_runs_every_case(request):
    ran = defaultdict(set)
    for item in collected(request.config):
        if item.path.parent == HERE and item.path in CASES:
            adapter = item.callspec.params.get("adapter") if hasattr(item, "callspec") else None
            ran[item.path.name, item.originalname].add(adapter)
    chosen = {path for path, _ in ran}
    assert {case: adapters for case, adapters in ran.items() if adapters != set(ADAPTERS)} == {}
    written = {
        (path.name, name)
        for path in CASES
        if path.name in chosen
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert set(ran) == written


def test_no_case_is_skipped_for_anyone():
    assert [path.name for path in CASES if re.search(r"skip|xfail|ADAPTERS", path.read_text())] == []


def test_every_adapter_of_the_source_is_in_the_suite():
    folder = Path(perdure.transports.__file__).parent
    packages = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"} - PARTS
    assert packages | modules <= set(ADAPTERS)


def test_every_operation_of_the_port_has_a_case():
    text = "".join(path.read_text() for path in CASES)
    assert len(operations()) == 18
    assert [name for name in operations() if not re.search(rf"\.{name}\b", text)] == []
