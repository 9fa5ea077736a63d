"""Real processes: the receiver of the guide decides, a process that is killed is no loss, and of two coordinators one sends."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from perdure.api import Options
from tests.api.helpers import served
from tests.distributed.helpers import deployed, eventually
from tests.documents import blocks
from tests.engine.helpers import ended, opened, running, start, until_true
from tests.notify.helpers import OK, SECRET, asking, message, notification, notifier, serving, until_settled
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "approvals.md"
HOUR = 3600.0


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


CHILD = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
from tests.processes import die_with_parent
die_with_parent()
sys.argv = sys.argv[2:]
run = runpy.run_path if sys.argv[0].endswith(".py") else runpy.run_module
run(sys.argv[0], run_name="__main__")
"""


def launch(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(ROOT), *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("amount", "outputs"), [(300, {"refuse": None}), (900, {"refuse": "refused: by rule"})])
async def test_the_receiver_of_the_guide_is_told_and_decides(tmp_path, monkeypatch, amount, outputs):
    files = {name: content for _, name, content in blocks(GUIDE.read_text(encoding="utf-8")) if name}
    (tmp_path / "receiver.py").write_text(files["receiver.py"])
    definition, port = yaml.safe_load(files["purchase.yaml"]), free_port()
    definition["nodes"][0]["config"]["notify"]["url"] = f"http://127.0.0.1:{port}/approvals"
    monkeypatch.setenv("PERDURE_SECRET_DESK", SECRET)
    receiver = launch(tmp_path, "receiver.py", DESK=SECRET, PORT=str(port))
    try:
        await until_true(lambda: answers(port), "the receiver listens")
        engine = await opened(tmp_path)
        async with served(engine, options=Options()) as server:
            engine._public_url = server.url
            await engine.hold()
            await start(engine, definition, inputs={"amount": amount})
            state = await ended(engine)
            assert state.outputs == outputs
            approval = await engine.journal.get_approval("r1:approve:1")
            assert b'"webhook:127.0.0.1":' in approval.body
            await until_settled(engine.journal, "delivered", "r1:approve:1")
        await engine.close(0.5)
    finally:
        receiver.kill()
        receiver.wait()


@pytest.mark.slow
async def test_a_process_that_is_killed_while_it_tells_is_no_loss(tmp_path):
    killed: list[int] = []

    def answer(seen):
        if not killed:
            os.kill(process.pid, signal.SIGKILL)  # it has sent, and never hears an answer
            killed.append(process.pid)
        return OK

    async with serving(answer) as receiver:
        (tmp_path / "asking.yaml").write_text(yaml.safe_dump(asking(receiver.port)))
        process = launch(
            tmp_path,
            *("perdure", "run", "asking.yaml", "--run-id", "r1"),
            PERDURE_SECRET_HOOK=SECRET,
            PERDURE_EGRESS_ALLOW="127.0.0.1:*",
            PERDURE_DATABASE_URL=f"sqlite:///{tmp_path / 'perdure.db'}",
        )
        try:
            assert await asyncio.to_thread(process.wait, 60) == -signal.SIGKILL
        finally:
            process.kill()
            process.wait()
        async with running(tmp_path) as engine:
            left = await notification(engine.journal)
            assert (left.state, left.attempts) == ("waiting", 1)
            assert (await engine.journal.get_approval("r1:ask:1")).state == "pending"
            await notifier(engine, HOUR).deliver()
            assert (await notification(engine.journal)).state == "delivered"
        first, second = receiver.seen
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert message(first) == message(second, ahead=HOUR)
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.slow
async def test_of_several_coordinators_one_tells_and_another_goes_on_when_it_is_gone(
    postgres_servers, redis_server, tmp_path
):
    async with (
        serving(lambda seen: OK) as receiver,
        deployed(postgres_servers.get("wheel"), redis_server, tmp_path) as deployment,
    ):
        engines = [await deployment.coordinator() for _ in range(2)]
        follower = await deployment.open()
        await follower.connect()
        for number in range(10):
            await start(follower, asking(receiver.port), run_id=f"r{number}")

        async def delivered():
            found = [await notification(follower.journal, f"r{number}:ask:1") for number in range(10)]
            return all(one is not None and one.state == "delivered" for one in found)

        await eventually(delivered)
        assert sorted(message(seen)["data"]["run_id"] for seen in receiver.seen) == [f"r{n}" for n in range(10)]
        await deployment.close(engines[0])
        await start(follower, asking(receiver.port), run_id="later")

        async def told():
            found = await notification(follower.journal, "later:ask:1")
            return found is not None and found.state == "delivered"

        await eventually(told)
        assert len(receiver.seen) == 11
