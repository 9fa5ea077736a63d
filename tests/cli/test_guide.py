"""The guide to the command line is executed: what it shows is what is printed."""

import pytest

from tests.cli.helpers import ROOT
from tests.documents import execute


@pytest.mark.slow
def test_every_command_of_the_guide_prints_what_it_says(tmp_path):
    assert execute(ROOT / "docs" / "guides" / "command-line.md", tmp_path) >= 20
