"""The command line: click for words, rich for what a terminal shows. Both, and the engine, are imported when needed."""

from __future__ import annotations


def main() -> None:
    from perdure.cli.app import app

    app(prog_name="perdure")
