"""A script as a user would write it, for tests that kill it: `python script.py FOLDER`. Run again, it goes on."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import perdure

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()


def note(line: str) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(line + "\n")


def effect(name: str) -> str:
    """Something that should happen once. The process is killed right after the effect if the test says so."""
    note(name)
    if (FOLDER / "die").exists() and (FOLDER / "die").read_text() == f"after {name}":
        (FOLDER / "die").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return name.upper()


def die_before(name: str) -> None:
    """Killed between two steps: the one before has returned."""
    if (FOLDER / "die").exists() and (FOLDER / "die").read_text() == f"before {name}":
        (FOLDER / "die").unlink()
        os.kill(os.getpid(), signal.SIGKILL)


@perdure.task(max_crashes=100)
def order(ctx: perdure.Context, item: str) -> list[str]:
    done = []
    for name in ("reserve", "charge", "ship"):
        die_before(name)
        done.append(ctx.step(name, effect, f"{name} {item}"))
    return done


@perdure.task(max_crashes=100)
async def order_async(ctx: perdure.Context, item: str) -> list[str]:
    done = []
    for name in ("reserve", "charge", "ship"):
        die_before(name)
        done.append(await ctx.step(name, effect, f"{name} {item}"))
    return done


@perdure.task
def patient(ctx: perdure.Context, item: str) -> str:
    ctx.step("begin", effect, "begin")
    while not (FOLDER / "go").exists():
        threading.Event().wait(0.01)
    return item


@perdure.task(isolation="process", max_crashes=100)
def apart(item: str) -> list[str]:
    return [__name__, item]


@perdure.task
def finish(done: list[str], place: list[str]) -> str:
    return " ".join([*done, *place])


@perdure.workflow
def shop(item: str):
    return finish(order(item), apart(item))


if __name__ == "__main__":
    what: Any = {"shop": shop, "order": order, "order_async": order_async, "patient": patient}[sys.argv[2]]
    run = perdure.run(what, item="book", run_id="order-1", db=FOLDER / "perdure.db")
    print(run.state, run.result())
