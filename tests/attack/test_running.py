"""One run, or one tenant, does not stop the others: a run that kills its process is found out (S05), and pools are shared (S16)."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from perdure.cli.terminal.remote_follow import StreamSource
from perdure.expressions.at_hand import Lost
from perdure.expressions.python_code import Job
from perdure.runtime.coordinator import children
from perdure.sandbox import Sandbox
from perdure.sandbox.jq import Jq
from perdure.sdk.follower import Follower, JournalSource
from tests.api.helpers import serving
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE, ended, opened, running, start, task, transform, until_true, workflow
from tests.engine.runner import Folder

BOMBS = {
    "a trivial node": workflow(task("a"), transform("boom", "{{ inputs.a ~ 'BOMB' }}", ["a"]), name="bomb"),
    "the config of a task": workflow(task("boom", args={"value": "{{ inputs.a ~ 'BOMB' }}"}), name="bomb"),
    "a condition": workflow(task("a", loop={"condition": "'BOMB' == ''", "max_iterations": 2}), name="bomb"),
}
INNOCENT = workflow(task("fine"), name="fine")


@attack("S05", "a run kills the server at every start")
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.slow
def test_a_run_that_kills_its_process_twice_is_quarantined_at_the_third_start(tmp_path, name):
    folder = Folder(tmp_path)
    folder.add("innocent", INNOCENT)
    folder.add("killer", BOMBS[name], {"a": "x"})
    del folder.spec["runs"]["innocent"]
    for number in (1, 2):
        with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
            assert process.wait(60) == -signal.SIGKILL, (number, folder.errors())
    folder.spec["runs"] = {"innocent": ["fine", None]}
    with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
        assert process.wait(60) == 0, folder.errors()
    asyncio.run(_released_when_a_person_says_so(tmp_path))


async def _released_when_a_person_says_so(path):
    engine = await opened(path)
    try:
        record = await engine.journal.get_run("killer")
        assert "2 times the process died" in str(record.quarantined)
        assert (await engine.journal.get_run("innocent")).row.state == "completed"
        await engine.journal.unquarantine("killer")
    finally:
        await engine.close()
    async with running(path) as engine:  # with enough memory, as it were
        assert (await ended(engine, "killer")).state.value == "completed"
        assert (await engine.journal.get_run("killer")).quarantined is None
    assert not list(path.glob("*handled*"))


@attack("S05", "a run that goes on between two deaths is no culprit")
def test_a_run_that_was_at_hand_at_two_deaths_and_went_on_between_them_is_left_alone(tmp_path):
    from perdure.runtime.coordinator.ownership.handled import Handled

    for seq in (5, 7, 7):
        handled = Handled(tmp_path / "handled")
        handled.enter("r", seq)
        handled._map.close()  # as if the process had died here
        handled.unlock()
    assert [(one.run_id, one.seq, one.times) for one in Handled(tmp_path / "handled").deaths] == [("r", 7, 2)]


@attack("S05", "a request for a run kills the server at every start")
@pytest.mark.slow
def test_a_run_whose_first_decision_kills_the_process_twice_is_refused_the_third_time(tmp_path):
    folder = Folder(tmp_path)
    folder.add("killer", workflow(transform("boom", "{{ inputs.a ~ 'BOMB' }}"), name="bomb"), {"a": "x"})
    for number in (1, 2):
        with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
            assert process.wait(60) == -signal.SIGKILL, (number, folder.errors())
    with folder.process(PERDURE_TEST_BOMB="BOMB") as process:
        assert process.wait(60) == 1, folder.errors()
    assert "run killer does not exist" in folder.errors()  # it was refused, and the process lived to look for it


JOB = Job("def evaluate(output, context): return True", b"[1, {}]")


@attack("S16", "one tenant has all processes for Python conditions")
async def test_looping_conditions_of_one_tenant_do_not_keep_another_waiting(monkeypatch):
    begun, release = [], threading.Event()

    def decide(self, job):
        begun.append(job.timeout_ms)
        if job.timeout_ms == 2:
            release.wait()
        return True

    monkeypatch.setattr(Sandbox, "decide", decide)
    sandbox = Sandbox(processes=4)
    mine, loops = msgspec.structs.replace(JOB, timeout_ms=1), msgspec.structs.replace(JOB, timeout_ms=2)
    assert await sandbox.run(mine, "a")
    others = [asyncio.create_task(sandbox.run(loops, "b")) for _ in range(12)]
    try:
        await until_true(lambda: begun.count(2) == 3, "they loop")
        for _ in range(3):
            assert await asyncio.wait_for(sandbox.run(mine, "a"), DEADLINE)
        assert begun.count(2) == 3  # none of them ended, and none began
    finally:
        release.set()
        assert all(await asyncio.gather(*others))
        await sandbox.close()


@attack("S16", "one tenant has all processes for jq")
def test_looping_jq_programs_of_one_tenant_do_not_keep_another_waiting(monkeypatch):
    begun, release = [], threading.Event()

    def answer(self, body, seconds, call):
        begun.append(seconds)
        if seconds == 2:
            release.wait()
        return b'{"value": 1}'

    monkeypatch.setattr(Jq, "_ask", answer)
    jq = Jq(processes=2)
    assert jq.call(".", 1, 1, tenant="a") == 1
    with ThreadPoolExecutor(8) as threads:
        others = [threads.submit(jq.call, ".", 1, 2, None, "b") for _ in range(6)]
        try:
            mine = [threads.submit(jq.call, ".", 1, 1, None, "a") for _ in range(2)]
            assert [one.result(DEADLINE) for one in mine] == [1, 1]
            assert begun.count(2) <= 1
        finally:
            release.set()
        assert [one.result(DEADLINE) for one in others] == [1] * 6


@attack("S16", "one run of a tenant has all worker slots")
async def test_a_map_that_holds_its_slots_leaves_some_to_another_tenant(tmp_path):
    each = task("each", "wait_for_file", args={"path": str(tmp_path / "go")})
    wide = {
        **each,
        "type": "map",
        "config": {"over": list(range(40)), "max_concurrency": 40, "node": {"type": "task", "config": each["config"]}},
    }
    async with running(tmp_path, concurrency=16) as engine:
        assert engine.worker is not None
        worker = engine.worker
        await start(engine, INNOCENT, "first", tenant="a")
        await ended(engine, "first")
        await start(engine, workflow(wide, name="wide"), "wide", tenant="b")
        await until_true(lambda: worker.free_slots <= 2, "as many slots as it may have are taken")
        for number in range(3):
            await start(engine, INNOCENT, f"next{number}", tenant="a")
            assert (await ended(engine, f"next{number}")).state.value == "completed"
        assert (await engine.journal.get_run("wide")).row.ended_at is None
        (tmp_path / "go").touch()
        assert (await ended(engine, "wide")).state.value == "completed"


@attack("S16", "conditions that take all memory")
def test_a_condition_may_not_have_more_memory_than_the_operator_allows():
    verdict = Sandbox(memory_mb=100).decide(msgspec.structs.replace(JOB, max_memory_mb=101))
    assert verdict == Lost(
        "condition_memory", "max_memory_mb is 101, and this deployment allows 100 (setting sandbox_memory_mb)"
    )


@attack("S27", "one damaged row hides all runs of a tenant")
async def test_a_damaged_row_and_a_journal_that_cannot_be_read_are_said_and_hide_nothing_else(tmp_path):
    async with serving(tmp_path) as server:
        good = await server.start({"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]})
        bad = await server.start({"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]})
        await server.engine.journal.mark_quarantined(bad["run_id"], "IntegrityError: impossible")
        [file] = tmp_path.rglob("*.db")
        with sqlite3.connect(file) as database:
            key = "(SELECT run_key FROM runs WHERE run_id = ?)"
            database.execute("UPDATE runs SET tags = ? WHERE run_id = ?", (b"{x", bad["run_id"]))
            assert database.execute(f"DELETE FROM events WHERE run_key = {key}", (bad["run_id"],)).rowcount
        database.close()
        listed = {one["run_id"]: one for one in (await server.ok("/runs"))["items"]}
        assert listed.keys() == {good["run_id"], bad["run_id"]}
        assert (listed[bad["run_id"]]["tags"], listed[bad["run_id"]]["quarantined"]) == (
            {},
            "IntegrityError: impossible",
        )
        response = await server.get(f"/runs/{bad['run_id']}")
        assert (response.status_code, response.json()["code"]) == (409, "quarantined")
        assert "IntegrityError: impossible" in response.json()["detail"]


DAMAGES = {
    "its events are gone": "DELETE FROM events WHERE run_key = {key}",
    "an event is no JSON": "UPDATE events SET body = X'00FF7B' WHERE run_key = {key} AND seq = 2",
    "an event is of no kind that there is": "UPDATE events SET body = X'7B7D' WHERE run_key = {key} AND seq = 2",
    "its definition is gone": "DELETE FROM definitions",
}


async def damaged(server, folder, how):
    """A run that has ended, is quarantined and cannot be read; and another one."""
    one = {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}
    bad = (await server.start(one))["run_id"]
    good = (await server.start({**one, "name": "other"}))["run_id"]
    await server.engine.journal.mark_quarantined(bad, "IntegrityError: impossible")
    [file] = folder.rglob("*.db")
    with sqlite3.connect(file) as database:
        database.execute("DELETE FROM snapshots")
        key = f"(SELECT run_key FROM runs WHERE run_id = '{bad}')"
        assert database.execute(DAMAGES[how].format(key=key)).rowcount
    database.close()
    server.engine.library._irs.clear()
    return bad, good


@pytest.mark.slow
@attack("S27", "every view of a quarantined run that cannot be read")
@pytest.mark.parametrize("how", DAMAGES)
async def test_every_view_of_a_quarantined_run_that_cannot_be_read_says_why(tmp_path, how):
    async with serving(tmp_path, real=True) as server:
        bad, good = await damaged(server, tmp_path, how)
        document = (await server.client.get("/openapi.json")).json()["paths"]
        paths = [path for path in document if path.startswith("/api/v1/runs/{run_id}")]
        views = [path for path in paths if "get" in document[path]]
        assert len(views) > 10
        for path in views:
            path = path.removeprefix("/api/v1").replace("{run_id}", bad).replace("{node}", "a")
            path += {"state": "?at=2", "diff": f"?other={good}"}.get(path.rpartition("/")[2], "")
            if path.endswith("/stream"):
                async with server.client.stream("GET", f"/api/v1{path}") as response:
                    assert response.status_code == 200
                    assert await asyncio.wait_for(anext(response.aiter_bytes()), DEADLINE)
                continue
            response = await server.get(path)
            assert response.status_code in (200, 409), (path, response.text)
            if response.status_code == 409:
                assert response.json()["code"] == "quarantined"
                assert "IntegrityError: impossible" in response.json()["detail"]
        explained = await server.ok(f"/runs/{bad}/explain")
        assert (explained["state"], explained["quarantined"]) == ("completed", "IntegrityError: impossible")
        for path in (path for path in paths if "post" in document[path]):
            body = (
                {"name": "go", "definition": {"name": "w", "nodes": []}} if path.endswith(("signal", "patch")) else {}
            )
            response = await server.post(path.removeprefix("/api/v1").replace("{run_id}", bad), body)
            assert response.status_code in (409, 422), (path, response.text)
        assert (await server.get("/runs")).is_success


@contextmanager
def ending(command):
    """A command that follows a run may not go on for ever."""

    def late(number, frame):
        raise AssertionError(f"{command} has not ended")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(DEADLINE))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@attack("S27", "every command that shows a quarantined run that cannot be read")
@pytest.mark.parametrize("how", DAMAGES)
def test_commands_say_why_a_quarantined_run_cannot_be_read(tmp_path, how):
    async def prepare():
        async with serving(tmp_path) as server:
            return await damaged(server, tmp_path, how)

    bad, good = asyncio.run(prepare())

    def said(*command):
        with ending(command):
            done = CliRunner().invoke(
                app, list(command), env={"PERDURE_DATABASE_URL": f"sqlite:///{tmp_path}/perdure.db"}
            )
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exc_info)
        return done.output

    for command in (
        ("runs", "show", bad),
        ("runs", "show", bad, "--at", "2"),
        ("runs", "explain", bad),
        ("runs", "diff", bad, good),
        ("runs", "path", bad),
        ("runs", "rerun", bad, "--from", "a"),
        ("runs", "export", bad),
        ("runs", "watch", bad),
        ("runs", "watch", bad, "--json"),
    ):
        assert "IntegrityError: impossible" in " ".join(said(*command).split()), (command, said(*command))
    said("runs", "events", bad)
    assert bad in said("runs", "list")


BAD = "IntegrityError: impossible"
ASKING = {"name": "w", "nodes": [{"id": "a", "type": "human"}]}


def places(server, folder):
    return {"PERDURE_SERVER_URL": server.url}, {"PERDURE_DATABASE_URL": f"sqlite:///{folder}/perdure.db"}


@pytest.mark.slow
@attack("S27", "who follows a quarantined run waits for ever")
@pytest.mark.parametrize("command", ["watch", "watch --json", "logs --follow"])
async def test_who_follows_a_quarantined_run_is_told_why_and_need_not_wait(tmp_path, command):
    async with serving(tmp_path, real=True) as server:
        run_id = (await server.ok("/runs", {"definition": ASKING}))["run_id"]
        await server.engine.journal.mark_quarantined(run_id, BAD)
        for env in places(server, tmp_path):
            call = asyncio.to_thread(CliRunner().invoke, app, ["runs", *command.split(), run_id], env=env)
            done = await asyncio.wait_for(call, DEADLINE)
            assert (done.exit_code, BAD in done.output) == (1, True), done.output


@pytest.mark.slow
@attack("S27", "a run that is quarantined while it is followed")
async def test_who_follows_a_run_is_told_when_it_is_quarantined(tmp_path, monkeypatch):
    following, look = threading.Event(), Follower.look_for_quarantine

    async def tell(self):
        following.set()
        await look(self)

    monkeypatch.setattr(Follower, "look_for_quarantine", tell)
    monkeypatch.setattr(StreamSource, "look_seconds", 0.05)
    monkeypatch.setattr(JournalSource, "look_seconds", 0.05)
    async with serving(tmp_path, real=True) as server:
        run_id = (await server.ok("/runs", {"definition": ASKING}))["run_id"]
        for env in places(server, tmp_path):
            following.clear()
            call = asyncio.to_thread(CliRunner().invoke, app, ["runs", "watch", run_id], env=env)
            watched = asyncio.create_task(call)
            assert await asyncio.to_thread(following.wait, DEADLINE)
            await server.engine.journal.mark_quarantined(run_id, BAD)
            done = await asyncio.wait_for(watched, DEADLINE)
            assert (done.exit_code, BAD in done.output) == (1, True), done.output
            await server.engine.journal.unquarantine(run_id)


@pytest.mark.slow
@attack("S27", "a run is quarantined while `perdure run --server` waits for it")
async def test_who_waits_for_a_run_on_a_server_is_told_when_it_is_quarantined(tmp_path, monkeypatch):
    monkeypatch.setattr(StreamSource, "look_seconds", 0.05)
    file = tmp_path / "asks.json"
    file.write_text(json.dumps(ASKING))
    async with serving(tmp_path, real=True) as server:
        command = ["run", str(file), "--server", server.url]
        waiting = asyncio.create_task(asyncio.to_thread(CliRunner().invoke, app, command))
        run = await until_some(server, "/runs", {})
        await server.engine.journal.mark_quarantined(run["run_id"], BAD)
        done = await asyncio.wait_for(waiting, DEADLINE)
        assert (done.exit_code, BAD in done.output) == (1, True), done.output


@pytest.mark.slow
@attack("S16", "a workflow that starts itself twice")
async def test_a_tree_of_runs_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(children, "MOST_IN_A_TREE", 40)
    calls = [{"id": name, "type": "workflow", "config": {"workflow": "twice"}} for name in ("a", "b")]
    async with serving(tmp_path) as server:
        await server.ok("/workflows", {"name": "twice", "nodes": calls})
        run = await server.ok("/runs", {"workflow": "twice", "wait_seconds": DEADLINE})
        assert run["state"] == "failed"
        assert "limit_exceeded" in str(run["error"])
        page = await server.ok("/runs?limit=1000")
        assert len(page["items"]) <= 41
        other = await server.ok("/runs", {"definition": INNOCENT, "wait_seconds": DEADLINE})
        assert other["state"] == "completed"
