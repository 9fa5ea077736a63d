"""What is served was built from what stands in `ui`, whole and small; nobody forgets to build it."""

import gzip
import hashlib
import json
import re
import subprocess
import zipfile
import zlib
from pathlib import Path

import brotli
import pytest

from perdure.web import Built
from scripts.tokens import MADE, SOURCES
from scripts.ui import ROOT, UI, check, environment
from tests.web.browser import need_tools

STATIC = ROOT / "src" / "perdure" / "web" / "static"
BUILD = json.loads((STATIC / "build.json").read_text())
KB = 1000


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sources() -> list[str]:
    found = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs"]
    found += [path.relative_to(UI).as_posix() for path in (UI / "src").rglob("*") if path.is_file()]
    return sorted(name for name in found if name != "src/api/schema.ts")


def test_what_is_served_was_built_from_the_sources_that_stand_here():
    digest = hashlib.sha256()
    for name in sources():
        digest.update(f"{name}\n{sha((UI / name).read_bytes())}\n".encode())
    assert digest.hexdigest() == BUILD["sources"], "ui/ has changed since it was built: run `make ui`"
    assert BUILD["build"] == BUILD["sources"][:16]


def test_every_file_is_there_as_it_was_built_and_no_other():
    found = {
        path.relative_to(STATIC).as_posix(): sha(path.read_bytes()) for path in STATIC.rglob("*") if path.is_file()
    }
    assert found.pop("build.json")
    assert found == BUILD["files"]


def test_compressed_files_hold_what_stands_beside_them():
    pairs = [name for name in BUILD["files"] if name.endswith((".js", ".css", ".svg"))]
    assert len(pairs) > 4
    for name in pairs:
        content = (STATIC / name).read_bytes()
        assert brotli.decompress((STATIC / f"{name}.br").read_bytes()) == content
        assert gzip.decompress((STATIC / f"{name}.gz").read_bytes()) == content


@pytest.mark.parametrize("name", MADE)
def test_colours_and_icons_are_those_of_the_drawings(name):
    assert (SOURCES / name).read_text() == MADE[name](), "src/perdure/drawing has changed: run `make ui`"


def first_load() -> list[str]:
    """The files that the list of runs needs, in its first visit."""
    shared = set(re.findall(r"(?:from|import)\"\./(chunks/[\w-]+\.js)\"", (STATIC / "app.js").read_text()))
    return ["app.js", "style.css", *shared]


def test_the_first_load_is_small():
    loaded = first_load()
    assert 3 <= len(loaded) <= 4  # with the page itself and its icon, six requests at most
    size = sum(len((STATIC / f"{name}.gz").read_bytes()) for name in loaded) + len(
        gzip.compress((STATIC / "index.html").read_bytes())
    )
    assert size <= 70 * KB


def needed(screen: str) -> int:
    """How much a screen loads beyond the first load, compressed."""
    queue = [name for name in BUILD["files"] if re.fullmatch(rf"chunks/{screen}-\w+\.js", name)]
    assert len(queue) == 1
    found: set[str] = set()
    while queue:
        name = queue.pop()
        if name not in found and name not in first_load():
            found.add(name)
            text = (STATIC / name).read_text()
            queue += [f"chunks/{one}" for one in re.findall(r"(?:from|import)\"\./(chunk-\w+\.js)\"", text)]
    return sum(len((STATIC / f"{name}.gz").read_bytes()) for name in found)


def test_the_rest_is_small():
    assert 10 * KB < needed("Run") <= 45 * KB
    assert 100 * KB < needed("Editor") <= 190 * KB
    whole = sum(len((STATIC / name).read_bytes()) for name in BUILD["files"] if name.endswith(".gz"))
    assert whole <= 420 * KB
    # A wheel packs each file; what is packed already gets no smaller by that.
    packed = sum(len(zlib.compress(path.read_bytes())) for path in STATIC.rglob("*") if path.is_file())
    assert packed <= 1000 * KB


def test_the_lock_names_no_host_and_has_a_hash_for_each_package():
    lock = json.loads((UI / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 20
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if not one["integrity"].startswith("sha512-")] == []


def test_what_browsers_get_is_free_software_whose_notices_come_with_it():
    lock = json.loads((UI / "package-lock.json").read_text())["packages"]
    needed, queue = set(), list(json.loads((UI / "package.json").read_text())["dependencies"])
    while queue:
        name = queue.pop()
        if name not in needed:
            needed.add(name)
            queue += lock[f"node_modules/{name}"].get("dependencies", {})
    notice = (STATIC / "NOTICE.txt").read_text()
    for name in needed:
        one = lock[f"node_modules/{name}"]
        assert one["license"] == "MIT", name
        assert f"{name} {one['version']} (MIT)" in notice


def test_a_file_that_is_missing_is_noticed_when_a_server_starts():
    assert {"app.js", "style.css", "icon.svg"} <= Built().assets.keys()


@pytest.mark.slow
def test_building_again_gives_the_same_bytes(tmp_path):
    need_tools()
    done = subprocess.run(
        ["node", "build.mjs", "--out", str(tmp_path)],
        cwd=UI,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    # Compressors may differ by processor; what they hold is compared above.
    plain = {name: content for name, content in made.items() if not name.endswith((".br", ".gz", "build.json"))}
    assert {name: sha(content) for name, content in plain.items()} == {
        name: one for name, one in BUILD["files"].items() if not name.endswith((".br", ".gz"))
    }
    assert json.loads(made["build.json"])["sources"] == BUILD["sources"]


@pytest.mark.slow
def test_the_sources_fit_the_api_as_it_is_and_keep_the_rules():
    """Types made anew from the server's own document, the compiler, the linter, and the tests of the parts."""
    need_tools()
    check()


@pytest.mark.slow
def test_the_wheel_holds_every_file(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    made = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(made) as wheel:
        held = {name.removeprefix("perdure/web/static/") for name in wheel.namelist() if "/web/static/" in name}
    assert held == {*BUILD["files"], "build.json"}


# -- what sources may not hold

BANNED = re.compile(
    r"dangerouslySetInnerHTML|\.(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|createContextualFragment"
    r"|DOMParser|javascript:|style=\"|setAttribute\(\s*[\"'](style|on)|https?://(?!www\.w3\.org)"
)


def code() -> list[Path]:
    return [
        path for path in (UI / "src").rglob("*") if path.suffix in (".ts", ".tsx", ".html") and path.name != "schema.ts"
    ]


def test_no_source_makes_markup_or_code_from_text():
    assert BANNED.search("node.innerHTML = text")
    assert BANNED.search('<p style="color:red">')
    for path in code():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "/^https?:" in line:  # how a link is recognized
                continue
            assert not BANNED.search(line), f"{path.relative_to(UI)}:{number}: {line.strip()}"


def test_every_text_that_is_read_stands_among_the_words():
    """No letters between tags, and none in the attributes that are read out."""
    between = re.compile(r">\s*([^<>{}()=;|&]*[A-Za-z]{2}[^<>{}()=;|&]*)</")
    spoken = re.compile(r"\b(aria-label|title|alt|placeholder|label)=\"([^\"]*[A-Za-z][^\"]*)\"")
    assert between.search("<p>Some words</p>")
    for path in code():
        if path.suffix == ".tsx":
            text = path.read_text()
            assert [found[0] for found in between.finditer(text)] == [], path
            assert [found[0] for found in spoken.finditer(text)] == [], path


def test_files_are_short():
    for path in code():
        assert len(path.read_text().splitlines()) <= 400, path
