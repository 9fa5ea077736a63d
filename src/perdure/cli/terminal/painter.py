"""Lines at the bottom of a terminal that change in place. Only what differs is written, in one piece, so nothing
flickers.

Owns the cursor while it paints, and what other code prints meanwhile, which comes out above the lines. Must not know
what the lines say.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from perdure.plain_text import clean_line, clean_text
from perdure.runtime.worker.capture import Tee

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"


class Painter:
    def __init__(self, console: Console) -> None:
        self._console = console
        stream: Any = console.file
        # The inner stream: what other code prints is overheard, the painted lines are not.
        self._stream: IO[str] = stream.inner if isinstance(stream, Tee) else stream
        self._shown: list[str] = []
        self._widths: list[int] = []
        self._printed: list[str] = []
        self._lock = threading.Lock()
        self._hidden = False

    @property
    def size(self) -> tuple[int, int]:
        """The present columns and rows of the terminal."""
        return self._console.size.width, self._console.size.height

    def paint(self, lines: Sequence[Text]) -> None:
        """Show these lines instead of those before. Each is cut to the width of the terminal."""
        width = self.size[0]
        lines = [self._clean(line) for line in lines]
        texts = [self._render(line, width) for line in lines]
        parts = [] if self._hidden else [_HIDE]
        self._hidden = True
        above = self._take_printed()
        if above or self._is_reflowed(width):
            parts += [self._erase(width), above]
            self._shown = []
        elif self._shown:
            parts.append(f"\x1b[{len(self._shown)}A")
        parts += self._differences(texts)
        if len(texts) < len(self._shown):
            parts.append(_REST_OF_SCREEN)
        self._write("".join(parts))
        self._shown, self._widths = texts, [min(line.cell_len, width) for line in lines]

    def leave(self) -> None:
        """Leave the painted lines where they are; the next output comes below them."""
        above = self._take_printed()
        if above:
            shown = self._shown
            self._write(self._erase(self.size[0]) + above + "".join(f"{line}\n" for line in shown))
        if self._hidden:
            self._write(_SHOW)
        self._hidden, self._shown, self._widths = False, [], []

    def _differences(self, texts: list[str]) -> list[str]:
        parts, same = [], 0
        for number, text in enumerate(texts):
            if number < len(self._shown) and self._shown[number] == text:
                same += 1
                continue
            if same:
                parts.append(f"\x1b[{same}B")
                same = 0
            parts.append(f"\r{text}{_REST_OF_LINE}\n")
        if same:
            parts.append(f"\x1b[{same}B\r")
        return parts

    def _is_reflowed(self, width: int) -> bool:
        """Whether the terminal became narrower than a painted line, which then takes more than one row."""
        return any(one > width for one in self._widths)

    def _erase(self, width: int) -> str:
        rows = sum(max(-(-one // width), 1) for one in self._widths) if self._shown else 0
        return (f"\x1b[{rows}A" if rows else "") + "\r" + _REST_OF_SCREEN

    def _clean(self, line: Text) -> Text:
        """The line without control characters: its text is data, and must not move the cursor."""
        if clean_line(line.plain) == line.plain:
            return line
        parts = [(clean_line(one.text), one.style or "") for one in line.render(self._console)]
        return Text.assemble(*parts, no_wrap=True, end="")

    def _render(self, line: Text, width: int) -> str:
        if line.cell_len > width:
            line = line.copy()
            line.truncate(width, overflow="ellipsis")
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True, highlight=False, markup=False)
        return captured.get()

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()

    # -- what others print ---------------------------------------------------------------------------------------------

    def print_above(self, text: str) -> None:
        """Print a text above the painted lines, from any thread; it appears when lines are painted next."""
        with self._lock:
            self._printed.append(clean_text(text))

    def _take_printed(self) -> str:
        with self._lock:
            text = "".join(self._printed)
            self._printed.clear()
        return text if not text or text.endswith("\n") else text + "\n"


class Redirection:
    """While it lasts, what code in this process prints comes out above the painted lines."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._streams: dict[str, Any] = {}

    def __enter__(self) -> None:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and stream.isatty():
                self._streams[name] = _replace(name, lambda inner: _Above(inner, self._painter))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name, above in self._streams.items():
            _replace(name, lambda inner, above=above: above.stream if inner is above else inner)  # type: ignore[misc]
        self._streams.clear()


def _replace(name: str, change: Callable[[Any], Any]) -> Any:
    """Replace a standard stream, below a `Tee` that overhears it."""
    stream = getattr(sys, name)
    if isinstance(stream, Tee):
        stream.inner = change(stream.inner)
        return stream.inner
    setattr(sys, name, change(stream))
    return getattr(sys, name)


class _Above:
    """A stream whose text goes above the painted lines; in all else it is the stream it stands for."""

    def __init__(self, stream: Any, painter: Painter) -> None:
        self.stream = stream
        self._painter = painter

    def write(self, text: str) -> int:
        self._painter.print_above(text)
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        self._painter.print_above("".join(lines))

    def flush(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
