"""`make demo`: what it shows, with and without a person, and that it leaves nothing behind."""

import signal

import pytest

from tests.cli.helpers import wait_until
from tests.cli.screen import Screen
from tests.examples.helpers import COLUMNS, EXAMPLES, ROOT, ROWS

pytestmark = pytest.mark.slow
DEMO = EXAMPLES / "demo.py"


@pytest.fixture
def demo(programs, tmp_path):
    """Starts it with a folder for temporary files of its own; afterwards that must be empty."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(how, **more):
        return how(ROOT, DEMO, TMPDIR=str(temporary), **more)

    yield start
    assert list(temporary.iterdir()) == []


def in_order(text, *parts):
    at = -1
    for part in parts:
        found = text.find(part, at + 1)
        assert found > at, f"{part!r} is not there, or too early:\n{text}"
        at = found


def screen_of(process):
    screen = Screen(COLUMNS, ROWS)
    screen.feed(process.text.replace("\r\n", "\n"))
    return screen


THE_END = ("demo/charge/do  111", "`charge` began twice, under one key: the customer paid once.")


def test_without_a_terminal_it_decides_by_itself_and_survives_the_crash(programs, demo):
    text = demo(programs.start).wait(0)
    in_order(
        text,
        "$ perdure run order.yaml --run-id demo -i item=lamp -i quantity=3 --no-wait",
        "queued     credit, freight, stock",
        "credit    retrying   attempt 1 failed",
        "offer     looping    iteration 3",
        "manager   waiting    for a decision by manager",
        "There is nobody to ask, so the demo decides.",
        "Approved demo:manager:1",
        "$ kill -9 ",
        "✗ The process is gone.",
        "$ perdure run order.yaml --run-id demo",
        "Run demo exists and is running; going on with it.",
        "charge    queued     attempt 2, its worker died",
        "ship      completed",
        '"shipped": true',
        *THE_END,
    )
    assert "\x1b" not in text
    assert text.count("created") == 1
    again = text[text.index("its worker died") :]
    assert [name for name in ("stock", "credit", "freight", "offer", "manager") if f"  {name} " in again] == []


def test_on_a_terminal_a_person_is_asked_and_sees_the_run_live(programs, demo):
    process = demo(programs.start_on_terminal)
    process.wait_for("[a]pprove, [r]eject or [l]ater?")
    shown = screen_of(process).text
    assert "◔ order  waiting" in shown
    process.type("a\n")
    process.wait_for("Comments")
    process.type("\n")
    process.wait(0)
    screen = screen_of(process)
    in_order(
        screen.text,
        "$ perdure run order.yaml --run-id demo -i item=lamp -i quantity=3\n",
        "? manager asks for a decision",
        "charge    running",
        "$ kill -9 ",
        "✓ order  completed",
        "✓ credit    completed",
        "✓ charge    completed",
        "attempt 2",
        *THE_END,
    )
    assert screen.cursor_visible


def test_whoever_says_no_is_told_why_nothing_was_killed(programs, demo):
    process = demo(programs.start_on_terminal)
    process.wait_for("[l]ater?")
    process.type("r\n")
    process.wait_for("Comments")
    process.type("too dear\n")
    text = process.wait(0)
    in_order(text, "declined", '"parcel": null', "Nothing was charged, so nothing was killed.")


def test_whoever_says_later_lets_the_demo_decide(programs, demo):
    process = demo(programs.start_on_terminal)
    process.wait_for("[l]ater?")
    process.type("\n")
    in_order(process.wait(0), "You leave it for later, so the demo decides.", *THE_END)


@pytest.mark.parametrize("more", [{"stdin": False}, {"TERM": "dumb"}], ids=["nowhere to type", "a dumb terminal"])
def test_nobody_is_asked_where_nobody_can_answer(programs, demo, more):
    text = demo(programs.start_on_terminal, **more).wait(0)
    assert "[a]pprove" not in text
    in_order(text, "There is nobody to ask", *THE_END)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_leaves_nothing_behind(programs, demo, how):
    process = demo(programs.start)
    process.wait_for("queued     credit")
    process.signal(how)
    assert process.popen.wait(30) == 128 + how
    wait_until(lambda: "Stopped; nothing is lost" in process.text, "the run to stop")
