"""The film of a run over HTTP: folded by its reader, it is the run as it was at every event."""

import random
from itertools import accumulate
from weakref import WeakKeyDictionary

import pytest

from perdure.service.runs import films
from tests.api.test_runs import until_state
from tests.engine import tasks
from tests.engine.helpers import task, transform, workflow

ORDER = workflow(
    transform("a", 1),
    {
        **transform("again", "{{ inputs.n }}", ["a"]),
        "loop": {"loop_back_to": "again", "condition": "loop.iteration < 3", "max_iterations": 5},
    },
    {
        "id": "each",
        "type": "map",
        "dependencies": ["again"],
        "config": {"over": "{{ [1, 2, 3] }}", "node": task("x", args={"value": "{{ item }}"})},
    },
    *(transform(f"m{number}", number, ["each"]) for number in range(20)),
    {**transform("bad", 1, ["m3"]), "type": "task", "config": {"function": "tests.api.test_film:fail_until_open"}},
    transform("end", 1, [*(f"m{number}" for number in range(20)), "bad"]),
    name="order",
)
ORDER["nodes"][-2]["retry"] = {"max_attempts": 1}


def fail_until_open():
    if not tasks.gate_of("open").is_set():
        raise RuntimeError("not yet")
    return {"done": True}


def fold(film, seq):
    """What each node shows after an event, as a screen would find it."""
    shown = {}
    for number, one in enumerate(accumulate(film["seq"])):
        if one <= seq and film["shown"][number]:
            shown[film["nodes"][film["node"][number]]] = number
    return {
        node: (film["states"][film["state"][number]], film["visit"][number], film["attempt"][number])
        for node, number in shown.items()
    }


def join(first, then):
    """Two pages as one."""
    both = {**first, "nodes": then["nodes"], "next_cursor": then["next_cursor"]}
    for name in ("seq", "at"):
        end = sum(first[name])
        more = list(accumulate(then[name]))
        both[name] = first[name] + ([more[0] - end, *then[name][1:]] if more else [])
    for name in ("node", "item", "visit", "attempt", "state", "started", "shown"):
        both[name] = first[name] + then[name]
    both["scope"] = [first["scopes"][one] for one in first["scope"]] + [then["scopes"][one] for one in then["scope"]]
    both["scopes"] = []
    return both


@pytest.mark.slow
async def test_a_film_shows_the_run_as_it_was_at_every_event(server):
    run_id = (await server.start(ORDER, {"n": 1}))["run_id"]
    await until_state(server, run_id, "failed")
    tasks.gate_of("open").set()
    await server.ok(f"/runs/{run_id}/retry", {})
    await until_state(server, run_id, "completed")
    film = await server.ok(f"/runs/{run_id}/film")
    assert (film["next_cursor"], film["last_seq"]) == (None, sum(film["seq"]) + 1)  # the last event is the run's
    states = set()
    for seq in range(1, film["last_seq"] + 1):
        run = await server.ok(f"/runs/{run_id}/state?at={seq}&outputs=false")
        shown = fold(film, seq)
        for name, node in run["nodes"].items():
            assert shown.get(name, ("pending", 0, 0)) == (node["state"], node["visit"], node["attempt"]), (seq, name)
            states.add(node["state"])
    assert states == {"pending", "queued", "waiting", "completed", "failed", "upstream_failed"}
    assert {2, 3} <= {scope[0] for scope in film["scopes"] if scope}
    assert {0, 1, 2} <= set(film["item"])
    fates = film["edges"]
    assert set(fates["fate"]) == {fates["fates"].index("taken")}


async def test_pages_of_a_film_are_the_film(server):
    run_id = (await server.start(workflow(*ORDER["nodes"][:-2], name="order"), {"n": 1}))["run_id"]
    whole = await server.ok(f"/runs/{run_id}/film")
    page = pages = await server.ok(f"/runs/{run_id}/film?limit=7")
    pages = {**page, "scope": [page["scopes"][one] for one in page["scope"]], "scopes": []}
    count = 1
    while page["next_cursor"] is not None:
        page = await server.ok(f"/runs/{run_id}/film?limit=7&cursor={page['next_cursor']}")
        first = {**pages, "scopes": pages["scope"], "scope": range(len(pages["scope"]))}
        pages = join(first, page)
        count += 1
    assert count > 3
    for name in ("nodes", "seq", "at", "node", "item", "visit", "attempt", "state", "started", "shown"):
        assert pages[name] == whole[name], name
    assert pages["scope"] == [whole["scopes"][one] for one in whole["scope"]]
    late = await server.ok(f"/runs/{run_id}/film?after={whole['last_seq'] + 5}")
    assert (late["seq"], late["next_cursor"]) == ([], None)


@pytest.mark.slow
async def test_who_follows_a_run_has_only_its_new_events_folded(server, monkeypatch):
    """Whoever asks, in whatever pages, is answered as if the film were folded from its beginning; what was folded is not read again."""
    run_id = (await server.start(ORDER, {"n": 1}))["run_id"]
    await until_state(server, run_id, "failed")
    journal = server.engine.journal
    read = []
    read_events = journal.read_events

    async def spy(run_id, after, limit):
        read.append(after)
        return await read_events(run_id, after, limit)

    monkeypatch.setattr(journal, "read_events", spy)
    first = await server.ok(f"/runs/{run_id}/film")
    assert read == [0]
    read.clear()
    assert (await server.ok(f"/runs/{run_id}/film?after={first['last_seq']}"))["seq"] == []
    assert read == []
    tasks.gate_of("open").set()
    await server.ok(f"/runs/{run_id}/retry", {})
    await until_state(server, run_id, "completed")
    read.clear()
    then = await server.ok(f"/runs/{run_id}/film?after={first['last_seq']}")
    assert read
    assert min(read) >= first["last_seq"]
    assert then["seq"]
    monkeypatch.setattr(films, "_reels", WeakKeyDictionary())
    whole = await server.ok(f"/runs/{run_id}/film")
    assert fold(join(first, then), whole["last_seq"]) == fold(whole, whole["last_seq"])
    numbers = random.Random(7)
    for _ in range(40):
        after, limit = numbers.randrange(whole["last_seq"]), numbers.choice([1, 2, 7, 50_000])
        kept = await server.ok(f"/runs/{run_id}/film?after={after}&limit={limit}")
        with monkeypatch.context() as anew:
            anew.setattr(films, "_reels", WeakKeyDictionary())
            assert await server.ok(f"/runs/{run_id}/film?after={after}&limit={limit}") == kept


async def test_films_that_are_kept_have_a_sum_and_one_that_is_too_old_is_folded_anew(server, monkeypatch):
    monkeypatch.setattr(films, "_KEPT_ROWS", 10)
    tasks.gate_of("open").set()
    ids = [(await server.start(ORDER, {"n": number}))["run_id"] for number in range(3)]
    for run_id in ids:
        await until_state(server, run_id, "completed")
    whole = [await server.ok(f"/runs/{run_id}/film") for run_id in ids]
    reels = films._reels[server.engine]
    assert len(reels._found) == 3
    assert all(10 <= len(one.film.rows) < 40 for one in reels._found.values())
    assert await server.ok(f"/runs/{ids[0]}/film") == whole[0]
    assert reels._bytes == sum(one.weight for one in reels._found.values())
    monkeypatch.setattr(films, "MOST_BYTES", reels._bytes - 1)
    assert await server.ok(f"/runs/{ids[1]}/film") == whole[1]
    assert len(reels._found) == 2
    monkeypatch.setattr(films, "MOST_BYTES", 100)
    assert await server.ok(f"/runs/{ids[2]}/film") == whole[2]
    assert ids[2] not in {run_id for run_id, _ in reels._found}  # too large to be kept beside others
