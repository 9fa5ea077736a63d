"""A secret in several chunks of a text does not leave, however it is cut (S2)."""

from __future__ import annotations

import base64
from random import Random
from urllib.parse import quote

import pytest

from perdure.secrets import joints
from perdure.secrets.joints import BEGINNING, Joints
from perdure.secrets.scrubber import Scrubber

KEY = "sk-live-4242secret"
OTHER = "sk-line/of a card?"
LONG = "".join(Random(1).choices("abcdef0123456789", k=3000))
FORMS = [KEY, OTHER, LONG, quote(OTHER, safe=""), base64.b64encode(KEY.encode()).decode()]


@pytest.fixture
def known() -> Scrubber:
    scrubber = Scrubber()
    for value in (KEY, OTHER, LONG):
        scrubber.add(value)
    return scrubber


def say(known: Scrubber, *chunks: str) -> list[str]:
    """All that leaves, as the worker sends it: each chunk was looked at by itself."""
    joints = Joints(known)
    left = [text for chunk in chunks for text in joints.pass_on(known.text(chunk))]
    return left + joints.end()


def test_the_first_chunk_has_the_mask_and_the_others_lack_their_part(known):
    assert say(known, "my key is sk-l", "ive-42", "42secret, you see") == ["my key is ***", "", ", you see"]


@pytest.mark.parametrize("secret", FORMS)
def test_no_cut_of_a_secret_shows_more_than_its_first_characters(known, secret):
    for size in (1, 2, 3, 5, 17, 1000):
        chunks = [secret[at : at + size] for at in range(0, len(secret), size)]
        left = say(known, "<", *chunks, ">")
        assert len(left) == len(chunks) + 2
        shown = "".join(left)
        assert len(shown.replace("***", "")) < BEGINNING + 2, shown
        assert (shown[0], shown[-1]) == ("<", ">")


def test_what_only_begins_like_a_secret_is_said_as_it_is(known):
    chunks = ["I pay by sk-l", "oan and sk-live-", "4", "243"]
    assert say(known, *chunks) == chunks


def test_however_texts_are_cut_they_keep_their_number_and_no_secret_is_whole(known):
    words = [KEY, OTHER, "sk-", "sk-li", "sk-live-42", "secret", "s", " a ", "***", KEY[:-1]]
    for seed in range(3000):
        random = Random(seed)
        text = "".join(random.choices(words, k=random.randint(1, 6)))
        places = sorted(random.randint(0, len(text)) for _ in range(random.randint(0, 7)))
        chunks = [text[one:other] for one, other in zip([0, *places], [*places, len(text)], strict=True)]
        joints, left = Joints(known), list[str]()
        for chunk in chunks:
            left += joints.pass_on(known.text(chunk))
            if random.random() < 0.2:
                left += joints.let_go()
        left += joints.end()
        assert len(left) == len(chunks), seed
        for secret in (KEY, OTHER):
            for start in range(1, BEGINNING):
                assert secret[start:] not in "".join(left), (seed, chunks, left)


def test_what_is_let_go_before_the_rest_comes_is_masked_and_so_is_the_rest(known):
    joints = Joints(known)
    assert joints.pass_on("it is sk-live") == []
    assert joints.is_holding
    assert joints.let_go() == ["it is ***"]
    assert joints.pass_on("-4242secret.") == ["***."]


def test_chunks_that_hold_nothing_of_a_secret_wait_for_nothing(known):
    joints = Joints(known)
    for text in ("a word", "ends with s", "and sk", "", "ok"):
        assert joints.pass_on(text) == [text]
    assert not joints.is_holding


def test_not_much_is_held_back(known, monkeypatch):
    monkeypatch.setattr(joints, "MOST_HELD", 100)
    left = say(known, *(LONG[at : at + 10] for at in range(0, len(LONG), 10)))
    assert len(left) == 300
    assert set("".join(left)) <= set("*" + LONG[:3])


def test_without_a_secret_nothing_is_held():
    assert say(Scrubber(), "a", "b") == ["a", "b"]
