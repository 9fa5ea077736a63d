"""The command line: click reads arguments, rich draws on terminals. Both, and the engine, are imported when needed."""

from __future__ import annotations

import sys


def main() -> None:
    from perdure.cli.app import app

    try:
        app(prog_name="perdure")
    except SystemExit as end:
        if "obstore" in sys.modules and isinstance(end.code, int):
            _end(end.code)
        raise


def _end(code: int) -> None:
    """End the process without tearing the interpreter down: a thread of obstore's runtime that then still hands
    something to Python would abort the process after all is done (PyO3 issue 6084)."""
    import atexit
    import os

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
