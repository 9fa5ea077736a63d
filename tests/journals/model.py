"""Random appends and what there is to see after them: real journals must agree with the model in memory."""

from hypothesis import strategies as st

from perdure.journal import Commit, Epoch, IdempotencyKey, Journal, Snapshot
from tests.conformance.journal.commits import commit

RUNS = ("a", "b", "c")


@st.composite
def commits(draw) -> Commit:
    """Few ids, so that repeats and rivals both happen; one id names one commit only, as the port demands."""
    run_id = draw(st.sampled_from(RUNS))
    seq = draw(st.integers(0, 4))
    count = draw(st.integers(1 if seq == 0 else 0, 2))
    fields = {
        "state": draw(st.sampled_from(["running", "paused"])),
        "counter": draw(st.integers(0, 3)),
        "ended_at": draw(st.sampled_from([None, 5.0])),
        "timers_set": tuple((name, draw(st.floats(0, 9))) for name in draw(st.sets(st.sampled_from("tu")))),
        "timers_cleared": tuple(draw(st.sets(st.sampled_from("tu")))),
        "notices": tuple((name, b"n") for name in draw(st.sets(st.sampled_from(RUNS)))),
        "notices_consumed": tuple(draw(st.sets(st.integers(1, 4)))),
        "command_answers": tuple((name, b"!") for name in draw(st.sets(st.sampled_from("xy")))),
        "epoch": draw(st.sampled_from([None, Epoch(0, 0), Epoch(1, 1)])),
        "incarnation": draw(st.sampled_from([None, 1])),
    }
    if draw(st.booleans()):
        fields["snapshot"] = Snapshot(seq + count, 1, b"s")
    if seq == 0 and draw(st.booleans()):
        key, body = draw(st.sampled_from("kl")), draw(st.sampled_from("hi"))
        fields["idempotency"] = IdempotencyKey("default", key, body)
    return commit(run_id, seq, count, commit_id=f"{run_id}{seq}{count}{draw(st.integers(0, 1))}", **fields)


appends = st.lists(commits(), min_size=1, max_size=5)
raises = st.sampled_from(["raise_epochs", "raise_incarnation", "put x", "put y", "mark", "unmark"])


async def do(journal: Journal, step: list[Commit] | str) -> object:
    match step:
        case "raise_epochs":
            return await journal.raise_epochs([0])
        case "raise_incarnation":
            return await journal.raise_incarnation()
        case "put x" | "put y":
            return await journal.put_command("a", b"?", command_id=step[-1])
        case "mark" | "unmark":
            if await journal.find_run("a") is not None:
                await (journal.mark_quarantined("a", "why") if step == "mark" else journal.unquarantine("a"))
            return None
        case str():
            raise AssertionError(step)
        case _:
            return await journal.append(step)


async def everything(journal: Journal) -> dict[str, object]:
    seen: dict[str, object] = {}
    for run_id in RUNS:
        seen[run_id] = await journal.find_run(run_id)
        seen[f"{run_id} events"] = await journal.read_events(run_id)
        seen[f"{run_id} snapshot"] = await journal.find_snapshot(run_id)
    seen["active"] = await journal.list_active_runs()
    seen["listed"] = {run.run_id for run in (await journal.list_runs()).items}
    seen["timers"] = sorted((due.due_at, due.run_id, due.timer_id) for due in await journal.list_due_timers(100.0))
    seen["next"] = await journal.next_timer()
    seen["notices"] = await journal.read_notices()
    seen["commands"] = [command.command_id for command in await journal.read_commands()]
    seen["answers"] = [await journal.find_answer(name) for name in "xy"]
    seen["keys"] = [await journal.find_idempotency("default", name) for name in "kl"]
    return seen
