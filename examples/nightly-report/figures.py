"""Sales by region. The north answers at the second attempt, the far side of the moon never."""

from pathlib import Path
from typing import Any

import perdure


def sales(region: str, day: str, ctx: perdure.Context) -> dict[str, Any]:
    if region == "north" and ctx.attempt == 1:
        raise ConnectionError("north does not answer")
    if region == "moon":
        raise perdure.Abort("no line to the moon")
    return {"region": region, "day": day, "amount": 100 * len(region)}


def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if "amount" in row]
    return {"sum": sum(row["amount"] for row in good), "regions": len(good), "missing": len(rows) - len(good)}


def write(day: str, total: dict[str, Any], note: str) -> dict[str, str]:
    file = Path(f"report-{day}.txt")
    file.write_text(f"{day}: {total['sum']} from {total['regions']} regions. {note}".strip() + "\n")
    return {"file": str(file)}
