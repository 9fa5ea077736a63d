"""Lines that change in place: what is on the screen is what was painted, nothing flickers, and prints come out above."""

import io
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from perdure.cli.terminal.painter import Painter, Redirection
from tests.cli.screen import Screen

COLUMNS, ROWS = 20, 8
LINE = st.text(st.sampled_from("ab─✓ "), max_size=COLUMNS + 5)
FRAME = st.lists(LINE, max_size=ROWS - 1)
STEP = st.tuples(st.lists(st.text(st.sampled_from("xyz"), min_size=1, max_size=COLUMNS), max_size=2), FRAME)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def make(columns=COLUMNS, rows=ROWS):
    file = Terminal()
    console = Console(file=file, width=columns, height=rows, force_terminal=True, color_system=None)
    return file, console, Painter(console)


def cut(line, width=COLUMNS):
    return (line if len(line) <= width else line[: width - 1] + "…").rstrip()


@pytest.mark.slow
@given(st.lists(STEP, min_size=1, max_size=8))
def test_the_screen_shows_what_was_printed_and_below_it_the_last_lines(steps):
    file, _, painter = make()
    printed, lines = [], []
    for prints, lines in steps:
        for text in prints:
            painter.print_above(text + "\n")
        printed += prints
        painter.paint([Text(line) for line in lines])
    painter.leave()
    screen = Screen(COLUMNS, ROWS)
    screen.feed(file.getvalue())
    assert screen.text == "\n".join([*printed, *map(cut, lines)]).rstrip("\n")
    assert screen.cursor_visible


@pytest.mark.slow
@given(st.lists(FRAME, min_size=2, max_size=6))
def test_nothing_is_taken_off_before_the_new_is_there(frames):
    file, _, painter = make()
    height = max(map(len, frames))
    for frame in frames:
        painter.paint([Text(line) for line in [*frame, *[""] * (height - len(frame))]])
    screen = Screen(COLUMNS, ROWS)
    screen.feed(file.getvalue())
    assert screen.erased == 0


def test_only_what_differs_is_written():
    file, _, painter = make()
    painter.paint([Text("one"), Text("two"), Text("three")])
    before = len(file.getvalue())
    painter.paint([Text("one"), Text("2"), Text("three")])
    written = file.getvalue()[before:]
    assert "2" in written
    assert "one" not in written
    assert "three" not in written


def test_a_terminal_that_becomes_narrower_is_painted_anew():
    file, console, painter = make(20)
    painter.paint([Text("x" * 18), Text("y")])
    console.size = (10, ROWS)
    painter.paint([Text("a"), Text("b")])
    assert "\x1b[3A\r\x1b[J" in file.getvalue()  # the first line had become two rows


def test_what_is_printed_by_whoever_works_comes_out_above_also_from_threads(monkeypatch):
    file, _, painter = make()
    monkeypatch.setattr(sys, "stdout", file)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    painter.paint([Text("tree")])
    with Redirection(painter):
        print("from the loop")
        thread = threading.Thread(target=lambda: print("from a thread", end=""))
        thread.start()
        thread.join()
        assert sys.stdout.isatty()
        painter.paint([Text("tree")])
    assert id(sys.stdout) == id(file)
    painter.leave()
    screen = Screen(COLUMNS, ROWS)
    screen.feed(file.getvalue())
    assert screen.text == "from the loop\nfrom a thread\ntree"


def test_streams_that_are_no_terminal_are_left_alone(monkeypatch):
    _, _, painter = make()
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stdout", plain)
    monkeypatch.setattr(sys, "stderr", plain)
    with Redirection(painter):
        assert sys.stdout is plain
