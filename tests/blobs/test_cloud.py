"""Blobs in a real S3: a whole run, wrong keys, a server that goes away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.blob_stores.store_url import open_store
from perdure.blobs import BlobStoreUnavailable
from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator.tasks import fetcher
from tests.engine import tasks
from tests.engine.helpers import ended, finish, output_of, running, start, task, until_true, workflow
from tests.engine.test_blobs import BIG, big, content, ref_to
from tests.proxy import Proxy
from tests.servers.s3 import BUCKET, shared

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("s3")]


@pytest.fixture(autouse=True)
def _credentials(monkeypatch):
    tasks.reset()
    for name, value in shared().environment().items():
        monkeypatch.setenv(name, value)


async def test_a_run_keeps_its_large_values_in_s3(tmp_path):
    url = f"s3://{BUCKET}/{tmp_path.name}"
    definition = workflow(
        big("a"),
        big("b", "measure", ["a"], args={"value": "{{ a }}"}),
        task("c", "echo", ["a"], args={"value": "{{ a.size }}"}),
        outputs={"a": "{{ a }}", "c": "{{ c.value }}"},
    )
    async with running(tmp_path, blob_url=url) as engine:
        state = await finish(engine, definition)
        assert output_of(state, "b")["length"] == BIG
        assert await engine.contents.outputs(state) == {"a": content(), "c": BIG}
    assert not (tmp_path / "perdure.db.blobs").exists()
    store = open_store(f"{url}?endpoint={shared().endpoint}&region=us-east-1")
    assert len(await store.get("default", ref_to(content()))) == len(content()["text"]) + 25
    await store.close()


async def test_wrong_keys_are_refused_and_named(tmp_path):
    store = open_store(f"s3://{BUCKET}/x", **shared().options("wrong"))
    with pytest.raises(BlobStoreUnavailable, match="refuses the credentials"):
        await store.put("t", b"content")
    await store.close()


async def test_a_server_that_goes_away_and_comes_back_costs_time(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fetcher, "_LONGEST_PAUSE", 0.2)
    with Proxy(("127.0.0.1", shared().ports["s3.port"])) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{proxy.host}:{proxy.port}")
        async with running(tmp_path, blob_url=f"s3://{BUCKET}/{tmp_path.name}") as engine:
            gate = task("g", "gate", ["a"], args={"name": "g"})
            looks = task("b", "echo", ["g"], args={"value": "{{ a.size }}"})
            await start(engine, workflow(big("a"), gate, looks, big("z", needs=["g"], args={"size": 50_000})))
            await until_true(lambda: len(tasks.seen) == 2, "the gate is reached")
            proxy.refuse()
            proxy.cut()
            tasks.gate_of("g").set()
            other = await finish(engine, workflow(task("x"), task("y", needs=["x"])), "r2")
            assert other.state is RunState.COMPLETED
            await until_true(lambda: len(engine.coordinator.fetcher) == 1, "it waits for the blob")
            await until_true(lambda: caplog.text.count("needs_blob: ") > 1, "it has tried again in vain")
            await until_true(lambda: " cannot be stored" in caplog.text, "a blob could not be written")
            proxy.heal()
            state = await ended(engine, seconds=60)
            assert output_of(state, "b")["value"] == BIG
            assert state.find("z").output_ref == ref_to(content(50_000))


def test_the_command_line_uses_it(tmp_path):
    import os

    environment = os.environ | {"PERDURE_BLOB_URL": f"s3://{BUCKET}/{tmp_path.name}"}
    (tmp_path / "data.json").write_text('{"value": 1}')

    def perdure(*arguments: str) -> str:
        command = [sys.executable, "-m", "perdure", *arguments, "--db", str(tmp_path / "perdure.db")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ref = perdure("blobs", "put", str(tmp_path / "data.json")).strip()
    assert perdure("blobs", "get", ref) == '{"value": 1}'
    assert "12 bytes" in perdure("blobs", "stat", ref)
    assert "1 would be discarded" in perdure("gc", "--dry-run", "--grace-hours", "0")


def test_a_command_that_used_it_does_not_wait_for_its_threads_to_leave_the_interpreter():
    program = (
        "import atexit, sys, perdure.cli, perdure.cli.app, perdure.blob_stores.cloud\n"
        "class Kept:\n    def __del__(self): print('taken apart')\n"
        "kept = Kept()\n"
        "atexit.register(print, 'at exit')\n"
        "def app(**_):\n    print('done')\n    sys.exit(3)\n"
        "perdure.cli.app.app = app\nperdure.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\nat exit\n", "")
