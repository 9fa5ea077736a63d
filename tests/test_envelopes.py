"""Envelopes: whoever does not have a key can neither alter nor invent a message."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.transports.envelopes import EnvelopeRefused, Keyring

OLD, NEW = b"o" * 32, b"n" * 32
RING = Keyring({"old": OLD})
MESSAGE = b'{"v":1,"run_id":"r1","node":"a","attempt":1}'


def refuses(ring: Keyring, kind: str, message: bytes, signature: bytes) -> bool:
    try:
        ring.verify(kind, message, signature)
    except EnvelopeRefused:
        return True
    return False


def test_what_was_signed_is_believed_and_names_its_tenant():
    assert RING.verify("task", MESSAGE, RING.sign("task", "acme", MESSAGE).encode()) == "acme"


def test_every_flipped_bit_of_message_and_signature_is_noticed():
    signature = RING.sign("task", "acme", MESSAGE).encode()
    for place in range(len(MESSAGE)):
        for bit in range(8):
            assert refuses(RING, "task", _flip(MESSAGE, place, bit), signature), (place, bit)
    for place in range(len(signature)):
        for bit in range(8):
            assert refuses(RING, "task", MESSAGE, _flip(signature, place, bit)), (place, bit)


def _flip(text: bytes, place: int, bit: int) -> bytes:
    return text[:place] + bytes([text[place] ^ (1 << bit)]) + text[place + 1 :]


@given(st.binary(max_size=200), st.binary(max_size=200), st.text("abc:-\u00e9 ", max_size=20))
def test_nothing_that_was_not_signed_is_believed(message, signature, tenant):
    if signature:
        assert refuses(RING, "task", message, signature)
    assert refuses(RING, "task", message, f"old:{tenant}:{hashlib.sha256(message).hexdigest()}".encode())


def test_a_signature_counts_for_one_kind_one_tenant_and_one_message():
    signature = RING.sign("result", "acme", MESSAGE)
    assert refuses(RING, "task", MESSAGE, signature.encode())
    assert refuses(RING, "result", MESSAGE, signature.replace(":acme:", ":evil:").encode())
    assert refuses(RING, "result", MESSAGE.replace(b"r1", b"r2"), signature.encode())


def test_kind_tenant_and_message_cannot_flow_into_each_other():
    signature = RING.sign("task", "a", b"b\nc").encode()
    assert refuses(RING, "task", b"c", signature.replace(b":a:", b":a\nb:"))
    with pytest.raises(ValueError, match="cannot be named"):
        RING.sign("task", "a\nb", b"c")
    with pytest.raises(ValueError, match="cannot be named"):
        RING.sign("task", "a:b", b"c")


def test_an_unsigned_message_is_refused_unless_it_is_allowed_for_a_time():
    with pytest.raises(EnvelopeRefused, match="unsigned task"):
        RING.verify("task", MESSAGE, b"")
    lenient = Keyring({"old": OLD}, required=False)
    assert lenient.verify("task", MESSAGE, b"") is None
    assert refuses(lenient, "task", MESSAGE, b"old:acme:" + b"0" * 64)


def test_the_first_key_signs_and_all_of_them_verify():
    both = Keyring({"new": NEW, "old": OLD})
    signature = both.sign("task", "acme", MESSAGE)
    assert signature.startswith("new:acme:")
    assert both.verify("task", MESSAGE, RING.sign("task", "acme", MESSAGE).encode()) == "acme"
    assert refuses(RING, "task", MESSAGE, signature.encode())
    assert refuses(Keyring({"new": NEW}), "task", MESSAGE, RING.sign("task", "acme", MESSAGE).encode())


def test_a_signature_is_what_the_documents_say_it_is():
    key = hmac.digest(OLD, b"perdure/1/tenant/acme", "sha256")
    mac = hmac.digest(key, b"perdure/1/task\nacme\n" + MESSAGE, "sha256").hex()
    assert RING.sign("task", "acme", MESSAGE) == f"old:acme:{mac}"


def test_a_keyring_that_protects_nothing_is_refused_with_all_that_is_wrong():
    with pytest.raises(ValueError, match="at least one key"):
        Keyring({})
    with pytest.raises(ValueError, match=r"key id 'a:b' may hold.*; key 'short' has 5 bytes, expected at least 32"):
        Keyring({"a:b": OLD, "short": b"12345"})


def test_a_keyring_shows_no_key():
    assert repr(Keyring({"new": NEW, "old": OLD})) == "Keyring(new, old)"
