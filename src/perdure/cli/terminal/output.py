"""The output of commands: JSON, tables, times. Colour and boxes only where there is a terminal."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.cli.terminal.speech import echo, echo_json, style, width_of, wrap
from perdure.cli.terminal.stdout import results
from perdure.clock import system
from perdure.plain_text import clean_line

if TYPE_CHECKING:
    from rich.console import Console

Cell = str | int | None
MAX_LINES = 100
MAX_PRETTY = 1_000_000
"""The most bytes of JSON that are made pretty, which takes many times the memory."""
MAX_SHOWN = 1_000
"""The most characters of a line that are shown on a terminal."""
MAX_ROOM = 10_000
"""The most characters of all lines together."""
_ENOUGH = 16
"""The width below which a column is not cut while another one is wider."""
_LATEST = 253_402_300_799.0
"""The end of the year 9999, the last that Python's calendar has. A later time is shown as this one."""

COLOURS: dict[str, str] = {
    "running": "cyan",
    "queued": "bright_black",
    "held": "yellow",
    "pending": "yellow",
    "waiting": "yellow",
    "retrying": "yellow",
    "paused": "yellow",
    "parked": "magenta",
    "failing": "red",
    "cancelling": "red",
    "compensating": "magenta",
    "completed": "green",
    "resolved": "green",
    "failed": "red",
    "upstream_failed": "red",
    "cancelled": "red",
    "quarantined": "red",
    "rolled_back": "magenta",
    "compensated": "magenta",
    "skipped": "bright_black",
}


def on_terminal() -> bool:
    """Whether results go to a terminal, and so to a person."""
    return results().isatty()


def make_console(*, stderr: bool = False) -> Console:
    """A console of rich, with or without colour as the command line says."""
    from rich.console import Console

    context = click.get_current_context(silent=True)
    plain = context is not None and context.find_root().color is False
    return Console(stderr=stderr, file=None if stderr else results(), no_color=plain or None, highlight=False)


def paint(state: str) -> str:
    """A state in its colour; click takes colours off where there is no terminal."""
    return style(state, fg=COLOURS.get(state))


def print_json(value: Any) -> None:
    data = msgspec.json.encode(value)
    pretty = on_terminal() and len(data) <= MAX_PRETTY
    echo_json(msgspec.json.format(data, indent=2) if pretty else data, file=results())


def print_pretty(value: Any) -> None:
    """Print a value for people, as JSON that machines can read; a very long one is cut on a terminal."""
    data = msgspec.json.encode(value)
    if not on_terminal():
        pretty = len(data) <= MAX_PRETTY
        echo_json(msgspec.json.format(data, indent=2) if pretty else data, file=results())
        return
    if len(data) > MAX_PRETTY:
        lines = [data[: 4 * (MAX_SHOWN + 1)].decode(errors="ignore")]  # a character has four bytes at most
    else:
        lines = msgspec.json.format(data, indent=2).decode().split("\n")
    shown, room = [], MAX_ROOM
    for line in lines[:MAX_LINES]:
        if room <= 0:
            break
        shown.append(line if len(line) <= MAX_SHOWN else line[:MAX_SHOWN] + "…")
        room -= len(shown[-1])
    echo_json("\n".join(shown), file=results())
    if len(shown) < len(lines):
        echo(f"… {len(lines) - len(shown):,} more lines; --json has everything", err=True)
    elif any(len(line) > MAX_SHOWN for line in lines):
        echo(f"… {len(data):,} bytes in all; --json has everything", err=True)


def print_page(items: Sequence[Any], next_cursor: str | None) -> None:
    print_json({"items": items, "next_cursor": next_cursor})


def compact(value: Any, limit: int = 100) -> str:
    """A value in one line, shortened if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shorten(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# -- time --------------------------------------------------------------------------------------------------------------


def since(seconds: float) -> str:
    """A time in a table: how long ago for a person, the time itself for a file."""
    return ago(seconds) if on_terminal() else moment(seconds)


def soon(seconds: float) -> str:
    """A time to come, in the same way."""
    return until(seconds) if on_terminal() else moment(seconds)


def moment(seconds: float | None) -> str:
    """A time in UTC, as servers, `explain` and the API show it, so that two people speak of the same."""
    if seconds is None:
        return ""
    return _at(seconds).strftime("%Y-%m-%d %H:%M:%S UTC")


def hour(seconds: float) -> str:
    """A time of day in UTC, where `say_zone` has named the zone."""
    return _at(seconds).strftime("%H:%M:%S")


def instant(seconds: float) -> str:
    """A time among many that are close to each other, with milliseconds; on a terminal, `say_zone` names the zone."""
    text = _at(seconds).strftime("%H:%M:%S.%f" if on_terminal() else "%Y-%m-%d %H:%M:%S.%f")[:-3]
    return text if on_terminal() else f"{text} UTC"


def say_zone() -> None:
    """Say once, above times without a zone, that they are UTC, if the local clock shows something else."""
    here = _at(system.now()).astimezone()
    if here.utcoffset():
        echo(f"Times are UTC; here it is {here:%H:%M} ({here:%Z}).", err=True)


def _at(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(min(max(seconds, 0.0), _LATEST), datetime.UTC)


def count(number: int, one: str) -> str:
    """`1 item`, `2 items`"""
    return f"{number:,} {one}{'s' * (number != 1)}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    seconds = max(seconds, 0.0)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} days"


def brief(seconds: float) -> str:
    """A duration in a table: on a terminal, where columns are dear, without the seconds of many minutes."""
    many = on_terminal() and 599.5 <= seconds < 3599.5
    return f"{round(seconds) // 60} min" if many else duration(seconds)


def ago(seconds: float) -> str:
    passed = max(system.now() - seconds, 0.0)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return "just now"


def until(seconds: float) -> str:
    left = seconds - system.now()
    return "now" if left <= 0 else f"in {duration(left)}"


# -- tables ------------------------------------------------------------------------------------------------------------


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, flexible: str = "") -> None:
    """Print a table. On a terminal it is made to fit, the column named `flexible` first; elsewhere nothing is cut."""
    texts = [["" if cell is None else clean_line(str(cell)) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(columns)]
    if on_terminal():
        _print_rich(columns, texts, widths, columns.index(flexible) if flexible else len(columns) - 1)
        return
    for row in [[name.upper() for name in columns], *texts]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        echo("  ".join(cells).rstrip(), file=results())


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: list[int], flexible: int) -> None:
    from rich.text import Text

    console = make_console()
    said = [any(row[number] for row in rows) for number in range(len(columns))]
    rest = sorted(range(len(columns)), key=lambda n: (columns[n] != "state", n), reverse=True)
    below = _fit(widths, [flexible, *rest], console.width, said)
    shown = [number for number, width in enumerate(widths) if width]

    def put(cells: Sequence[str], style: str = "") -> None:
        line = Text()
        for number in shown:
            cell = Text(cells[number], style=style or COLOURS.get(cells[number], ""))
            if number:  # the first one names the row: a reader who copies it needs all of it
                cell.truncate(widths[number], overflow="ellipsis", pad=True)
            else:
                cell.pad_right(widths[0] - cell.cell_len)
            line.append_text(cell).append("  ")
        line.rstrip()
        console.print(line, soft_wrap=True)

    put(columns, "bold bright_black")
    for row in rows:
        put(row)
        short = "  ".join(f"{columns[n]}: {row[n]}" for n in below if n != flexible and row[n])
        long = f"{columns[flexible]}: {row[flexible]}" if flexible in below and row[flexible] else ""
        for one in filter(None, (short, long)):
            under = Text(f"  {one}")
            under.truncate(console.width, overflow="ellipsis")
            console.print(under, soft_wrap=True)


def _fit(widths: list[int], order: Sequence[int], width: int, said: Sequence[bool]) -> list[int]:
    """Make columns fit, and give those that get the width 0 because they are printed below their row. First those go
    in which nothing is said, then the widest get narrower, then columns go below in this order. The first column, which
    names the row, stays whole."""
    over = sum(widths) + 2 * (len(widths) - 1) - width
    for number in range(1, len(widths)) if over > 0 else ():
        if not said[number]:
            over -= widths[number] + 2
            widths[number] = 0
    while over > 0 and (wide := [n for n in range(1, len(widths)) if widths[n] > _ENOUGH]):
        widest = max(wide, key=widths.__getitem__)
        widths[widest] -= 1
        over -= 1
    below = []
    for number in order:
        if over > 0 and number and widths[number]:
            over -= widths[number] + 2
            widths[number] = 0
            below.append(number)
    return sorted(below)


def print_prose(text: str) -> None:
    """Print sentences, broken between words on a terminal."""
    echo(wrap(text, width_of(results())), file=results())


def print_fields(fields: Mapping[str, str]) -> None:
    width = max(len(name) for name, value in fields.items() if value)
    room = width_of(results())
    for name, value in fields.items():
        if value:  # further lines are indented below the first, so that none looks like a field
            lines = wrap(value, room and max(room - width - 2, 20), "").replace("\n", "\n" + " " * (width + 2))
            echo(f"{style(name.ljust(width), fg='bright_black')}  {lines}", file=results())
