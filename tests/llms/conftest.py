"""Models on this machine; the client of a test is closed by it."""

import pytest

from perdure import egress, llms
from perdure.egress.policy import Policy
from tests.egress.server import PLAIN


@pytest.fixture(autouse=True)
async def _own_client():
    egress.configure(Policy(), ssl_context=PLAIN)  # nothing but what a provider opens
    yield
    await egress.close()
    egress.configure(None)
    llms.configure(None)
