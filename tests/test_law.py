"""The law is in docs/internals: whatever is cited stands there, and every rule is cited by code or tests.

A citation is `rule 34`, `rules 35 to 38`, `test_rule_34_…`, `PROTOCOL 17`, or an id: `J5` of an invariant, `X18` of a class of attacks,
`S16` of a finding. Ids of invariants have one digit, those of attacks and findings two.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAW = ROOT / "docs" / "internals"
FOLDERS = ("src", "tests", "scripts", "docs", "examples", "bench")
SUFFIXES = {".py", ".sql", ".lua", ".md", ".sh"}
BESIDES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "tests/sim/known_seeds.json")

_NUMBERS = re.compile(r"\b([Rr]ules?|PROTOCOL|test_rule)(?:[_-]|\s+)(\d+)((?:(?:,? and |,? to |, )\d+)*)")
_MORE = re.compile(r"(and|to|,) ?(\d+)")
_IDS = re.compile(r"(?:TG|AG|[BFJVERTWSX])\d\d?(?![\w-])")
_NO_BEGINNING = re.compile(r"[\w%#&./\\-]")
_ANCHOR = re.compile(r'<a id="([a-z]+-?\d+)"></a>')

NO_CITATIONS = {
    "tests/conformance/journal/test_list_runs.py": {"w10"},  # base64 of nothing
    "tests/testing/test_histories.py": {"x1"},  # a rule that a user makes up
}


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def anchors_of(page: str) -> list[str]:
    return _ANCHOR.findall(read(LAW / page))


@cache
def anchors() -> frozenset[str]:
    return frozenset(name for page in LAW.glob("*.md") for name in anchors_of(page.name))


def cited(text: str) -> Iterator[tuple[str, bool]]:
    """The anchors a text cites, and whether by name: not what is between the ends of `rules 35 to 38`."""
    for found in _NUMBERS.finditer(text):
        kind = "protocol" if found[1] == "PROTOCOL" else "rule"
        last = int(found[2])
        yield f"{kind}-{last}", True
        for word, number in _MORE.findall(found[3]):
            if word == "to":
                yield from ((f"{kind}-{between}", False) for between in range(last + 1, int(number)))
            last = int(number)
            yield f"{kind}-{last}", True
    for found in _IDS.finditer(text):
        if not found.start() or not _NO_BEGINNING.match(text[found.start() - 1]):
            yield found[0].lower(), True


def citations(root: Path) -> Iterator[tuple[str, str, bool]]:
    """(file, anchor, by name) of everything that is written by hand."""
    files = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
    files += [root / name for name in BESIDES if (root / name).exists()]
    for path in files:
        if path == Path(__file__):  # wrong ones are planted here
            continue
        where = path.relative_to(root).as_posix()
        for name, by_name in cited(read(path)):
            if name not in NO_CITATIONS.get(where, ()):
                yield where, name, by_name


@cache
def _here() -> list[tuple[str, str, bool]]:
    return list(citations(ROOT))


def unknown(root: Path) -> list[str]:
    found = _here() if root == ROOT else citations(root)
    return sorted({f"{where} cites {name}" for where, name, _ in found if name not in anchors()})


def uncited(names: list[str], found: list[tuple[str, str, bool]]) -> list[str]:
    used = {name for where, name, by_name in found if by_name and where.startswith(("src/", "tests/"))}
    return [name for name in names if name not in used]


@pytest.mark.slow
def test_whatever_is_cited_is_on_a_page_of_the_law():
    assert unknown(ROOT) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(page.name for page in LAW.glob("*.md") if page.name != "security.md"))
def test_every_rule_is_cited_by_code_or_tests(page):
    """What nothing refers to is either not kept or not found by whoever breaks it. The page of security names its tests itself."""
    assert uncited(anchors_of(page), _here()) == []


@pytest.mark.parametrize(("page", "word"), [("semantics.md", "rule"), ("protocol.md", "PROTOCOL")])
def test_the_index_names_the_last_rule_of_a_page(page, word):
    last = anchors_of(page)[-1].rpartition("-")[2]
    assert f"(internals/{page}) | `{word} 1` to `{word} {last}`:" in read(ROOT / "docs" / "README.md")


def test_numbers_follow_each_other_and_mean_one_thing():
    for page in LAW.glob("*.md"):
        by_kind: dict[str, list[int]] = {}
        for name in anchors_of(page.name):
            kind, number = re.findall(r"[a-z]+|\d+", name)
            by_kind.setdefault(kind, []).append(int(number))
        assert {kind: numbers for kind, numbers in by_kind.items() if numbers != sorted(set(numbers))} == {}
    every = [name for page in LAW.glob("*.md") for name in anchors_of(page.name)]
    assert len(every) == len(set(every))


def test_links_into_the_law_lead_to_an_anchor_or_a_heading():
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link, fragment in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", read(page)):
            target = (page.parent / link).resolve() if link else page
            if target.parent == LAW and fragment not in {*anchors_of(target.name), *headings(target)}:
                broken.append(f"{page.relative_to(ROOT)}: {link}#{fragment}")
    assert broken == []


def headings(page: Path) -> set[str]:
    """As GitHub names them."""
    found = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", re.sub(r"<[^>]*>", "", text)).strip().lower().replace(" ", "-") for text in found}


@pytest.mark.slow
def test_no_document_is_named_that_is_not_here():
    """Documents beside the source are called so; whoever reads the source has only these."""
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("src", "tests", "scripts")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\b[A-Z]{4,}\.md\b", read(path))
    }
    assert sorted(f"{where} names {name}" for where, name in named if not (ROOT / name).exists()) == []


# -- that it can fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("src/perdure/kernel/x.py", "# Kept for the next generation (rule 99).", "rule-99"),
        ("src/perdure/kernel/x.py", '"""Rules 35 to 100 are elsewhere."""', "rule-99"),
        ("src/perdure/x.py", '"""Sent once (rule\n99)."""', "rule-99"),
        ("tests/kernel/test_x.py", "def test_rule_99_nothing_holds(): ...", "rule-99"),
        ("src/perdure/scripts/x.lua", "-- taken over at once (PROTOCOL 17, 77)", "protocol-77"),
        ("src/perdure/queries/x.sql", "-- never falls (V99)", "v99"),
        ("src/perdure/kernel/x.py", "# each has one fate (TG99)", "tg99"),
        ("docs/x.md", "closed as X99", "x99"),
        ("tests/sim/known_seeds.json", '{"rule": "J8"}', "j8"),
    ],
)
def test_what_does_not_exist_is_found(tmp_path, file, text, name):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    assert f"{file} cites {name}" in unknown(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["a rule of 99 nodes", "%E9 in a URL", "PLW0108", "AV9x", "#E99", "s3://bucket", "rules: 99", "ISO-8859-E9"],
)
def test_what_is_no_citation_is_left_alone(text):
    assert list(cited(text)) == []


def test_a_rule_is_not_cited_by_a_page_nor_by_a_range_around_it():
    found = [("docs/x.md", "rule-2", True), ("src/x.py", "rule-3", False), ("src/x.py", "rule-4", True)]
    assert uncited(["rule-2", "rule-3", "rule-4"], found) == ["rule-2", "rule-3"]
