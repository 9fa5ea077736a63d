"""The public surface: these names are written in other people's programs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import perdure

NAMES = (
    "Abort Approval AsyncClient BuildError Client Context Decision Loop NotDone Retry RetryLater Run RunFailed Task Workflow approval arun "
    "branch cel expr first http loop map node run secret switch task transform wait workflow"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_what_programs_use_is_there_and_documented(name):
    assert name in perdure.__all__
    assert name in dir(perdure)
    assert getattr(perdure, name).__doc__


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(perdure, name) is not None


def test_importing_perdure_loads_next_to_nothing():
    code = "import sys, perdure; print([m for m in sys.modules if m.startswith('perdure.')], 'asyncio' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[] False\n"
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'perdure' has no attribute 'flow'"):
        perdure.flow  # noqa: B018
