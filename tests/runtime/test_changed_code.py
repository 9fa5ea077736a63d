"""Code that is written at any moment of its import is found to have changed, and is not taken for what was read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import functions
from perdure.cli import dev
from perdure.clock import SystemClock
from tests.waiting import until_true

GIVE = "\n\ndef give():\n    return VALUE\n"
WRITE = """
import os

def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.utime(path, (1e9, 1e9))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the user's code stands; no other module of this process is taken for it."""
    source = functions._source

    def mine(module):
        file = source(module)
        return file if file is not None and file.startswith(str(tmp_path)) else None

    monkeypatch.setattr(functions, "_source", mine)
    monkeypatch.syspath_prepend(tmp_path)
    for table in ("_imported", "_missing", "_resolved"):
        monkeypatch.setattr(functions, table, {})
    (tmp_path / "writing.py").write_text(WRITE)
    yield tmp_path
    functions.watch(None)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    assert functions._observer not in sys.meta_path


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (2e9, 2e9))


def watch():
    functions.watch(lambda files: None, load=True)


def given():
    return functions.resolve("parts:give")()


def test_a_module_that_appears_right_after_it_was_looked_for(folder):
    lacking = folder / "lacking.py"
    appears = f"import writing\n    writing.write({str(lacking)!r}, 'VALUE = 1')"
    write(
        folder / "parts.py",
        f"try:\n    from lacking import VALUE\nexcept ImportError:\n    {appears}\n    raise\n{GIVE}",
    )
    watch()
    with pytest.raises(functions.FunctionNotFound):
        given()
    assert functions.reload() == [str(lacking)]
    assert given() == 1
    assert functions.reload() == []


@pytest.mark.parametrize("module", ["parts", "helper"])
def test_a_file_that_is_written_during_its_import(folder, module):
    texts = {"parts": "from helper import VALUE" + GIVE, "helper": "VALUE = 1"}
    if module == "parts":
        texts["parts"] = "VALUE = 1" + GIVE
    path = folder / f"{module}.py"
    after = texts[module].replace("from helper", "from  helper").replace("VALUE = 1", "VALUE = 2")
    for name, text in texts.items():
        more = f"import writing\nwriting.write({str(path)!r}, {after!r})\n" if name == module else ""
        write(folder / f"{name}.py", more + text)
    watch()
    assert given() == 1
    assert functions.reload() == [str(path)]
    assert given() == 2
    assert functions.reload() == []


def test_a_file_that_is_mended_while_its_import_fails(folder):
    path = folder / "parts.py"
    write(path, f"import writing\nwriting.write({str(path)!r}, {'VALUE = 1' + GIVE!r})\nraise ValueError('broken')\n")
    watch()
    with pytest.raises(functions.FunctionNotFound):
        given()
    assert functions.reload() == [str(path)]
    assert given() == 1


def test_a_file_that_is_written_before_its_first_use(folder):
    write(folder / "parts.py", "VALUE = 1" + GIVE)
    functions.load_module("parts")
    watch()
    os.utime(folder / "parts.py", (1e9, 1e9))
    assert functions.reload() == [str(folder / "parts.py")]


def test_a_file_that_is_filled_while_the_clock_stands_still(folder):
    path = folder / "parts.py"
    write(path, "")
    watch()
    with pytest.raises(functions.FunctionNotFound):
        given()
    write(path, "VALUE = 1" + GIVE)
    assert functions.reload() == [str(path)]
    assert given() == 1


@pytest.mark.parametrize("text", ["import lacking\n", "raise ValueError('broken')\n", "from writing import lacking\n"])
def test_what_cannot_be_imported_and_is_left_alone_has_not_changed(folder, text):
    write(folder / "parts.py", text)
    watch()
    for _ in range(2):
        with pytest.raises(functions.FunctionNotFound):
            given()
        assert functions.reload() == []


async def test_what_is_held_after_its_code_was_loaded_anew_is_looked_for_once_more(folder, monkeypatch):
    """Its import had failed before, and another attempt found the change in between."""
    monkeypatch.setattr(dev, "_LOOK_SECONDS", 0.01)
    released: list[str] = []

    def look_again() -> None:
        released.extend(handling.lacking)
        handling.lacking = {}

    handling: Any = SimpleNamespace(lacking=None, look_again=look_again)
    clock = SystemClock()
    engine: Any = SimpleNamespace(clock=clock, coordinator=SimpleNamespace(handling=handling))
    async with dev._following_changes(engine):
        with pytest.raises(functions.FunctionNotFound):
            given()
        write(folder / "parts.py", "VALUE = 1" + GIVE)
        monkeypatch.setattr(functions, "_looked", 0.0)
        functions.follow_changes(clock.monotonic())
        assert released == []
        handling.lacking = {"late": {"parts:give"}}
        await until_true(lambda: released == ["late"], "it is sent again")
        with pytest.raises(functions.FunctionNotFound):
            functions.resolve("other:give")
        looks: list[float] = []
        sleep = clock.sleep

        async def look_later(seconds: float) -> None:
            looks.append(seconds)
            await sleep(seconds)

        monkeypatch.setattr(clock, "sleep", look_later)
        handling.lacking = {"late": {"parts:give"}, "another": {"other:give"}}  # neither once, nor again and again
        await until_true(lambda: len(looks) > 3, "it looks again")
        assert released == ["late"]
