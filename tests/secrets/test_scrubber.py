"""A value that was revealed is found again in every form it is likely to take."""

import base64
import json
import logging
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.secrets.scrubber import Scrubber, encodings, install
from tests.secrets.test_seals import JSON

CANARY = 'c4n@ry/+"s e\\cret&=ü%'


@pytest.fixture
def scrubber():
    made = Scrubber()
    made.add(CANARY)
    return made


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        f"before {CANARY} after",
        json.dumps({"a": CANARY}),
        json.dumps({"a": CANARY}, ensure_ascii=False),
        repr(CANARY),
        ascii(CANARY),
        repr(CANARY.encode()),
        quote(CANARY),
        quote(CANARY, safe=""),
        quote_plus(CANARY),
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(CANARY.encode()).decode(),
    ],
)
def test_every_form_is_masked(scrubber, text):
    clean = scrubber.text(text)
    assert "***" in clean
    assert not any(form in clean for form in encodings(CANARY))


@given(st.text(min_size=4, max_size=40), st.binary(max_size=20), st.binary(max_size=20))
def test_a_secret_inside_a_longer_base64_text_does_not_stay(secret, before, after):
    scrubber = Scrubber()
    scrubber.add(secret)
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    assert scrubber.text(encoded) != encoded


def test_values_are_scrubbed_deep_down_and_keys_too(scrubber):
    value = {"a": [CANARY, {CANARY: (1, None, True, 2.5, f"x{CANARY}")}]}
    assert scrubber.value(value) == {"a": ["***", {"***": (1, None, True, 2.5, "x***")}]}


def test_a_short_secret_is_masked_only_where_it_stands_alone():
    scrubber = Scrubber()
    scrubber.add("no")
    assert scrubber.value(["no", "nothing", "none"]) == ["***", "nothing", "none"]


def test_of_two_secrets_the_longer_is_taken_whole():
    scrubber = Scrubber()
    scrubber.add("hunter")
    scrubber.add("hunter2-and-more")
    assert scrubber.text("x hunter2-and-more y hunter z") == "x *** y *** z"


def test_texts_inside_an_object_are_secrets_as_well():
    scrubber = Scrubber()
    scrubber.add({"user": "someone", "keys": ["first-key"]})
    assert scrubber.text("someone has first-key") == "*** has ***"


def test_without_secrets_a_value_is_left_as_it_is():
    value = {"a": [1]}
    assert Scrubber().value(value) is value


def test_log_records_are_scrubbed_whoever_logs_and_with_their_tracebacks(scrubber, caplog):
    remove = install(scrubber)
    try:
        logger = logging.getLogger("somebody.else")
        logger.warning("token %s in %r", CANARY, {"t": CANARY})
        try:
            raise ValueError(CANARY)
        except ValueError:
            logger.exception("failed")
        logger.warning("nothing %s here", "secret")
    finally:
        remove()
    assert not any(form in caplog.text for form in encodings(CANARY))
    assert "ValueError: ***" in caplog.text
    assert "nothing secret here" in caplog.text


@pytest.mark.slow
@given(st.text(min_size=1, max_size=12), JSON)
def test_json_is_scrubbed_to_json_and_as_thoroughly_as_the_value(secret, value):
    scrubber = Scrubber()
    scrubber.add(secret)
    value = [value, secret, f"x{secret}y", {secret: 1}]
    clean = msgspec.json.decode(scrubber.json(msgspec.json.encode(value)))
    found = msgspec.json.encode(clean).decode()
    assert clean[1] == "***"
    if len(secret) >= 4:
        assert secret not in clean[2]
        assert json.dumps(secret)[1:-1] not in found


def test_json_without_a_secret_is_not_touched(scrubber):
    data = b'{"a":"nothing"}'
    assert scrubber.json(data) is data


PEM = (
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nQw==\n-----END KEY-----\n"
)


@pytest.mark.parametrize("used", [str.strip, str.rstrip, lambda value: f"Bearer {value.strip()}!", quote, repr])
def test_a_secret_that_ends_with_a_newline_is_found_without_it_too(used):
    scrubber = Scrubber()
    scrubber.add(" tok-4711-abc\n")
    clean = [scrubber.text(used(" tok-4711-abc\n")), str(scrubber.json(msgspec.json.encode([used(" tok-4711-abc\n")])))]
    encoded = base64.b64encode(b"user:tok-4711-abc").decode()
    assert scrubber.text(encoded) != encoded
    assert all("***" in one and "4711" not in one for one in clean), clean


def test_each_line_of_a_secret_of_several_lines_is_found_by_itself():
    scrubber = Scrubber()
    scrubber.add(PEM)
    lines = PEM.split("\n")
    clean = [scrubber.text(line) for line in lines]
    assert clean[1:3] == ["***", "***"]
    # What stands in every key and certificate, and what is too short to be told from anything else, stays.
    assert (clean[0], clean[3], clean[4]) == (lines[0], "Qw==", lines[4])
    assert msgspec.json.decode(scrubber.json(msgspec.json.encode(lines))) == clean
    assert scrubber.text(PEM) == "***"
    assert scrubber.text(PEM.replace("\n", "\r\n")).count("***") == 2


@pytest.mark.slow
def test_of_a_very_long_secret_a_bounded_number_of_lines_is_looked_for():
    scrubber = Scrubber()
    value = "".join(f"line number {number:05}\n" for number in range(300))
    scrubber.add(value)
    assert [scrubber.text(f"line number {number:05}") for number in (0, 199)] == ["***", "***"]
    assert scrubber.text("line number 00200") == "line number 00200"
    assert scrubber.text(value) == "***"


def test_a_secret_that_is_no_text_keeps_no_other_secret_from_being_found():
    scrubber = Scrubber()
    for value in ("caf\udce9-4711", "tok-4711-abc"):
        scrubber.add(value)
        scrubber.add(value)
        assert scrubber.text(f"x {value}") == "x ***"
