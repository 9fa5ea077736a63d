import logging
import os
import sys

import pytest

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
