"""Bugs that are planted in the sources of the interface, each noticed by the test that is there for it, by name."""

import shutil
import subprocess

import pytest

from scripts.ui import UI, environment
from tests.web.browser import need_tools

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("planted")]

PLANTED = {
    "a frame that is cut in two is lost": (
        "api/stream.ts",
        'this.#rest = lines.pop() ?? "";',
        'lines.pop(); this.#rest = "";',
        ("stream", "frames are the same wherever the text is cut"),
    ),
    "a chunk that came already comes twice": (
        "api/stream.ts",
        "number <= lastNumber",
        "number < lastNumber",
        ("chunks", "after a connection was cut, what came already is left"),
    ),
    "a login leads to another site": (
        "router.ts",
        r"/^\/(?![/\\])",
        r"/^\/(?!x)",
        ("router", "only paths of this site are followed after a login"),
    ),
    "a value links to a script": (
        "kit/text.ts",
        "if (!/^https?:\\/\\//i.test(text)) return undefined;",
        "return text;",
        ("kit", "only addresses of the web are links"),
    ),
    "numbers are read as the browser reads them": (
        "api/exact.ts",
        "Number.isSafeInteger(value)",
        "Number.isFinite(value)",
        ("kit", "numbers keep their digits, and foreign keys stay keys"),
    ),
    "what a shell reads is not quoted": (
        "kit/commands.ts",
        "`'${text.replaceAll(\"'\", \"'\\\\''\")}'`",
        "`'${text}'`",
        ("actions", "what is copied for a shell is taken by it as it was"),
    ),
    "a patch takes nodes out from the front": (
        "screens/editor/patch.ts",
        "for (let index = before.length - tail - 1; index >= head; index--)",
        "for (let index = head; index < before.length - tail; index++)",
        ("editor", "a patch makes what it was made for"),
    ),
    "a row outside the window is drawn": (
        "kit/window.ts",
        "Math.min(count, Math.ceil(last / 8) * 8)",
        "count",
        ("kit", "only rows in view are drawn, whatever the length of the list"),
    ),
    "text is shown as a picture because its name says so": (
        "screens/assets/bytes.ts",
        "  return undefined;\n}\n\n// Bytes",
        '  return "image/svg+xml";\n}\n\n// Bytes',
        ("assets", "a picture is known by its bytes, never by its name"),
    ),
    "of an hour that clocks show twice the second is meant": (
        "kit/zones.ts",
        "for (const offset of [before, after])",
        "for (const offset of [after, before])",
        ("triggers", "a time of a zone is the moment that is meant, also where clocks change"),
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_noticed_by_its_test(tmp_path, bug):
    need_tools()
    where, before, after, (file, name) = PLANTED[bug]
    for folder in ("src", "test"):
        shutil.copytree(UI / folder, tmp_path / folder)
    (tmp_path / "node_modules").symlink_to(UI / "node_modules")
    shutil.copy(UI / "package.json", tmp_path)
    source = tmp_path / "src" / where
    text = source.read_text()
    assert text.count(before) == 1, "what is planted has moved"
    source.write_text(text.replace(before, after))
    command = ["node", "--test", "--test-reporter=tap", f"test/{file}.test.ts"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    noticed = {line.partition(" - ")[2] for line in done.stdout.splitlines() if line.startswith("not ok ")}
    assert name in noticed, done.stdout
