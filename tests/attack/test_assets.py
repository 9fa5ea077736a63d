"""Values that say they are files: what they say of a file is measured where it counts, and believed nowhere (S20)."""

import asyncio
import hashlib

import click
import pytest

from perdure.access import Authenticator, issue_key
from perdure.api import Options, byte_ranges
from perdure.assets import LARGEST_PREVIEW, Asset, Source, StoredAsset, find_asset, reading
from perdure.blobs import BlobDamaged
from perdure.cli.assets import _choose
from perdure.engine import Engine
from perdure.outcomes import Failure
from perdure.service.tenancy import archive_of
from tests.api.helpers import bearer, mounted, serving
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE

OCTETS = {"Content-Type": "application/octet-stream"}
CONTENT = b"hello"
LARGE = 10**12


async def given(server, size, **more):
    """The run of a workflow whose node says that what was put is an asset of this size."""
    ref = (await server.post("/blobs", content=CONTENT, headers=OCTETS)).json()["ref"]
    value = {"$asset": {"ref": ref, "media_type": "text/plain", "name": "x.txt", "size": size, **more}}
    node = {"id": "a", "type": "transform", "config": {"value": value}}
    return (await server.start({"name": "w", "nodes": [node]}))["run_id"]


@attack("S20", "a node that says of its asset another size than it has")
@pytest.mark.parametrize("size", [0, 3, 10**7, LARGE])
async def test_a_promoted_asset_has_the_size_of_its_content(tmp_path, size):
    """A smaller one let a tenant keep any amount, and a larger one let whoever fetched it wait for ever."""
    async with serving(tmp_path) as server:
        run_id = await given(server, size, preview={"ref": "cas://sha256:" + "0" * 64, "media_type": "a/b", "size": 1})
        missing = await server.post("/assets", {"run_id": run_id, "node": "a"})
        assert missing.status_code in (404, 422), missing.text
        run_id = await given(server, size)
        made = await server.ok("/assets", {"run_id": run_id, "node": "a"})
        assert (made["size"], made["asset"]["$asset"]["size"]) == (len(CONTENT), len(CONTENT))
        async with asyncio.timeout(DEADLINE):
            answer = await server.get("/assets/x.txt/content")
        assert (answer.status_code, answer.content) == (200, CONTENT)


@attack("X19", "a key that may write files and read no runs keeps what a run gave as a file")
async def test_who_reads_no_runs_promotes_nothing_of_them(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    try:
        await engine.hold()
        archive = archive_of(engine)

        async def key(*scopes: str) -> dict[str, str]:
            made = await issue_key(
                archive,
                engine.clock,
                tenant="acme",
                name="ci",
                roles=("operator", "author"),
                scopes=scopes,
                by="setup",
            )
            return {"Authorization": f"Bearer {made.text}"}

        files = ("blobs:read", "blobs:write")
        async with mounted(engine, authenticator=Authenticator(archive, engine.clock, keys=True)) as server:
            server.client.headers.update(await key())
            asked = {"run_id": await given(server, len(CONTENT)), "node": "a"}
            refused = await server.post("/assets", asked, headers=await key(*files))
            assert (refused.status_code, "runs:read" in refused.text) == (403, True)
            assert (await server.post("/assets", asked, headers=await key(*files, "runs:read"))).status_code == 201
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@attack("S20", "a node that says of megabytes that they are the preview of its asset")
async def test_a_preview_that_is_large_is_not_kept_with_its_asset(tmp_path):
    """It counted for nothing: a tenant kept any amount beyond what it may."""
    async with serving(tmp_path) as server:
        found = []
        for size in (LARGEST_PREVIEW, LARGEST_PREVIEW + 1):
            content = b"x" * size
            ref = (await server.post("/blobs", content=content, headers=OCTETS)).json()["ref"]
            run_id = await given(server, 5, preview={"ref": ref, "media_type": "image/png", "size": 1})
            made = await server.ok("/assets", {"run_id": run_id, "node": "a"})
            found.append(made["asset"]["$asset"].get("preview"))
        assert (found[0]["size"], found[1]) == (LARGEST_PREVIEW, None)


@attack("S13", "content of which the blob store has less than was promised")
async def test_what_ends_too_soon_is_broken_off(monkeypatch):
    monkeypatch.setattr(byte_ranges, "PIECE", 3)
    left = [b"abc", b"d", b"", b"", b""]

    async def part(first, count):
        return left.pop(0)

    pieces = byte_ranges.in_pieces(part, 0, 100)
    assert [await anext(pieces), await anext(pieces)] == [b"abc", b"d"]
    with pytest.raises(BlobDamaged, match="ends after 4"):
        await anext(pieces)
    assert len(left) == 2


class Little(Source):
    """A source of the content, which counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def part_in_thread(self, ref, first, count):
        self.asked += 1
        assert self.asked < 100
        return CONTENT[first : first + count]

    async def part(self, ref, first, count):
        return self.part_in_thread(ref, first, count)

    def folder(self):
        raise NotImplementedError

    async def beside(self, work):
        raise NotImplementedError


async def _read_all(asset):
    return [piece async for piece in asset.pieces()]


@attack("S20", "an input that says it is an asset of a terabyte")
@pytest.mark.parametrize("where", ["thread", "loop"])
async def test_a_function_is_not_kept_reading_what_is_not_there(where):
    source = Little()
    ref = "cas://sha256:" + hashlib.sha256(CONTENT).hexdigest()
    stored = find_asset({"$asset": {"ref": ref, "media_type": "a/b", "name": "", "size": LARGE}})
    assert isinstance(stored, StoredAsset)
    with reading(source):
        asset = Asset.from_stored(stored, source)
    reads = asyncio.to_thread(list, asset.pieces()) if where == "thread" else _read_all(asset)
    with pytest.raises(Failure, match="is said to have 1,000,000,000,000 bytes"):
        await reads
    assert source.asked == 2


@attack("S14", "a key that puts gigabytes together, again and again at once")
async def test_putting_an_asset_together_takes_a_place(tmp_path, monkeypatch):
    """One blob of 32 MiB, named 160 times, was five gigabytes of a folder for temporary files, for each request."""
    async with serving(tmp_path, tokens=True, options=Options(streams_per_key=1, streams_per_tenant=1)) as server:
        ann = bearer("ann")
        ref = (await server.post("/blobs", content=CONTENT, headers=OCTETS | ann)).json()["ref"]
        assert server.engine.blobs is not None
        real, begun, go = server.engine.blobs.put_file, asyncio.Event(), asyncio.Event()

        async def slowly(tenant, path):
            begun.set()
            await go.wait()
            return await real(tenant, path)

        monkeypatch.setattr(server.engine.blobs, "put_file", slowly)
        first = asyncio.create_task(server.client.put("/api/v1/assets/a", json={"parts": [ref]}, headers=ann))
        await begun.wait()
        second = await server.client.put("/api/v1/assets/b", json={"parts": [ref]}, headers=ann)
        assert second.status_code == 429
        go.set()
        assert (await first).status_code == 200
        monkeypatch.undo()
        third = await server.client.put("/api/v1/assets/b", json={"parts": [ref]}, headers=ann)
        assert third.status_code == 200


@attack("X33", "a server that says where the content of an asset is written")
@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/x", "..//etc/x", "/etc/x", "a/b", "a\\b", "x\n", "x\x1b[2J", ".\u202e"]
)
def test_no_server_names_a_file_outside_of_the_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError, match="say with -o"):
        _choose({"file_name": name, "name": "x"})
    assert _choose({"file_name": ".bashrc", "name": "x"}) == "bashrc"
