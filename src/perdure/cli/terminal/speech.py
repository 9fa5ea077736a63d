"""The one way to a terminal: everything a command prints goes through `echo`, and every colour is made by `style`.

A text may hold data from anywhere: a node, an error, a server. Only colours that `style` made are obeyed; it marks them
with a key of this process, which no data can know.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from typing import IO, Any

import click

from perdure.plain_text import clean_json, clean_text

_CSI = "\x1b["
_WORDS = re.compile(r"(?:(?<=: )perdure .*$|`[^`]*`|[^\s`])+\s*|\s+|`")


@cache
def _ours() -> str:
    """The mark that stands for the beginning of a colour until it is printed."""
    from perdure.clock import new_key  # late: `perdure --help` needs none of it

    return f"\ufdd0{new_key(8).hex()}:"


def style(text: str, *, fg: str | None = None, bold: bool | None = None) -> str:
    """A text in colour, for `echo`."""
    return click.style(clean_text(_plain(text)), fg=fg, bold=bold).replace(_CSI, _ours())


def echo(text: str = "", *, file: IO[str] | None = None, err: bool = False, nl: bool = True) -> None:
    """Print a text. Lines stay lines; other control characters are shown escaped."""
    click.echo(_CSI.join(map(clean_text, text.split(_ours()))), file=file, err=err, nl=nl)


def echo_json(data: bytes | str, *, file: IO[str] | None = None, err: bool = False) -> None:
    """Print JSON, with control characters escaped as JSON does it, so that it means the same."""
    click.echo(clean_json(data if isinstance(data, str) else data.decode()), file=file, err=err)


# -- lines that are too long -------------------------------------------------------------------------------------------


def width_of(stream: IO[str] | None) -> int:
    """The columns of the terminal behind a stream; 0 where there is none, so that nothing is broken."""
    if stream is None or stream.closed or not stream.isatty():
        return 0
    return shutil.get_terminal_size().columns


def wrap(text: str, width: int, indent: str = "  ") -> str:
    """A text in lines of at most `width` columns, broken between words. What a reader may copy stays whole: lines that
    are indented, commands in backticks or behind a colon at the end, and words that are longer than a line."""
    if not width:
        return text
    return "\n".join(_wrap_line(line, width, indent) for line in text.split("\n"))


def _wrap_line(line: str, width: int, indent: str) -> str:
    if _length(line) <= width or line.startswith(" "):
        return line
    lines, room = [""], width
    for word in _WORDS.findall(line):
        if lines[-1] and _length(lines[-1]) + _length(word.rstrip()) > room:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            room = width - len(indent)
        lines[-1] += word
    return f"\n{indent}".join(lines).rstrip()


def _length(text: str) -> int:
    return len(_plain(text))


def redraw(text: str = "") -> None:
    """Show progress in the last line of standard error; an empty text removes it."""
    click.echo(f"\r{_CSI}K{clean_text(text)}", nl=False, err=True)


def clean_error(error: click.ClickException, width: int = 0) -> None:
    """Escape control characters in an error that click prints itself: it quotes the command line, or a file. On a
    terminal of this width, break it between words."""
    for name in ("message", "option_name", "param_hint"):
        said: Any = getattr(error, name, None)
        if isinstance(said, str):
            setattr(error, name, clean_text(_plain(said)))
    if width:  # wrapped as a whole: what click would put around the message is in it already
        said = wrap("Error: " + error.format_message(), width).removeprefix("Error:").lstrip()
        setattr(error, "format_message", lambda: said)  # noqa: B010  click has it final


def _plain(text: str) -> str:
    """The text without colours that `style` made."""
    return click.unstyle(text.replace(_ours(), _CSI)) if _ours() in text else text
