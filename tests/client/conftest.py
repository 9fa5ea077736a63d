import pytest

from tests.client.helpers import Background, Clients


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Background(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture(params=["Client", "AsyncClient"])
def clients(request):
    made = Clients(request.param)
    yield made
    made.close()


@pytest.fixture
def client(clients, server):
    return clients(server.url)
