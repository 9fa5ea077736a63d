"""The rules of the archive that need no database: aliases, rollouts, lines."""

import collections

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.archive.aliases import Alias, InvalidAlias, Share, check_alias, choose_version
from perdure.archive.stored_lines import LOG_LINE_BYTES, cut_message


def alias(*shares: tuple[int, float], name: str = "live") -> Alias:
    return Alias(
        tenant="acme", workflow="orders", alias=name, shares=tuple(Share(*share) for share in shares), by="ada", at=1.0
    )


@pytest.mark.parametrize("name", ["live", "a", "canary-2", "v1.2_x", "x" * 64])
def test_a_plain_name_for_versions_is_an_alias(name):
    check_alias(alias((1, 100.0), name=name))
    check_alias(alias((1, 90.0), (2, 9.9), (3, 0.1), name=name))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (alias((1, 100.0), name="latest"), "moves by itself"),
        (alias((1, 100.0), name="7"), "begin with a letter"),
        (alias((1, 100.0), name=""), "begin with a letter"),
        (alias((1, 100.0), name="a/b"), "begin with a letter"),
        (alias((1, 100.0), name="a\n"), "begin with a letter"),
        (alias((1, 100.0), name="x" * 65), "at most 64"),
        (alias(), "no version"),
        (alias((1, 50.0), (1, 50.0)), "twice"),
        (alias((1, 50.0), (2, 40.0)), "sum to 90, not to 100"),
        (alias((1, 100.0), (2, 0.0)), "above 0"),
        (alias((1, 150.0), (2, -50.0)), "above 0"),
        (alias((1, float("nan"))), "above 0"),
    ],
)
def test_what_is_no_alias_is_refused_and_says_why(wrong, said):
    with pytest.raises(InvalidAlias, match=said):
        check_alias(wrong)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(InvalidAlias) as error:
        check_alias(alias((1, 30.0), (1, 30.0), name="9"))
    assert error.value.message.count(";") == 2


def test_a_key_always_gets_the_same_version():
    rollout = alias((2, 10.0), (1, 90.0))
    for number in range(100):
        assert len({choose_version(rollout, f"run {number}") for _ in range(3)}) == 1


def test_a_rollout_gives_each_version_its_percentage():
    rollout = alias((3, 10.0), (2, 25.0), (1, 65.0))
    found = collections.Counter(choose_version(rollout, f"run {number}") for number in range(20_000))
    assert {version: round(count / 200) for version, count in found.items()} == {3: 10, 2: 25, 1: 65}


@given(small=st.floats(1, 99), more=st.floats(0, 1), key=st.text(max_size=20))
def test_raising_the_percentage_moves_nobody_away_from_the_new_version(small, more, key):
    large = small + (100 - small) * more * 0.99
    before, after = alias((2, small), (1, 100 - small)), alias((2, large), (1, 100 - large))
    if choose_version(before, key) == 2:
        assert choose_version(after, key) == 2


def test_different_aliases_divide_the_same_keys_differently():
    one, other = alias((2, 50.0), (1, 50.0)), alias((2, 50.0), (1, 50.0), name="other")
    same = sum(choose_version(one, str(n)) == choose_version(other, str(n)) for n in range(2000))
    assert 900 < same < 1100
    assert choose_version(msgspec.structs.replace(one, revision=9), "x") == choose_version(one, "x")


@given(st.text(st.characters(), min_size=0, max_size=3000))
def test_a_line_is_cut_to_its_bytes_and_stays_text(text):
    data = cut_message(text * 3)
    assert len(data) <= LOG_LINE_BYTES
    assert data.decode().rstrip("…").rstrip() in (text * 3).encode("utf-8", "replace").decode()
