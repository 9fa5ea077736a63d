import logging
import os
import sys

import pytest

from tests.cli.helpers import Shell


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERDURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = Shell(tmp_path)
    yield found
    found.close()
    logger = logging.getLogger("perdure")  # the command line shows its logs itself
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(logging.NOTSET)
