"""Third-party node types: an installed package brings one, and what is wrong with one harms no other."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import NodeType
from perdure.nodes import BUILTIN, installed
from perdure.nodes.registry import NodeTypeInvalid, Registry
from tests import forking
from tests.engine.helpers import finish, running, workflow
from tests.processes import python_path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
SALES = "region,amount\nnorth,12.5\nsouth,30\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The example, built and installed as anybody would, with no network."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(EXAMPLE, folder / "source")
    flags = ["--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(folder / "site"), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return folder / "site"


def call(site, *command, folder, code=0):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment["PYTHONPATH"] = python_path(site)
    done = forking.run(["-m", *map(str, command)], cwd=folder, env=environment, python=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_workflow_uses_a_type_that_a_package_brings(site, tmp_path):
    done = call(site, "perdure", "run", EXAMPLE / "report.yaml", "-i", f"sales={SALES}", "--json", folder=tmp_path)
    run = json.loads(done.stdout)
    assert (run["state"], run["outputs"]) == ("completed", {"rows": 2, "total": 42.5})


def test_its_config_is_checked_like_that_of_a_built_in_type(site, tmp_path):
    text = (EXAMPLE / "report.yaml").read_text().replace("types: {amount: number}", "tipes: {}, delimiter: tab")
    (tmp_path / "bad.yaml").write_text(text)
    done = call(site, "perdure", "validate", "bad.yaml", "--json", folder=tmp_path, code=2)
    problems = {(one["path"], one["line"], one["code"]) for one in json.loads(done.stdout)["problems"]}
    assert problems == {("nodes[0].config.tipes", 6, "unknown_key"), ("nodes[0].config.delimiter", 6, "bad_config")}
    assert "did you mean 'types'?" in done.stdout


def test_it_is_listed_with_who_brings_it(site, tmp_path):
    listed = json.loads(call(site, "perdure", "node-types", "--json", folder=tmp_path).stdout)["items"]
    assert {one["name"]: one["source"] for one in listed} == {
        **dict.fromkeys(BUILTIN, "built in"),
        "csv_read": "perdure-csv 1.0.0",
    }
    shown = json.loads(call(site, "perdure", "node-types", "csv_read", "--json", folder=tmp_path).stdout)
    assert (shown["version"], shown["runs_on"], shown["problem"]) == ("1.0", "worker", None)
    assert shown["config_schema"]["required"] == ["text"]
    assert (
        call(site, "perdure", "node-types", "csv_reed", folder=tmp_path, code=1).stderr.count(
            "did you mean 'csv_read'?"
        )
        == 1
    )


def test_the_tests_of_the_package_pass(site, tmp_path):
    tests = shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    call(site, "pytest", "-q", "-p", "no:cacheprovider", str(tests), folder=tmp_path)


def test_without_the_package_the_type_is_a_warning_at_validation_and_refused_where_no_other_worker_can_be(tmp_path):
    done = call("", "perdure", "validate", EXAMPLE / "report.yaml", folder=tmp_path)
    assert "there is no node type 'csv_read' here" in done.stderr
    failed = call("", "perdure", "run", EXAMPLE / "report.yaml", "-i", "sales=x", folder=tmp_path, code=2)
    assert "unknown_type" in failed.stderr
    assert "nothing was run" in failed.stderr


# -- broken ones -------------------------------------------------------------------------------------------------------


def offer(folder, distribution, code, **entries):
    """A distribution with one module, as installers leave it."""
    module = distribution.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n")
    lines = [f"{name} = {module}:{attribute}" for name, attribute in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[perdure.node_types]", *lines]))


GOOD = """
from perdure import NodeType
async def handle(config, ctx): return {{"from": "{0}"}}
TYPE = NodeType(name="{0}", description="Good.", handler=handle{1})
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    folder = tmp_path / "packages"
    folder.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in set(sys.modules) - before:
        if (folder / f"{name}.py").exists():
            del sys.modules[name]


def test_what_is_installed_or_removed_meanwhile_is_seen_by_the_next_who_asks(packages):
    assert "later" not in installed().names()
    offer(packages, "comes-later", GOOD.format("later", ""), later="TYPE")
    assert "later" in installed().names()
    shutil.rmtree(packages / "comes_later-2.0.dist-info")
    assert "later" not in installed().names()


BROKEN = {
    "raises at import": (
        "import no_such_module_anywhere",
        "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    ),
    "exits at import": ("raise SystemExit(3)", "SystemExit: 3"),
    "has no such name": ("", "AttributeError"),
    "is no type": ("TYPE = 7", "is a int; expected a perdure.NodeType"),
    "has another name": (GOOD.format("else", ""), "calls itself 'else'"),
    "is for the coordinator": (
        "from perdure import NodeType\nTYPE = NodeType(name='broken', description='x', answer=lambda call: None)",
        "`answer` is for built-in types",
    ),
    "has neither": (
        "from perdure import NodeType\nTYPE = NodeType(name='broken', description='x')",
        "answer or a handler",
    ),
    "has a bad schema": (
        GOOD.format("broken", ", config_schema={'type': 'objekt'}"),
        "config_schema: this is no usable JSON Schema",
    ),
    "has a reference": (
        GOOD.format("broken", ", output_schema={'$ref': 'http://x.test/'}"),
        "output_schema: this is no usable",
    ),
    "can what nobody can": (
        GOOD.format("broken", ", capabilities=frozenset({'teleport'})"),
        "unknown capabilities teleport",
    ),
}


@pytest.mark.parametrize(("code", "reason"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_type_is_named_with_its_distribution_and_harms_no_other(packages, tmp_path, code, reason):
    offer(packages, "bad-nodes", code, broken="TYPE")
    offer(packages, "good-nodes", GOOD.format("good", ""), good="TYPE")
    registry = installed()
    assert registry.find("broken") is None
    assert "bad-nodes 2.0" in registry.explain("broken")
    assert reason in registry.explain("broken")
    assert [trouble.source for trouble in registry.troubles()] == ["bad-nodes 2.0"]
    assert [one.name for one in registry] == sorted([*BUILTIN, "good"])
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow({"id": "a", "type": "good"}), "r1")
        assert (state.state, state.outputs) == ("completed", {"a": {"from": "good"}})
        node = {"id": "a", "type": "broken", "on_failure": "continue"}
        with pytest.raises(Exception, match=r"bad-nodes 2\.0"):
            await finish(engine, workflow(node), "r2")


async def test_a_built_in_type_cannot_be_replaced_nor_its_alias(packages, tmp_path):
    offer(packages, "evil-nodes", GOOD.format("http", ""), http="TYPE", call_external_service="TYPE", transform="TYPE")
    registry = installed()
    assert registry.find("http").handler.__module__ == "perdure.nodes.http"
    assert registry.find("call_external_service") is registry.find("http")
    assert registry.source("http") == "built in"
    assert sorted(trouble.name for trouble in registry.troubles()) == ["call_external_service", "http", "transform"]
    assert all("evil-nodes 2.0" in trouble.message for trouble in registry.troubles())
    assert "evil_nodes" not in sys.modules


def test_two_packages_with_one_name_are_both_named_and_neither_is_used(packages):
    for name in ("one-nodes", "two-nodes"):
        offer(packages, name, GOOD.format("same", ""), same="TYPE")
    registry = installed()
    assert registry.find("same") is None
    assert "one-nodes 2.0" in registry.explain("same")
    assert "two-nodes 2.0" in registry.explain("same")


def test_an_installed_type_is_imported_when_it_is_used_and_not_before(packages):
    offer(packages, "lazy-nodes", GOOD.format("lazy", ""), lazy="TYPE")
    registry = installed()
    assert "lazy" in registry.names()
    assert "lazy" in registry.worker_names()
    assert registry.find("http") is not None
    assert "lazy_nodes" not in sys.modules
    assert registry.find("lazy").name == "lazy"
    assert "lazy_nodes" in sys.modules


async def test_a_sync_handler_and_a_closing_hook_work(packages, tmp_path):
    code = """
import threading
from perdure import NodeType
events = []
def handle(config, ctx): events.append("handled"); return threading.current_thread() is threading.main_thread()
async def close(): events.append("closed")
TYPE = NodeType(name="sync", description="Sync.", handler=handle, close=close)
"""
    offer(packages, "sync-nodes", code, sync="TYPE")
    async with running(tmp_path) as engine:
        assert (await finish(engine, workflow({"id": "a", "type": "sync"}))).outputs == {"a": False}
    assert sys.modules["sync_nodes"].events == ["handled", "closed"]


def test_a_type_is_added_once():
    async def handle(config, ctx):
        return None

    registry = Registry()
    registry.add(NodeType(name="a", description="A.", handler=handle, aliases=("b",)))
    for name in ("a", "b"):
        with pytest.raises(NodeTypeInvalid, match="registered twice"):
            registry.add(NodeType(name=name, description="A.", handler=handle))
    assert registry.find("b").name == "a"
