"""Values as people see them, in one go: the same as `show`, whichever way was taken."""

from __future__ import annotations

import msgspec
import pytest

from perdure.kernel.segments import MASKED, SEALED, BlobRef, encode_shown, show

VALUES = [
    {"schedule": {"every": 60}, "inputs": {"n": "{{ trigger.at }}"}},
    {"inputs": [BlobRef("cas://sha256:aa"), 1]},
    {"deep": {SEALED: "enc:v1:x"}},
    {"text": SEALED},
    None,
]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_shown_is_the_same_whichever_way_was_taken(value):
    assert msgspec.json.decode(encode_shown(value)) == show(value)


def test_nothing_sealed_is_shown():
    assert msgspec.json.decode(encode_shown(VALUES[2])) == {"deep": MASKED}
