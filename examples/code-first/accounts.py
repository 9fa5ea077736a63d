"""Move accounts to a new bank, one after the other. No graph: one function, whose steps are durable."""

import os
import signal
import sys
from pathlib import Path

import perdure

OLD_BANK = {"ada": 120, "ben": 75, "chloe": 310, "dan": 8}
NEW_BANK = Path("new-bank.txt")


def export(name: str) -> dict[str, object]:
    print(f"export {name}", flush=True)
    return {"name": name, "balance": OLD_BANK[name]}


def open_account(account: dict[str, object], key: str) -> int:
    """The new bank keeps the key with the account, and opens none twice for the same one."""
    lines = NEW_BANK.read_text().splitlines() if NEW_BANK.exists() else []
    known = [line.split()[0] for line in lines]
    if key not in known:
        print(f"open   {account['name']}", flush=True)
        lines.append(f"{key} {account['name']} {account['balance']}")
        NEW_BANK.write_text("\n".join(lines) + "\n")
    if account["name"] == "chloe" and "--crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)  # the account is open, and nobody was told
    return [*known, key].index(key) + 1


@perdure.task(retry=perdure.Retry(max_attempts=3))
def move(ctx: perdure.Context, names: list[str]) -> dict[str, int]:
    numbers = {}
    for name in names:
        account = ctx.step(f"export {name}", export, name)
        numbers[name] = ctx.step(f"open {name}", open_account, account, ctx.key(name))
    return numbers


if __name__ == "__main__":
    run = perdure.run(move, names=list(OLD_BANK), run_id="move-1")
    print(run.state, run.result())
