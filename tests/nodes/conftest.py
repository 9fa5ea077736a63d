"""Node types in the real engine; local servers may be called, and nothing is left behind."""

import pytest

from perdure import egress
from perdure.egress.policy import Policy
from tests.egress.server import PLAIN
from tests.engine.conftest import _no_task_left  # noqa: F401


@pytest.fixture(autouse=True)
def _local_calls():
    egress.configure(Policy.parse("127.0.0.1:*"), ssl_context=PLAIN)
    yield
    assert not egress._clients, "the worker left its client open"
    egress.configure(None)
