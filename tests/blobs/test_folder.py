"""Blobs in a folder: on the disk before they have a name, whole or not at all, and honest when there is no room."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.blob_stores import folder as module
from perdure.blob_stores.folder import FolderObjects
from perdure.blob_stores.store_url import open_store
from perdure.blobs import BlobStoreFull, BlobStoreUnavailable, ref_of
from perdure.errors import SettingsInvalid

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def objects(tmp_path):
    objects = FolderObjects(tmp_path / "deep" / "blobs")
    yield objects
    await objects.close()


async def test_bytes_are_on_the_disk_before_the_file_has_its_name_and_the_name_before_put_returns(
    objects, tmp_path, monkeypatch
):
    happened: list[str] = []
    sync, replace = os.fsync, os.replace

    def spy_sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        happened.append(
            f"sync {'folder' if os.path.isdir(path) else 'file'} {os.path.basename(path).partition('-')[0]}"
        )
        sync(descriptor)

    def spy_replace(source: str, target: Path) -> None:
        happened.append(f"name {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", spy_sync)
    monkeypatch.setattr(os, "replace", spy_replace)
    await objects.write("t/kept/ab/abc", b"content")
    assert happened[-3:] == ["sync file .unfinished", "name abc", "sync folder ab"]
    assert happened[:-3] == ["sync folder deep", "sync folder blobs", "sync folder t", "sync folder kept"], (
        "parents hold names too"
    )


async def test_the_same_content_is_not_written_again(objects, tmp_path):
    await objects.write("a/b", b"x" * 3_000_000)
    before = (tmp_path / "deep" / "blobs" / "a" / "b").stat()
    await objects.write("a/b", b"x" * 3_000_000)
    after = (tmp_path / "deep" / "blobs" / "a" / "b").stat()
    assert (before.st_ino, before.st_ctime_ns < after.st_ctime_ns) == (after.st_ino, True)


@pytest.mark.parametrize("wrong", [b"", b"x" * 2_999_999 + b"y", b"x" * 3_000_001], ids=["empty", "changed", "longer"])
async def test_content_that_is_wrong_is_replaced(objects, tmp_path, wrong):
    await objects.write("a/b", b"x" * 3_000_000)
    (tmp_path / "deep" / "blobs" / "a" / "b").write_bytes(wrong)
    await objects.write("a/b", b"x" * 3_000_000)
    assert await objects.read("a/b") == b"x" * 3_000_000


async def test_a_write_that_fails_leaves_nothing_behind(objects, tmp_path, monkeypatch):
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BlobStoreFull, match="No space left on device; make room"):
        await objects.write("a/b", b"content")
    monkeypatch.undo()
    assert [path for path in (tmp_path / "deep").rglob("*") if path.is_file()] == []
    await objects.write("a/b", b"content")
    assert await objects.read("a/b") == b"content"


FULL = """
import asyncio, resource, sys
from perdure.blob_stores.store_url import open_store
from perdure.blobs import BlobStoreFull

async def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    store = open_store(sys.argv[1])
    small = await store.put("t", b"s" * 1000)
    try:
        await store.put("t", b"b" * 1_000_000)
    except BlobStoreFull as error:
        print("full:", error)
    assert await store.get("t", small) == b"s" * 1000
    print(len(await store.list_blobs("t")))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_file_system_that_takes_no_more_is_said_to_be_full(tmp_path):
    """Really: the operating system refuses the write in the middle of a file."""
    url = f"file:{tmp_path / 'blobs'}"
    done = subprocess.run(
        [sys.executable, "-c", FULL, url], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    full, count = done.stdout.splitlines()
    assert full.startswith("full: blob folder")
    assert count == "1"
    assert not list((tmp_path / "blobs").rglob(f"{module.UNFINISHED}*"))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000


KILLED = """
import asyncio, os, sys
from perdure.blob_stores.store_url import open_store

async def main():
    store = open_store(sys.argv[1])
    number = 0
    while True:
        number += 1
        ref = await store.put("t", (b"%d " % number) * 200_000)
        os.write(1, ref.encode() + b"\\n")

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_writes_leaves_whole_blobs_and_nothing_that_looks_like_one(tmp_path):
    url = f"file:{tmp_path / 'blobs'}"
    refs: list[str] = []
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", KILLED, url], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        refs += [process.stdout.readline().strip() for _ in range(3)]
        process.kill()
        refs += [line.strip() for line in process.stdout if len(line) == len(refs[0]) + 1]
        process.stdout.close()
        process.wait(10)

    async def look() -> None:
        store = open_store(url)
        for ref in refs:
            assert ref == ref_of(await store.get("t", ref))
        for blob in await store.list_blobs("t"):
            assert blob.size >= 400_000
        await store.tidy(10**12)
        assert not list((tmp_path / "blobs").rglob(f"{module.UNFINISHED}*"))
        await store.close()

    asyncio.run(look())
    assert len(set(refs)) >= 3


async def test_a_folder_that_cannot_be_used_is_an_error_that_says_so(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    store = open_store(f"file:{tmp_path / 'file'}")
    with pytest.raises(BlobStoreUnavailable, match="Not a directory; check the folder and its rights"):
        await store.put("t", b"content")
    await store.close()
    with pytest.raises(BlobStoreUnavailable, match="closed"):
        await store.put("t", b"content")


async def test_a_folder_that_vanished_is_made_again(tmp_path):
    import shutil

    store = open_store(f"file:{tmp_path / 'blobs'}")
    await store.put("t", b"one")
    shutil.rmtree(tmp_path / "blobs")
    ref = await store.put("t", b"two")
    assert await store.get("t", ref) == b"two"
    await store.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ftp://host/x", "'ftp:' is none of them"),
        ("file:", "names no folder"),
        ("file://host/x", "write file:folder"),
        ("s3://bucket/x?endpoint=http://h&secret=1", "unknown secret; a URL may give endpoint, region"),
        ("s3://", "blob store s3://"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url, expected):
    with pytest.raises(SettingsInvalid, match=expected):
        open_store(url)


def test_where_a_url_leads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url, folder in (("file:x", Path("x")), ("file:/a/b", Path("/a/b")), ("file:///a/b", Path("/a/b"))):
        assert open_store(url)._objects._folder == folder
