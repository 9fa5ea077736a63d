"""A real server is killed (-9) while deliveries come in: whatever was answered is durable, and each id has one run in the end."""

from __future__ import annotations

import asyncio
import json
import subprocess
from functools import partial
from pathlib import Path

import httpx2
import pytest

from perdure.clock import system
from perdure.secrets.signatures import read_keys, sign
from tests.engine.helpers import DEADLINE, transform, workflow
from tests.notify.test_processes import launch as start
from tests.ports import free_port
from tests.processes import python_path
from tests.waiting import until_true

SECRET = "a-secret-of-orders-long-enough"
IDS = 60
SENDERS = 6


async def launch(folder: Path, port: int, **environment: str) -> subprocess.Popen[bytes]:
    process = start(
        folder,
        *("perdure", "dev", "--no-browser", "--no-sample", "--port", str(port)),
        **{
            "PYTHONPATH": python_path(),
            "PERDURE_DATABASE_URL": f"sqlite:///{folder / 'perdure.db'}",
            "PERDURE_SECRET_ORDERS": SECRET,
            "PERDURE_HOOK_RATE": "0",
            **environment,
        },
    )

    async def ready() -> bool:
        assert process.poll() is None
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                return (await client.get("/readyz")).status_code == 200
        except httpx2.TransportError:
            return False

    await until_true(ready, "the server answers")
    return process


class Sender:
    """Sends each id until it is taken, and then sometimes once more, as senders do."""

    def __init__(self, port: int, hook: str) -> None:
        self._port = port
        self._hook = hook
        self.told: dict[str, set[tuple[int, str]]] = {}
        """Every number and run that each id was answered with."""
        self.lost = 0

    def has(self, count: int) -> bool:
        return len(self.told) >= count

    async def send(self, names: list[str]) -> None:
        for name in names:
            while name not in self.told:
                await self._try(name)
            if len(name) % 2 == 0:
                await self._try(name)

    async def _try(self, name: str) -> None:
        raw = json.dumps({"day": name}).encode()
        headers = {"Content-Type": "application/json", **sign(read_keys(SECRET), name, int(system.now()), raw)}
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self._port}", timeout=DEADLINE) as client:
                answer = await client.post(self._hook, content=raw, headers=headers)
        except httpx2.TransportError:
            self.lost += 1
            await asyncio.sleep(0.02)  # as a sender waits before it tries again; nothing is awaited by it
            return
        assert answer.status_code in (202, 503), answer.text
        if answer.status_code == 202:
            self.told.setdefault(name, set()).add((answer.json()["number"], answer.json()["run_id"]))


@pytest.mark.slow
async def test_each_id_has_one_run_though_the_server_is_killed_while_deliveries_come(tmp_path):
    port = free_port()
    process = await launch(tmp_path, port)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=DEADLINE) as client:
            report = workflow(transform("a", {"day": "{{ inputs.day }}"}), name="report")
            assert (await client.post("/workflows", json=report)).status_code == 201
            verify = {"scheme": "standard", "secret": "ORDERS"}
            trigger = {"name": "orders", "workflow": "report", "webhook": {"verify": verify}}
            made = await client.post("/triggers", json={**trigger, "inputs": {"day": "{{ item.body.day }}"}})
            assert made.status_code == 201, made.text
        sender = Sender(port, made.json()["hook"])
        names = [f"m{number}" for number in range(IDS)]
        async with asyncio.TaskGroup() as group:
            for place in range(SENDERS):
                group.create_task(sender.send(names[place::SENDERS]))
            for taken in (10, 30):  # twice, in the midst of it
                await until_true(partial(sender.has, taken), f"{taken} are taken")
                process.kill()
                await asyncio.to_thread(process.wait)
                process = await launch(tmp_path, port)
        assert sender.told.keys() == set(names)
        assert all(len(told) == 1 for told in sender.told.values()), sender.told
        assert sender.lost

        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=DEADLINE) as client:

            async def runs() -> list[dict[str, object]] | None:
                found = (await client.get("/runs?tag=trigger=orders&limit=1000")).json()["items"]
                done = len(found) >= IDS and all(one["state"] == "completed" for one in found)
                return found if done else None

            found = await until_true(runs, "every delivery has had its run")
            assert sorted(one["run_id"] for one in found) == sorted(run for ((_, run),) in sender.told.values())
            assert sorted(one["tags"]["trigger_item"] for one in found) == sorted(names)
            shown = (await client.get("/triggers/orders")).json()
            assert (shown["waiting"], shown["parked"]) == (0, 0)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        await asyncio.get_running_loop().shutdown_default_executor()
