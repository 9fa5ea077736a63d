"""A vault hides what it reveals, and reads its keys again when it meets one it does not know."""

import logging

import pytest

from perdure.clock import new_key
from perdure.secrets.keyring import Keyring, UnknownKey
from perdure.secrets.providers import Environment, Secrets
from perdure.secrets.vault import Vault


def test_what_was_revealed_is_hidden_from_then_on_and_from_the_log(caplog):
    vault = Vault(Secrets([("environment", Environment({"TOKEN": "canary-value"}))]))
    try:
        assert vault.reveal("token", "t", "q") == "canary-value"
        assert vault.scrubber.text("a canary-value b") == "a *** b"
        logging.getLogger("any").warning("sent canary-value")
        assert "canary-value" not in caplog.text
    finally:
        vault.close()
    logging.getLogger("any").warning("sent canary-value")
    assert "canary-value" in caplog.text
    with pytest.raises(LookupError):
        vault.reveal("other", "t", "q")


def test_a_key_that_somebody_added_meanwhile_is_found():
    rings = [Keyring({"k1": new_key(32)})]
    vault, other = Vault(keyring=lambda: rings[-1]), Vault(keyring=lambda: rings[-1])
    old = vault.sealer("t", "r").seal({"a": 1}, "n", ["a"])
    rings.append(rings[0].rotated())
    new = other.sealer("t", "r").seal({"a": 2}, "n", ["a"])
    assert vault.sealer("t", "r").open([old, new]) == [{"a": 1}, {"a": 2}]


def test_without_keys_it_says_what_to_set():
    with pytest.raises(UnknownKey, match="PERDURE_ENCRYPTION_KEYS"):
        Vault().sealer("t", "r")
