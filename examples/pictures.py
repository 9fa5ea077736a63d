"""`python -m examples.pictures`: the pictures in docs/pictures, drawn of real runs. A test says when one is out of date."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from examples.demo import Demo

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def draw_order(file: Path) -> None:
    """The run of `make demo`, with its loop, its retries, its approval and its crash."""
    with tempfile.TemporaryDirectory(prefix="perdure-pictures-") as name:
        demo = Demo(Path(name), asks=False)
        code = demo.show() or demo.perdure(f"graph --run demo --direction down -o {shlex.quote(str(file.resolve()))}")
        if code != 0:
            raise SystemExit(code)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    draw_order(PICTURES / "order.svg")


if __name__ == "__main__":
    main()
