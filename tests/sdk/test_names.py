"""The public surface: these names are written in other people's programs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import weft

NAMES = (
    "Abort Approval AsyncClient BuildError Client Context Decision Loop NotDone Retry RetryLater Run RunFailed Task Workflow approval arun "
    "branch cel expr first http loop map node run secret switch task transform wait workflow"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_what_programs_use_is_there_and_documented(name):
    assert name in weft.__all__
    assert name in dir(weft)
    assert getattr(weft, name).__doc__


@pytest.mark.parametrize("name", weft.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(weft, name) is not None


def test_importing_weft_loads_next_to_nothing():
    code = "import sys, weft; print([m for m in sys.modules if m.startswith('weft.')], 'asyncio' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[] False\n"
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'flow'"):
        weft.flow  # noqa: B018
