"""Each test may call its own receiver on the loopback interface, has the secret of it, and leaves no task behind."""

import pytest

from perdure import egress
from perdure.egress.policy import Policy
from tests.engine.conftest import _no_task_left
from tests.notify.helpers import SECRET

__all__ = ["_no_task_left"]


@pytest.fixture(autouse=True)
async def _may_call(monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)
    egress.configure(Policy.parse("127.0.0.1:*"))
    yield
    await egress.close()
    egress.configure(None)
