"""Sensitive fields: sealed for one tenant, one run and one field, readable over rotations, and never shown."""

import stat
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.clock import new_key
from perdure.errors import SettingsInvalid
from perdure.kernel.segments import SEALED as MARK
from perdure.kernel.segments import has_sealed, mask
from perdure.secrets.keyring import Keyring, UnknownKey, open_file, parse, read_file, write_file
from perdure.secrets.seals import CannotOpen, Sealer

RING = Keyring({"k1": new_key(32)})
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def sealer(ring=RING, tenant="acme", run="r1"):
    return Sealer(ring, tenant, run)


@given(JSON)
def test_what_is_sealed_opens_to_the_same(value):
    sealed = sealer().seal({"body": {"ssn": value}, "id": 7}, "ask", ["body.ssn"])
    assert list(sealed["body"]["ssn"]) == [MARK]
    assert sealer().open(sealed) == {"body": {"ssn": value}, "id": 7}


@pytest.mark.parametrize(
    ("paths", "opened"),
    [
        (["a"], {"a": 1}),
        (["rows.ssn"], {"rows": [{"ssn": 1, "n": 2}, {"n": 3}, {"ssn": 4}]}),
        (["rows"], {"rows": [{"ssn": 1}]}),
        (["*"], {"a": 1, "b": {"c": 2}}),
        (["b.*"], {"a": 1, "b": {"c": 2, "d": 3}}),
        (["missing", "a.b.c"], {"a": 1}),
        (["*"], "a whole text"),
        (["*"], [1, 2]),
    ],
)
def test_paths_go_through_lists_and_stars(paths, opened):
    sealed = sealer().seal(opened, "n", paths)
    assert sealer().open(sealed) == opened
    assert has_sealed(sealed) is (paths != ["missing", "a.b.c"])


def test_only_what_the_path_names_is_sealed():
    sealed = sealer().seal({"rows": [{"ssn": 1, "n": 2}, {"n": 3}]}, "n", ["rows.ssn"])
    assert sealed["rows"][0]["n"] == 2
    assert sealed["rows"][1] == {"n": 3}
    assert mask(sealed) == {"rows": [{"ssn": "***", "n": 2}, {"n": 3}]}


def test_a_retry_seals_to_the_same_text_and_another_value_to_another():
    texts = [sealer().seal({"a": value}, "n", ["a"])["a"][MARK] for value in ("x", "x", "y")]
    assert texts[0] == texts[1] != texts[2]
    other_run = sealer(run="r2").seal({"a": "x"}, "n", ["a"])["a"][MARK]
    assert other_run != texts[0]


def test_sealing_twice_seals_once():
    once = sealer().seal({"a": "x"}, "n", ["a"])
    assert sealer().seal(once, "n", ["a", "*"]) == once


@pytest.mark.parametrize("wrong", [{"tenant": "other"}, {"run": "r2"}, {"ring": Keyring({"k1": new_key(32)})}])
def test_another_tenant_run_or_key_cannot_open_it(wrong):
    sealed = sealer().seal({"a": "x"}, "n", ["a"])
    with pytest.raises(CannotOpen):
        sealer(**wrong).open(sealed)


def test_a_child_run_opens_what_its_parent_sealed():
    assert sealer(run="r1:n:1").open(sealer().seal({"a": "x"}, "n", ["a"])) == {"a": "x"}


def test_a_value_moved_to_another_field_cannot_be_opened():
    text = sealer().seal({"a": "x"}, "n", ["a"])["a"][MARK]
    with pytest.raises(CannotOpen):
        sealer().open({MARK: text.replace(":n.a", ":n.b")})


def test_no_byte_of_it_may_change():
    text = sealer().seal({"a": "x"}, "n", ["a"])["a"][MARK]
    for at in range(len("enc:v1:k1:"), len(text)):
        changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        with pytest.raises(CannotOpen):
            sealer().open({MARK: changed})


@given(st.text())
def test_forged_text_ends_in_a_clear_error(text):
    with pytest.raises((CannotOpen, UnknownKey)):
        sealer().open({MARK: text})


def test_after_a_rotation_the_old_is_read_and_the_new_key_writes():
    old = sealer().seal({"a": "x"}, "n", ["a"])
    ring = RING.rotated()
    new = sealer(ring).seal({"a": "x"}, "n", ["a"])
    assert ":k2:" in new["a"][MARK]
    assert sealer(ring).open([old, new]) == [{"a": "x"}, {"a": "x"}]
    with pytest.raises(UnknownKey, match="'k2'"):
        sealer().open(new)


def test_the_sealed_text_holds_nothing_of_the_value():
    sealed = sealer().seal({"a": "canary-123456"}, "n", ["a"])
    assert b"canary" not in msgspec.json.encode(sealed)


# -- the keyring -------------------------------------------------------------------------------------------------------


def test_a_keyring_survives_its_file_which_only_its_owner_reads(tmp_path):
    path = tmp_path / "deep" / "keys"
    made = open_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_file(path, made.rotated())
    again = read_file(path)
    assert again is not None
    assert again.ids == ["k2", "k1"]
    assert again.key("k1") == made.key("k1")
    assert [one.name for one in path.parent.iterdir()] == ["keys"]


def test_processes_that_make_the_file_at_once_come_to_the_same_keys(tmp_path):
    path, rings, barrier = tmp_path / "keys", [], threading.Barrier(8)

    def make():
        barrier.wait()
        rings.append(open_file(path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ring.key("k1") for ring in rings}) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["keys"]


def test_a_key_file_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "keys"
    open_file(path)
    path.chmod(0o640)
    with pytest.raises(SettingsInvalid, match="chmod 600"):
        read_file(path)


@pytest.mark.parametrize("text", ["", "k1", "k1:short", "k1:c2hvcnQ=", "a b:" + "A" * 44, "{0},{0}"])
def test_keys_that_are_none_are_refused_without_quoting_them(text):
    one = Keyring({"k1": new_key(32)}).dumps()
    with pytest.raises(SettingsInvalid) as caught:
        parse(text.format(one), "PERDURE_ENCRYPTION_KEYS")
    assert one.partition(":")[2] not in str(caught.value)
