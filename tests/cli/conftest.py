import logging
import os
import sys
from pathlib import Path

import pytest

from perdure import functions
from tests.cli.helpers import Shell
from tests.client.helpers import Background


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERDURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = Shell(tmp_path)
    yield found
    found.close()
    for name, (file, _) in list(functions._imported.items()):  # to a later command, files that are gone have changed
        if Path(file).is_relative_to(tmp_path):
            del functions._imported[name]
            functions._met.pop(name, None)
            sys.modules.pop(name, None)
    logger = logging.getLogger("perdure")  # the command line shows its logs itself
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(logging.NOTSET)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Background(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture(params=["database", "server"])
def anywhere(request, shell, server, monkeypatch):
    """The command line on a database of its own, and then on the server of the module."""
    if request.param == "server":
        monkeypatch.setenv("PERDURE_SERVER_URL", server.url)
    return shell
