"""Documents are true where a machine can tell: links lead somewhere, commands exist."""

import re
from pathlib import Path

import msgspec
import pytest

from perdure.expressions.filters import FILTERS, TESTS
from perdure.kernel.events import TYPES
from perdure.model import definition, paths, policies
from perdure.model.problems import CODES
from perdure.nodes import builtin
from tests.codes import find_codes
from tests.documents import blocks, execute, matches

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("**/README.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    links = re.findall(r"(?:\]\(|src=\")([^)#\s\"]+)", document.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_shown_exist(name):
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"(?:^|`|&& )make ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
    assert shown
    assert shown - targets == set()


def test_every_decision_is_in_the_list():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in folder.glob("0*.md") if path.name not in listed] == []


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    links = re.findall(r"\]\(([^)#\s]+)", index.read_text(encoding="utf-8"))
    linked = {(index.parent / link).resolve() for link in links}
    pages = {path for path in DOCUMENTS if path.is_relative_to(index.parent)} - {index}
    pages -= set((index.parent / "decisions").glob("0*.md"))  # they have a list of their own
    assert sorted(str(path.relative_to(ROOT)) for path in pages - linked) == []


def test_the_example_of_the_readme_is_the_one_in_the_folder():
    """That it runs is seen below: the page is executed."""
    files = {name: text for _, name, text in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if name}
    folder = ROOT / "examples" / "briefing"
    assert files == {name: (folder / name).read_text(encoding="utf-8") for name in ("briefing.yaml", "sources.py")}
    assert all(text.count("\n") <= 20 for text in files.values())


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/guides/python.md"])
def test_a_reader_is_told_what_a_file_is_called(name):
    """Where pages are shown, the line that opens a block is not: the name must also stand in the text before it."""
    text = (ROOT / name).read_text(encoding="utf-8")
    shown = re.findall(r"([^\n]+(?:\n[^\n]+)*)\n\n```\w+ (\S+)\n", text)
    assert shown
    assert [file for before, file in shown if file not in before] == []


EXECUTED = [
    path for path in DOCUMENTS if any(block[0] == "console" for block in blocks(path.read_text(encoding="utf-8")))
]


@pytest.mark.slow
@pytest.mark.parametrize("document", EXECUTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_shows_is_what_happens(document, tmp_path):
    assert execute(document, tmp_path) > 0


@pytest.mark.parametrize(
    ("expected", "printed", "equal"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "b"], False),
        (["…", "z"], ["a", "b", "z"], True),
        (["…", "z"], ["a", "b"], False),
        (["a … z"], ["a lot of z"], True),
        (["09:24:51  news  completed  0.1 s"], ["11:00:00   news    completed   12 ms"], True),
        (["run 01a1de8616257634bf2fadd026b2cac8"], ["run 11a1de8616257634bf2fadd026b2cac9"], True),
    ],
)
def test_a_document_is_compared_line_by_line(expected, printed, equal):
    assert matches(expected, printed) is equal


# -- the reference is complete -----------------------------------------------------------------------------------------


def list_first_cells(text):
    """Every word in backticks in the first cells of tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.slow
def test_every_error_code_is_explained_and_no_other():
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    explained = list_first_cells(page)
    explained |= set(re.findall(r"`([a-z_]+)`", page.partition("## Inside")[2]))
    codes = find_codes() | set(CODES)
    assert sorted(codes - explained) == []
    assert (
        sorted(code for code in explained - codes if not code.startswith(("http:", "llm:", "agent:", "openapi:"))) == []
    )


def test_every_key_of_a_definition_is_explained():
    page = (ROOT / "docs" / "reference" / "definition.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    mentioned = set(re.findall(r"[a-z_]+", parts["A node"]))
    assert list_first_cells(parts["The workflow"]) == definition._WORKFLOW_KEYS
    assert list_first_cells(parts["A node"]) <= definition.NODE_KEYS
    assert sorted(definition.NODE_KEYS - mentioned) == []
    assert list_first_cells(parts["retry"]) == policies._RETRY_KEYS
    assert list_first_cells(parts["loop"]) == paths._LOOP_KEYS


def test_every_filter_and_test_of_templates_is_listed():
    page = (ROOT / "docs" / "reference" / "templates.md").read_text(encoding="utf-8")
    names, filtered, tested = re.split(r"^\| (?:filter|test) \|.*$", page, flags=re.MULTILINE)
    assert "`inputs`" in names
    assert list_first_cells(filtered) == set(FILTERS)
    assert list_first_cells(tested) == set(TESTS)


def test_every_node_type_is_listed_with_what_it_can_do_and_has_a_section():
    page = (ROOT / "docs" / "reference" / "node-types.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\(#([\w-]+)\) \|.*\| ([^|]*)\|$", page, re.MULTILINE)
    assert {name: can.strip() for name, _, can in rows} == {
        one.name: ", ".join(sorted(one.capabilities)) for one in builtin()
    }
    headings = {text.replace(", ", "-") for text in re.findall(r"^## (.+)$", page, re.MULTILINE)}
    assert [name for name, section, _ in rows if section not in headings or name not in section.split("-")] == []


def test_every_event_type_is_listed_with_its_fields():
    page = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    listed: dict = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            names, fields = (re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")[1:3])
            assert not set(names) & set(listed)
            listed |= {name: set(fields) for name in names}
    header = {"seq", "at", "cause", "counter", "version", "refs", "node", "scope", "item", "visit", "attempt"}
    known = {
        name: {field.encode_name for field in msgspec.structs.fields(kind)} - header for name, kind in TYPES.items()
    }
    for many in [name for name in known if name.startswith("nodes.")]:  # one row is about both
        one = many.replace("nodes.", "node.")
        known[many] = known[one] = known[many] | known[one]
    assert listed == known
