"""A travel agency in a file: every booking and cancellation is a line in bookings.txt."""

import hashlib
from pathlib import Path

import perdure

BOOK = Path("bookings.txt")


def book(what: str, where: str, ctx: perdure.Context, nights: int = 0) -> dict[str, str]:
    if what == "car" and where == "Venice":
        raise perdure.Abort("there are no cars in Venice")  # trying again will not help
    # The key is the same on every attempt, and so is the number: a repeated booking is the same booking.
    number = f"{what}-{hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()[:6]}"
    _write(f"booked    {number}")
    return {"number": number}


def cancel(number: str) -> None:
    _write(f"cancelled {number}")


def _write(line: str) -> None:
    lines = BOOK.read_text().splitlines() if BOOK.exists() else []
    if line not in lines:
        BOOK.write_text("\n".join([*lines, line]) + "\n")
