"""What functions give, as large as it may be, is made into JSON beside the loop, in pieces (S05)."""

import random
import time
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from perdure import pieces
from perdure.outcomes import Failure
from perdure.runtime.worker import encoder, outputs
from perdure.runtime.worker.encoder import encode_in_pieces, is_light
from perdure.runtime.worker.outputs import MAX_BYTES, MAX_DEPTH, encode_output
from perdure.secrets import scrubber
from perdure.secrets.scrubber import CannotClean, Scrubber
from tests.api.helpers import serving
from tests.attack import giving
from tests.attack.marks import attack
from tests.attack.watchdog import LONGEST_SECONDS, judge, watching
from tests.engine.helpers import DEADLINE

MIB = 1024 * 1024


def calling(function: str, **more: Any) -> dict[str, Any]:
    config = {"function": f"tests.attack.giving:{function}"}
    return {"name": "w", "nodes": [{"id": "a", "type": "task", "config": config, "on_failure": "fail", **more}]}


@pytest.mark.slow
@attack("S05", "a function that gives a quarter of a million lists")
@pytest.mark.parametrize(
    ("function", "more"), [("plain", {}), ("on_the_loop", {}), ("plain", {"isolation": "process"})]
)
async def test_an_output_is_made_into_json_beside_the_loop(tmp_path, function, more, monkeypatch):
    made = giving.many()
    monkeypatch.setattr(giving, "many", lambda: made)
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(calling(function, **more), wait=DEADLINE)
        assert (run["state"], run["error"]) == ("completed", None)
        assert len(run["outputs"]["a"]) == giving.MANY


@pytest.mark.slow
@attack("S05", "steps, checkpoints and errors with a quarter of a million lists")
@pytest.mark.parametrize("function", ["in_a_step", "in_a_checkpoint", "in_details"])
async def test_what_else_a_function_says_is_made_into_json_beside_the_loop(tmp_path, function, monkeypatch):
    made = giving.many()
    monkeypatch.setattr(giving, "many", lambda: made)
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(calling(function), wait=DEADLINE)
        assert run["state"] == ("failed" if function == "in_details" else "completed"), run


LARGE = {
    "text": lambda: "x" * (100 * MIB),
    "quotes": lambda: '"' * (40 * MIB),
    "lists": lambda: [[]] * 2_000_000,
    "objects": lambda: [{"id": 1, "name": "abc"}] * 500_000,
    "an object": lambda: {str(number): [number] for number in range(300_000)},
    "lists in lists": lambda: [[[1] * 2_000] * 200] * 10,
    "texts": lambda: {"texts": ["x" * 50_000] * 1_000},
}


@pytest.mark.slow
@attack("S05", "one value that is as large as it may be")
@pytest.mark.parametrize("name", LARGE)
def test_no_call_of_the_encoder_takes_long(name, monkeypatch):
    """While it works, no other thread has a turn."""
    value, longest, real = LARGE[name](), 0.0, encoder.encode

    def timed(part: Any) -> bytes:
        nonlocal longest
        begun = time.thread_time()
        encoded = real(part)
        longest = max(longest, time.thread_time() - begun)
        return encoded

    monkeypatch.setattr(encoder, "encode", timed)
    encoded = encode_output(value)
    assert encoded == msgspec.json.encode(value)
    assert longest > 0
    judge(longest, LONGEST_SECONDS / 4, "a call of the encoder")


class Named(msgspec.Struct):
    name: str
    inner: Any


def grow(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(6 if depth == 5 else 11)
    count = chance.choice([0, 1, 3, 30])
    match kind:
        case 0 | 1:
            return chance.choice([None, True, -1, 2.5, 10**18])
        case 2 | 3 | 4 | 5:
            return "".join(chance.choice('ab"\\\n\x01é😀,[{') for _ in range(count))
        case 6 | 7:
            return [grow(chance, depth + 1) for _ in range(count)]
        case 8:
            return tuple(grow(chance, depth + 1) for _ in range(count))
        case 9:
            return Named("n" * count, grow(chance, depth + 1))
        case _:
            keys = [chance.choice([number, f"k{number}", f"{'k' * 40}{number}"]) for number in range(count)]
            return {key: grow(chance, depth + 1) for key in keys}


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 20))])
def test_json_in_pieces_is_the_same_json(seed, monkeypatch):
    chance = random.Random(seed)
    for name, value in {"LIGHT": 5, "_CHARACTERS": 2, "LIGHT_BYTES": 10, "_MANY": 3}.items():
        monkeypatch.setattr(encoder, name, value)
    for _ in range(20):
        value = grow(chance)
        assert encode_in_pieces(value, MAX_BYTES, MAX_DEPTH) == msgspec.json.encode(value)


def test_what_is_light_is_known_without_looking_at_all_of_it():
    assert is_light({"a": [1, "x" * 1000, None], "b": Named("n", {"c": 2.5})})
    assert not is_light("x" * (2 * MIB))
    assert not is_light({"x" * (2 * MIB): 1})
    assert not is_light([0] * 10_001)
    assert not is_light(Named("n", [[]] * 20_000))
    endless: list[Any] = []
    endless.append(endless)
    assert not is_light(endless)


@pytest.mark.slow
@attack("S05", "a value that names itself, or doubles at every level")
def test_a_value_that_multiplies_ends_at_the_limit(monkeypatch):
    monkeypatch.setattr(outputs, "MAX_BYTES", MIB)
    doubled: Any = []
    for _ in range(60):
        doubled = [doubled, doubled]
    with pytest.raises(Failure, match="more than the 1,048,576 bytes of JSON"):
        encode_output(doubled)
    endless: list[Any] = [0]
    endless.append(endless)
    with pytest.raises(Failure, match="200 levels deep, or contains itself"):
        encode_output(endless)
    with pytest.raises(Failure, match="more than the 1,048,576 bytes of JSON"):
        encode_output("x" * MIB)


@pytest.mark.parametrize("seed", range(10))
def test_secrets_are_found_in_pieces_wherever_the_pieces_end(seed, monkeypatch):
    chance = random.Random(seed)
    known = Scrubber()
    known.add("kanarien&vogel")
    known.add("pin")
    for _ in range(100):
        parts = [chance.choice(["kanarien&vogel", "pin", "x" * chance.randrange(20), '"', "\n"]) for _ in range(8)]
        texts = ["".join(parts[:5]), *parts[5:]]
        data = msgspec.json.encode(texts)
        cleaned, cleaned_text = known.json(data), known.text(texts[0])
        assert b"vogel" not in cleaned
        assert "vogel" not in cleaned_text
        with monkeypatch.context() as patch:
            patch.setattr(pieces, "PIECE", 16)
            patch.setattr(pieces, "SEARCHED", 16)
            patch.setattr(scrubber, "SEARCHED", 16)
            assert known.json(data) == cleaned
            assert known.text(texts[0]) == cleaned_text
            assert pieces.contains(data, b"pin") == (b"pin" in data)
            assert pieces.count(data, b"x") == data.count(b"x")


def test_a_secret_that_is_no_text_where_it_is_found_stays():
    known = Scrubber()
    known.add("1234")
    known.add("nabc")
    assert msgspec.json.decode(known.json(b'[1234,"1234","\\nabc"]')) == [1234, "***", "\nabc"]


@attack("S05", "a secret in a value that takes long to look through")
def test_a_value_with_a_secret_that_takes_too_long_to_be_cleaned_is_refused(monkeypatch):
    known = Scrubber()
    known.add("1234")
    heavy = msgspec.json.encode([[]] * 300_000 + [1234])
    with pytest.raises(CannotClean, match="more parts than one process reads"):
        known.json(heavy)
    monkeypatch.setattr(scrubber, "_LARGE", MIB // 2)
    with pytest.raises(CannotClean, match="holds a secret"):
        known.json(msgspec.json.encode([[]] * 300_000 + ["1234"]))
    assert known.json(msgspec.json.encode([[]] * 300_000 + ["123"])).endswith(b'"123"]')


@dataclass
class Holding:
    inner: Any


class Within(msgspec.Struct):
    inner: Any


READY = [
    b"[1,",
    b"1]],[[",
    b'"\\ud800"',
    b'"\xff"',
    b"[NaN]",
    b"1" + b"0" * 5000,
    b"1e999",
    b"",
    b"[" * 900 + b"]" * 900,
]
AROUND = [
    lambda one: one,
    lambda one: [one],
    lambda one: {"a": [one]},
    Holding,
    lambda one: [Holding({"a": Within(one)})],
]


@attack("S20", "ready-made JSON that is none: a large one was stored, and its run could not be read")
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("raw", [*READY, b"[" + b"1," * 40_000], ids=range(len(READY) + 1))
def test_ready_made_json_is_read_before_it_is_believed(raw, around):
    with pytest.raises(Failure) as caught:
        encode_output(around(msgspec.Raw(raw)))
    assert caught.value.code == "bad_output"


@pytest.mark.parametrize("around", AROUND)
def test_ready_made_json_is_what_it_says(around):
    data = b'{"a":[1,2.5,"x"]}'
    assert msgspec.json.decode(encode_output(around(msgspec.Raw(data)))) == msgspec.json.decode(
        msgspec.json.encode(around(msgspec.json.decode(data)))
    )
