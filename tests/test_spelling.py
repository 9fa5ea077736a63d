"""Suggestions: one wording, made in one place, at a bounded cost."""

from pathlib import Path

from perdure.spelling import find_close, list_known, suggest

SRC = Path(__file__).parent.parent / "src" / "perdure"


def test_only_one_file_looks_for_close_names() -> None:
    looking = {
        file.relative_to(SRC).as_posix() for file in SRC.rglob("*.py") if b"get_close_matches" in file.read_bytes()
    }
    assert looking == {"spelling.py"}


def test_a_close_name_is_suggested_and_otherwise_what_is_known() -> None:
    assert suggest("decison", ["decision", "data"]) == "did you mean 'decision'?"
    assert suggest("zzz", ["decision", "data"]) == "known are decision, data"
    assert suggest("zzz", ["decision"], "install it") == "install it"
    assert suggest("zzz", []) == "there are none"


def test_the_beginning_of_a_name_means_that_name_rather_than_one_that_is_shorter() -> None:
    assert suggest("timeout", ["on_timeout", "timeout_seconds"]) == "did you mean 'timeout_seconds'?"


def test_a_long_list_is_cut() -> None:
    assert list_known([f"n{number}" for number in range(21)]).endswith("n19, …")


def test_what_looking_costs_is_bounded() -> None:
    assert find_close("x" * 1_000_000, ["x" * 999_999]) is None
    assert find_close("step_7777", [f"step_{number}" for number in range(10_000)]) is not None
