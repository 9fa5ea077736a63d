"""isolation: process. A handler in a process of its own can do what it likes, except harm the worker."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import functions
from tests.attack.marks import attack
from tests.doubles.fake_clock import FakeClock
from tests.runtime.harness import call, make_task, wait_until, working

pytestmark = pytest.mark.slow

HERE = "tests.runtime.functions"


def isolated(name: str, **fields):
    return call(f"{HERE}:{name}", isolation="process", **fields)


def is_alive(pid: int) -> bool:
    """A zombie that nobody has collected yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


async def test_the_function_runs_in_another_process_and_is_given_its_arguments():
    async with working() as h:
        assert (await h.do(isolated("add", args={"a": 2, "b": 5}))).output == 7
        assert (await h.do(isolated("add_async", node="m", args={"a": 2}))).output == 3
        assert (await h.do(isolated("where", node="o"))).output["pid"] != os.getpid()


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_function_is_told_its_attempt_as_people_count_it(isolation):
    """One attempt before it failed and one was handed back: for people, and for the function, this is the second."""
    async with working() as h:
        told = await h.do(call(f"{HERE}:about", isolation=isolation, attempt=3, tries=2))
        assert told.output == ["r1", 2, "r1/n/do/x"]
        assert told.attempt == 3, "the fence is untouched"


@attack("S21", "secrets of the environment that no node named")
async def test_a_process_has_no_secrets_and_keys_of_the_worker_in_its_environment(monkeypatch):
    for name in ("SECRET_TOKEN", "SIGNING_KEYS", "ENCRYPTION_KEYS", "JWT_SECRET", "API_KEY", "DATABASE_URL"):
        monkeypatch.setenv(f"PERDURE_{name}", "x")
    async with working() as h:
        found = (await h.do(isolated("list_environment"))).output
    assert [name for name in found if name.startswith("PERDURE_")] == ["PERDURE_API_KEY", "PERDURE_DATABASE_URL"]
    assert "PATH" in found


async def test_a_process_is_used_again():
    async with working() as h:
        pids = {(await h.do(isolated("where", node=f"n{number}"))).output["pid"] for number in range(3)}
    assert len(pids) == 1
    await wait_until(lambda: not is_alive(pids.pop()), "the process ends with the worker")


async def test_there_are_as_many_processes_as_work_at_once_and_no_more():
    async with working(concurrency=2) as h:
        await h.publish(*[isolated("where", node=f"n{number}") for number in range(6)])
        pids = {(await h.result()).output["pid"] for _ in range(6)}
        assert len(pids) <= 2
        assert h.worker._processes.count <= 2


async def test_a_failure_there_is_a_failure_here():
    async with working() as h:
        failed = await h.do(isolated("fail", args={"text": "no such city"}))
        assert (failed.code, failed.message) == ("error", "ValueError: no such city")
        assert "in fail" in failed.details
        aborted = await h.do(isolated("abort", node="a"))
        assert (aborted.code, aborted.message, aborted.retryable) == ("aborted", "never", False)
        assert (await h.do(isolated("exit_politely", node="b"))).message == "SystemExit: 4"
        assert (await h.do(isolated("stop_iterating", node="c"))).code == "error"
        assert (await h.do(isolated("bad_output", node="d"))).code == "bad_output"
        assert (await h.do(isolated("nowhere", node="e"))).code == "function_not_found"
        assert h.worker._processes.count == 1


@pytest.mark.parametrize(
    ("name", "args", "words"), [("leave", {"code": 7}, "exit code 7"), ("segfault", {}, "signal 11 (SIGSEGV)")]
)
async def test_a_process_that_dies_fails_its_attempt_and_nothing_else(name, args, words):
    async with working() as h:
        result = await h.do(isolated(name, args=args))
        assert (result.kind, result.code, result.retryable) == ("failed", "process_died", True)
        assert words in result.message
        assert (await h.do(isolated("add", node="m", args={"a": 1}))).output == 2
        assert h.worker._processes.count == 1


@pytest.mark.parametrize("reason", ["timeout", "cancelled"])
async def test_a_process_is_killed_with_what_it_started(reason, tmp_path):
    clock, began = FakeClock(), tmp_path / "began"
    async with working(clock=clock) as h:
        task = isolated("hang", args={"path": str(began)}, timeout_seconds=5.0)
        await h.publish(task)
        await wait_until(lambda: began.exists() and " " in began.read_text(), "the function has begun")
        pids = [int(pid) for pid in began.read_text().split()]
        if reason == "timeout":
            await clock.advance(5.1)
        else:
            await h.transport.stop([task.task_id])
        result = await h.result()
        assert result.code == reason
        await wait_until(lambda: not any(map(is_alive, pids)), "both processes are dead")
        assert (h.worker.free_slots, h.worker._processes.count) == (4, 0)


async def test_printing_there_does_not_disturb_the_wire(capfd):
    async with working() as h:
        assert (await h.do(isolated("print_something"))).output == "printed"
    assert "hello from a function" in capfd.readouterr().out


async def test_a_registered_name_is_known_there_too():
    functions.resolve(f"{HERE}:add")
    async with working() as h:
        assert (await h.do(call("tests.named", args={"x": 4}, isolation="process"))).output == -4


async def test_a_handler_of_another_type_runs_there_too():
    async with working(plain_handler) as h:
        result = await h.do(make_task(isolation="process", config={"x": 1}))
    assert result.output["config"] == {"x": 1}
    assert result.output["pid"] != os.getpid()


async def plain_handler(config, ctx):
    await asyncio.sleep(0)
    return {"config": config, "pid": os.getpid()}


async def test_a_large_output_comes_through():
    async with working() as h:
        result = await h.do(call("builtins:str.zfill", isolation="process"))
        assert result.code == "bad_arguments"
        result = await h.do(isolated("large", node="m", args={"size": 3_000_000}))
    assert len(result.output) == 3_000_000


SCRIPT = """
import asyncio, sys
from perdure.clock import system
from perdure.nodes import builtin
from perdure.runtime.worker.worker import Worker
from perdure.transport import Task
from perdure.transports.local import LocalTransport

def double(x):
    return x * 2

def hang(path):
    import os, threading
    open(path, "w").write(str(os.getpid()) + " ")
    threading.Event().wait()

async def main():
    transport = LocalTransport()
    worker = Worker(transport, builtin(), system, worker_id="w1", concurrency=1)
    config = {"function": f"__main__:{sys.argv[1]}", "args": {sys.argv[2]: sys.argv[3]}}
    await transport.publish(
        [Task(run_id="r1", node="n", type="task", idempotency_key="k", config=config, isolation="process")]
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        [delivery] = await transport.receive(1)
        print(delivery.result.output or delivery.result.message)
        await worker.drain()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


async def test_a_function_of_the_script_itself_is_found_there(script):
    command = [sys.executable, str(script), "double", "x", "ab"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("abab\n", "")


async def test_a_process_whose_worker_was_killed_ends_by_itself(script, tmp_path):
    began = tmp_path / "began"
    worker = await asyncio.create_subprocess_exec(sys.executable, str(script), "hang", "path", str(began))
    await wait_until(lambda: began.exists() and began.read_text().endswith(" "), "the function has begun")
    worker.kill()
    await worker.wait()
    await wait_until(lambda: not is_alive(int(began.read_text())), "its isolated process is gone")
