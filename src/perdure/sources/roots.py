"""Which files of this machine sources may read: those under the roots, once every link on the way is followed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from perdure.sources import SourceRefused


def resolve_place(path: str, roots: Sequence[str]) -> Path:
    """The real path. Raises SourceRefused when it is under none of the roots."""
    real = Path(os.path.realpath(path))
    allowed = [Path(os.path.realpath(root)) for root in roots if root]
    if not any(real == root or root in real.parents for root in allowed):
        raise SourceRefused("the path is under none of the folder_roots; add one of its parents there")
    return real
