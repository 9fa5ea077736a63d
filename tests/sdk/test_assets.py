"""`perdure.Asset`: files that functions return and are given, in this process and in isolated ones."""

from __future__ import annotations

import hashlib
import io
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure import assets
from perdure.assets import Asset, NotStored, find_asset
from perdure.blobs import ref_of
from perdure.kernel import segments
from perdure.outcomes import Failure
from perdure.settings import Settings

MEGABYTES = 3
NASTY = "x\u202efdp.exe"
REF = ref_of(b"content")


def get(value: Any) -> assets.StoredAsset:
    found = find_asset(value)
    assert found is not None
    return found


@perdure.task
def make(ctx: perdure.Context, kind: str) -> perdure.Asset:
    path = ctx.folder / "table.csv"
    path.write_bytes(b"ab\n" * MEGABYTES * 2**20)
    if kind == "open":
        return perdure.Asset(path.open("rb"), name="table.csv")
    data: Any = {"path": path, "bytes": path.read_bytes(), "text": "hällo"}[kind]
    return perdure.Asset(data, "text/csv", "table.csv")


@perdure.task(isolation="process")
def make_isolated(ctx: perdure.Context) -> list[perdure.Asset]:
    path = ctx.folder / "a.bin"
    path.write_bytes(b"x" * MEGABYTES * 2**20)
    return [perdure.Asset(path), perdure.Asset(b"", name="empty")]


@perdure.task
def look(file: perdure.Asset) -> dict[str, object]:
    copy = file.path()
    with copy.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    with file.open() as opened:
        opened.seek(-3, io.SEEK_END)
        end = opened.read().decode()
    return {
        "name": copy.name,
        "size": file.size,
        "digest": digest,
        "end": end,
        "whole": len(file.read()),
        "at": str(copy),
    }


@perdure.task
async def look_async(files: list[perdure.Asset]) -> list[int]:
    found = []
    for file in files:
        copied = await file.path()
        pieces = [len(piece) async for piece in file.pieces(2**20)]
        assert sum(pieces) == copied.stat().st_size == len(await file.read()) == file.size
        found += [len(pieces), file.size]
    return found


@perdure.task(isolation="process")
def look_isolated(file: perdure.Asset) -> int:
    with file.open() as opened:
        return file.path().stat().st_size + sum(len(piece) for piece in file.pieces()) + len(opened.read(7))


@perdure.task
def by_steps(ctx: perdure.Context) -> dict[str, object]:
    first = ctx.step("draw", perdure.Asset, b"picture", "image/png", "a.png")
    return {"size": len(first.read()), "asset": first}


@perdure.task
async def by_steps_async(ctx: perdure.Context) -> perdure.Asset:
    return await ctx.step("draw", perdure.Asset, b"picture", "image/png", "a.png")


@perdure.task
def many(count: int) -> list[perdure.Asset]:
    return [perdure.Asset(str(number), name=f"{number:04}-{'n' * 100}") for number in range(count)]


@perdure.task(sensitive=["secret"])
def sealed() -> dict[str, object]:
    return {"secret": "x", "file": perdure.Asset(b"open")}


@perdure.workflow
def passing(kind: str):
    made = make(kind)
    return {"made": made, "looked": look(made), "isolated": look_isolated(made)}


@perdure.workflow
def isolated():
    made = make_isolated()
    return {"made": made, "looked": look_async(made)}


@perdure.workflow
def steps():
    return {"sync": by_steps(), "async": by_steps_async()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["path", "bytes", "open", "text"])
def test_what_is_returned_is_given_on_whatever_it_was_made_of(tmp_path, kind):
    run = perdure.run(passing, kind=kind, db=tmp_path / "a.db")
    assert run.state == "completed", run.error
    data = "hällo".encode() if kind == "text" else b"ab\n" * MEGABYTES * 2**20
    stored = find_asset(run.outputs["made"])
    assert stored is not None
    assert (stored.ref, stored.name, stored.media_type, stored.size) == (
        ref_of(data),
        "table.csv",
        "text/csv",
        len(data),
    )
    looked = run.outputs["looked"]
    assert (looked["digest"], looked["size"], looked["whole"]) == (
        hashlib.sha256(data).hexdigest(),
        len(data),
        len(data),
    )
    assert looked["end"].encode() == data[-3:] or kind == "text"
    assert looked["name"] == "table.csv"
    assert not Path(looked["at"]).exists(), "the folder of an attempt is gone with it"
    assert run.outputs["isolated"] == 2 * len(data) + min(7, len(data))


@pytest.mark.slow
def test_isolated_processes_return_assets_of_any_size_and_empty_ones(tmp_path):
    run = perdure.run(isolated, db=tmp_path / "a.db")
    assert run.state == "completed", run.error
    assert run.outputs["looked"] == [MEGABYTES, MEGABYTES * 2**20, 0, 0]
    assert [get(one).name for one in run.outputs["made"]] == ["a.bin", "empty"]


@pytest.mark.slow
def test_a_step_may_return_one(tmp_path):
    run = perdure.run(steps, db=tmp_path / "a.db")
    assert run.state == "completed", run.error
    assert run.outputs["sync"]["size"] == 7
    assert run.outputs["async"] == run.outputs["sync"]["asset"]


@pytest.mark.slow
def test_what_has_sensitive_fields_returns_none(tmp_path):
    run = perdure.run(sealed, db=tmp_path / "a.db")
    assert (run.state, (run.error or {})["code"]) == ("failed", "bad_output")
    assert "the content of an asset is not sealed" in (run.error or {})["message"]


@pytest.mark.slow
@pytest.mark.parametrize("function", [make, make_isolated])
def test_one_that_is_too_large_is_refused_and_not_stored(tmp_path, monkeypatch, function):
    monkeypatch.setenv("PERDURE_ASSET_MAX_BYTES", "1000000")
    inputs = {"kind": "open"} if function is make else {}
    run: perdure.Run[Any] = perdure.run(function, inputs=inputs, db=tmp_path / "a.db")
    assert (run.state, (run.error or {})["code"]) == ("failed", "asset_too_large")
    assert not [one for one in (tmp_path / "a.db.blobs").rglob("*") if one.is_file() and one.stat().st_size > 500]


@pytest.mark.slow
def test_a_list_that_is_a_blob_itself_says_that_it_names_others(tmp_path):
    run = perdure.run(many, count=300, db=tmp_path / "a.db")
    assert len(run.outputs["result"]) == 300
    names = {get(one).ref for one in run.outputs["result"]}
    assert len(names) == 300


def test_json_with_an_asset_is_stored_as_what_names_blobs_and_reads_the_same():
    value = {"file": {"$asset": {"ref": REF, "media_type": "a/b", "name": "", "size": 7}}, "$perdure:secret": "mine"}
    for data, refs in (segments.encode(value), segments.encode_again(msgspec.json.encode(value))):
        assert refs
        assert REF.encode() in data
        assert segments.decode(data, refs) == value
    assert segments.encode({"text": '"$asset":'})[1] is False


@pytest.mark.parametrize("name", ["a/b", "a\\b", 'a"b', "a\r\nSet-Cookie: x", "..", "x\0", NASTY, "n" * 201, "\ud800"])
def test_a_name_that_could_do_harm_is_refused_and_makes_no_asset_of_data(name):
    with pytest.raises(ValueError, match="the name of an asset"):
        Asset(b"", name=name)
    assert find_asset({"$asset": {"ref": REF, "media_type": "a/b", "name": name, "size": 1}}) is None


@pytest.mark.parametrize("kind", ["text", "a/b\r\nX: y", "text/html; charset=utf-8; x=y", "ä/b", "a/" + "b" * 101])
def test_a_media_type_that_is_none_is_refused(kind):
    with pytest.raises(ValueError, match="is not a media type"):
        Asset(b"", media_type=kind)
    assert find_asset({"$asset": {"ref": REF, "media_type": kind, "name": "", "size": 1}}) is None


@pytest.mark.parametrize(
    "about",
    [
        {"ref": REF + "+refs"}, {"ref": REF[6:]}, {"ref": "cas://sha256:1"}, {"size": -1}, {"size": True}, {"more": 1}, {"name": None},
    ],
)  # fmt: skip
def test_data_that_pretends_to_be_an_asset_is_data(about):
    sound = {"ref": REF, "media_type": "a/b", "name": "", "size": 1}
    assert find_asset({"$asset": sound}) is not None
    assert find_asset({"$asset": {**sound, **about}}) is None
    assert find_asset({"$asset": sound, "more": 1}) is None


def test_outside_of_a_run_it_is_read_from_what_it_was_made_of(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("text")
    for asset in (Asset(file), Asset("text"), Asset(b"text"), Asset(io.BytesIO(b"text"))):
        assert look.fn(asset)["whole"] == asset.size == 4
    assert Asset(file).media_type == Asset("text").media_type == "text/plain"
    with pytest.raises(NotStored, match="is uploaded first"):
        perdure.run(look, file=Asset(b"text"), db=":memory:")


def test_content_that_is_not_what_was_stored_is_not_given_out():
    class Other(assets.Source):
        async def part(self, ref, first, count):
            return b"x" * count

        def part_in_thread(self, ref, first, count):
            return b"x" * count

        def folder(self):
            return Path(tempfile.mkdtemp(dir="/tmp"))

        async def beside(self, work):
            return work()

    asset = Asset.from_stored(assets.StoredAsset(REF, "a/b", "", 7), Other())
    with pytest.raises(Failure, match="something else is kept"):
        asset.read()


def test_the_limits_have_their_defaults_in_one_place():
    assert (Settings().asset_max_bytes, Settings().tenant_asset_bytes) == (5 * 2**30, 100 * 2**30)
