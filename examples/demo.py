"""`make demo`: an order goes through a fan-out, a fan-in, a loop and an approval, and survives `kill -9` on the way.

The parent only starts the process that runs the workflow, sees it die, and starts it again. Nothing else is kept: the
second process finds everything in the SQLite file.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "demo"
RUN = "demo"
COLOUR = sys.stdout.isatty()
ENDS = ("run.completed", "run.failed", "run.cancelled")


def paint(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def say(text: str = "") -> None:
    print(text, flush=True)


# -- the parent --------------------------------------------------------------------------------------------------------


def main() -> int:
    say(paint("Weft demo: one order, from three checks to a parcel.", "1"))
    say("""
              ┌─► stock ───┐                ┌──┐
      order ──┼─► credit ──┼─► offer ──► haggle ◄┘──► manager ──► charge ──► ship
              └─► freight ─┘             (loop)     (a person)  (kill -9)
""")
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        environment = {**os.environ, "DEMO_FOLDER": folder}
        command = [sys.executable, __file__, "--work", folder]
        while (code := subprocess.run(command, env=environment, check=False).returncode) == -9:
            say(
                paint("\n  ✗ kill -9: the process is gone, in the middle of `charge`, after it took the money.", "31;1")
            )
            say(paint("  ↻ Starting it again. All it has is the SQLite file.\n", "33;1"))
        ledger = (Path(folder) / "ledger.txt").read_text().splitlines() if code == 0 else []
    if code == 0:
        say(
            f"\n  The customer was charged {paint(f'{len(ledger)} time', '32;1')}; nothing that had completed ran again."
        )
        say("  Next: read examples/demo/order.yaml, then run it yourself:")
        say("    .venv/bin/weft run examples/demo/order.yaml -i item=lamp -i quantity=3")
    return code


# -- the process that works --------------------------------------------------------------------------------------------


async def work(folder: Path) -> int:
    from weft.engine import Engine
    from weft.model import compile_text
    from weft.runtime.requests import Request

    sys.path.insert(0, str(HERE))
    engine = await Engine.open(f"sqlite:///{folder / 'weft.db'}")
    await engine.hold()
    try:
        first = await engine.journal.find_run(RUN) is None
        if first:
            ir, version = await engine.register(compile_text((HERE / "order.yaml").read_text()))
            inputs = {"item": "lamp", "quantity": 3}
            start = Request(kind="start", run_id=RUN, ir=ir.hash, workflow_version=version, inputs=inputs)
            await engine.request(start)
        record = await engine.journal.get_run(RUN)
        begun = record.row.created_at
        async for event in engine.follow(RUN, after=0 if first else record.seq):
            show(event, begun)
            if event.type == "approval.requested":
                await decide(engine, event)
            if event.type in ENDS:
                return 0 if event.type == "run.completed" else 1
    finally:
        await engine.close()
    return 1


def show(event: Any, begun: float) -> None:
    time = paint(f"{event.at - begun:6.2f} s", "2")
    node = getattr(event, "node", "") or ""
    if getattr(event, "scope", ()):
        node += f" (round {event.scope[0]})"
    match event.type:
        case "node.scheduled" if event.after == "crashed":
            line = paint(f"↻ {node}: its process died; attempt {event.attempt} under the same idempotency key", "33")
        case "node.retrying":
            wait = event.retry_at - event.at
            line = paint(f"↻ {node}: {event.error.message}; again in {wait:.1f} s", "33")
        case "node.completed":
            line = f"{paint('✓', '32')} {node}{summary(event.output)}"
        case "nodes.scheduled":
            line = "▶ " + ", ".join(place.node for place in event.places) + "  (at the same time)"
        case "nodes.skipped" | "node.skipped":
            names = [place.node for place in event.places] if event.type == "nodes.skipped" else [node]
            line = paint("· not needed: " + ", ".join(names), "2")
        case "loop.advanced":
            line = f"⟲ {node}: once more, round {event.iteration}"
        case "approval.requested":
            line = paint(f"? {node}: waits for a person", "36;1")
        case "approval.decided":
            line = f"{paint('✓', '32')} {node}: {event.decision} by {event.by}"
        case "run.completed":
            line = paint(f"✓ the run completed: {event.outputs}", "32;1")
        case "run.failed":
            line = paint(f"✗ the run failed: {event.error.message}", "31;1")
        case _:
            return
    say(f"  {time}  {line}")


def summary(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    shown = {name: value for name, value in output.items() if not isinstance(value, dict | list | None)}
    return paint("  " + ", ".join(f"{name} {value}" for name, value in shown.items() if value not in ("", None)), "2")


async def decide(engine: Any, event: Any) -> None:
    from weft.runtime.requests import Request

    decision = "approve"
    if sys.stdin.isatty() and COLOUR:
        answer = await asyncio.to_thread(input, "            Ship it? [Y/n] ")
        decision = "reject" if answer.strip().lower().startswith("n") else "approve"
    vote = Request(kind="vote", run_id=RUN, approval=event.approval, decision=decision, by="manager")  # type: ignore[arg-type]
    await engine.request(vote)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        sys.exit(asyncio.run(work(Path(sys.argv[2]))))
    sys.exit(main())
