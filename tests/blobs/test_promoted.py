"""What is promoted outlives its run: the collection of garbage keeps it, and takes it once it is deleted."""

from __future__ import annotations

import io
from contextlib import asynccontextmanager

import pytest

import perdure
from perdure.assets import find_asset
from perdure.blobs import BlobMissing
from perdure.clock import system
from perdure.errors import NotFound, Refused
from perdure.runtime.collector import Collector
from perdure.service import Service
from perdure.service.errors import Invalid
from tests.engine.helpers import opened as open_engine

pytestmark = pytest.mark.slow


@perdure.task
def many() -> dict[str, list[perdure.Asset]]:
    return {"files": [perdure.Asset(f"{number}" * 9, name=f"{number:03}-{'n' * 150}") for number in range(300)]}


@perdure.task
def write() -> perdure.Asset:
    return perdure.Asset(io.BytesIO(b"promoted"), name="a.txt")


@perdure.workflow
def work():
    return {"all": many(), "one": write()}


@asynccontextmanager
async def opened(folder, **options):
    engine = await open_engine(folder, **options)
    try:
        yield engine
    finally:
        await engine.close()


async def collect(engine):
    for _ in range(2):  # what is unnamed is discarded, then deleted
        archive = engine.archive
        await Collector(engine.journal, archive, engine.blobs, engine.library, system, grace_seconds=-1.0).collect()


async def test_what_a_list_that_is_a_blob_names_stays_and_what_is_promoted_outlives_its_run(tmp_path):
    run = await perdure.arun(work, db=tmp_path / "perdure.db", run_id="one")
    assert run.state == "completed", run.error
    file, listed = find_asset(run.outputs["one"]), find_asset(run.outputs["all"]["files"][7])
    assert file is not None
    assert listed is not None
    async with opened(tmp_path) as engine:
        service = Service.of_owner(engine)
        await collect(engine)
        assert await engine.blobs.get("default", listed.ref) == b"7" * 9
        with pytest.raises(Invalid, match="gave 300 assets; name one: /files/0"):
            await service.assets.promote("one", "many")
        with pytest.raises(Invalid, match="gave 300"):
            await service.assets.promote("one", "many", pointer="/files/300")
        kept = await service.assets.promote("one", "write", name="report")
        assert kept["asset"] == run.outputs["one"]
        again = await service.assets.promote("one", "many", name="report", pointer="/files/7")
        assert (kept["version"], again["version"]) == (1, 2)
        assert await engine.archive.prune_runs(system.now() + 1.0, 10) == 1
        await collect(engine)
        assert await service.assets.part("report", version=1) == b"promoted"
        await service.assets.delete("report", 1)
        await collect(engine)
        with pytest.raises(BlobMissing):
            await engine.blobs.get("default", file.ref)
        assert await service.assets.part("report") == b"7" * 9


async def test_a_tenant_keeps_no_more_than_it_may_and_reaches_none_of_another(tmp_path):
    async with opened(tmp_path, tenant_asset_bytes=10, asset_max_bytes=15) as engine:
        mine, other = Service.of_owner(engine, "ann", "acme"), Service.of_owner(engine, "bob", "other")
        ref = (await mine.blobs.put(b"12345678"))["ref"]
        assert (await mine.assets.put("a", [ref]))["version"] == 1
        with pytest.raises(Refused, match="PERDURE_TENANT_ASSET_BYTES"):
            await mine.assets.put("a", [ref])
        with pytest.raises(Refused, match="PERDURE_ASSET_MAX_BYTES"):
            await mine.assets.put("a", [ref, ref])
        with pytest.raises(NotFound):
            await other.assets.get("a")
        with pytest.raises(NotFound):
            await other.assets.delete("a", 1)
        with pytest.raises(Invalid, match="there is no blob"):
            await other.assets.put("a", [ref])
