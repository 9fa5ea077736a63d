"""A terminal that only remembers: what a person would see after these bytes. Enough of one for what Perdure writes."""

import re

_PARTS = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|([^\x1b])", re.DOTALL)


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [""]  # everything ever shown; the last `rows` of it are the screen
        self.row = self.column = 0
        self.top = 0
        self.cursor_visible = True
        self.erased = 0
        """How often something was taken off the screen before the new text was there: that flickers."""

    def feed(self, text):
        for private, numbers, final, char in _PARTS.findall(text):
            if char:
                self._put(char)
            elif private:
                if numbers == "25":
                    self.cursor_visible = final == "h"
            else:
                self._control(final, int(numbers.split(";")[0] or 0) if numbers else 0)

    def _put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._down()
            self.column = 0  # the terminal driver adds the return
        else:
            if self.column >= self.columns:
                self._down()
                self.column = 0
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    def _down(self):
        self.row += 1
        while self.row >= len(self.lines):
            self.lines.append("")
        self.top = max(self.top, self.row - self.rows + 1)

    def _control(self, final, number):
        if final == "A":
            self.row = max(self.row - (number or 1), self.top)
        elif final == "B":
            self.row = min(self.row + (number or 1), max(self.top + self.rows - 1, 0))
            while self.row >= len(self.lines):
                self.lines.append("")
        elif final == "K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif final == "J":
            self.erased += any(line.strip() for line in self.lines[self.row + 1 :])
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        else:
            assert final == "m", f"unknown control {final}"

    @property
    def text(self):
        """All that is on the screen or has scrolled away from it."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")

    @property
    def shown(self):
        return [line.rstrip() for line in self.lines[self.top : self.top + self.rows]]
