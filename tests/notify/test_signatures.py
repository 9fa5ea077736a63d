"""Signatures as Standard Webhooks has them: the published example, rotation, clocks, and every way to be wrong (X22, X30)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.secrets.signatures import ID, SIGNATURE, TIMESTAMP, TOLERANCE_SECONDS, WeakSecret, read_keys, sign, verify

# From the documentation of Standard Webhooks.
KEYS = read_keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
BODY = b'{"test": 2432232314}'
AT = 1614265330
HEADERS = {
    ID: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    TIMESTAMP: str(AT),
    SIGNATURE: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
OTHER = read_keys("another secret, long enough to sign".replace(" ", "-"))


def test_the_published_example_is_signed_and_verified():
    assert sign(KEYS, HEADERS[ID], AT, BODY) == HEADERS
    assert verify(KEYS, HEADERS, BODY, AT) == HEADERS[ID]


@pytest.mark.parametrize("late", [-TOLERANCE_SECONDS, 0, TOLERANCE_SECONDS])
def test_clocks_may_be_five_minutes_apart(late):
    assert verify(KEYS, HEADERS, BODY, AT + late) == HEADERS[ID]
    assert verify(KEYS, HEADERS, BODY, AT + late * 1.01 + 1 * (late > 0) - 1 * (late < 0)) == (
        HEADERS[ID] if late == 0 else None
    )


def test_both_secrets_are_good_while_one_replaces_the_other():
    both = (*OTHER, *KEYS)
    sent = sign(both, "m1", AT, BODY)
    assert sent[SIGNATURE].count("v1,") == 2
    for keys in (KEYS, OTHER, both):
        assert verify(keys, sent, BODY, AT) == "m1"
        assert verify(both, sign(keys, "m1", AT, BODY), BODY, AT) == "m1"
    assert verify(KEYS, sign(OTHER, "m1", AT, BODY), BODY, AT) is None
    assert read_keys("a-secret-that-is-long-enough-1 a-secret-that-is-long-enough-2") == (
        b"a-secret-that-is-long-enough-1",
        b"a-secret-that-is-long-enough-2",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {ID: ""},
        {ID: "msg_other"},
        {ID: "msg p5j"},
        {ID: "x" * 201},
        {TIMESTAMP: str(AT + 1)},
        {TIMESTAMP: ""},
        {TIMESTAMP: "-1"},
        {TIMESTAMP: f"{AT}.0"},
        {TIMESTAMP: "1" * 400},
        {TIMESTAMP: "٣"},
        {SIGNATURE: ""},
        {SIGNATURE: "v1,"},
        {SIGNATURE: HEADERS[SIGNATURE].removeprefix("v1,")},
        {SIGNATURE: HEADERS[SIGNATURE].replace("v1,", "v2,")},
        {SIGNATURE: "v1,\xff€"},
        {SIGNATURE: "x " * 10 + HEADERS[SIGNATURE]},
    ],
)
def test_what_is_not_signed_so_is_not_accepted(wrong):
    assert verify(KEYS, HEADERS | wrong, BODY, AT) is None
    assert verify(KEYS, {}, BODY, AT) is None


def test_no_byte_of_a_message_can_be_changed():
    for place in range(len(BODY)):
        for bit in range(8):
            changed = bytes(one ^ (1 << bit) if number == place else one for number, one in enumerate(BODY))
            assert verify(KEYS, HEADERS, changed, AT) is None
    assert verify(KEYS, HEADERS, BODY + b" ", AT) is None
    assert verify(KEYS, HEADERS, b"", AT) is None


@given(st.dictionaries(st.sampled_from([ID, TIMESTAMP, SIGNATURE]), st.text()), st.binary())
def test_whatever_comes_is_refused_and_never_an_error(headers, body):
    assert verify(KEYS, headers, body, AT) is None


@pytest.mark.parametrize("secret", ["", "  ", "short", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!", f"{'x' * 24} short"])
def test_a_secret_that_could_be_guessed_signs_nothing(secret):
    with pytest.raises(WeakSecret) as error:
        read_keys(secret)
    assert not secret.strip() or secret not in error.value.message
