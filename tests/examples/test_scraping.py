"""The scraping example: what is durable is not fetched again, and limits are limits."""

import importlib.util
import json
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer

import pytest

from tests.examples.helpers import EXAMPLES, copy, environment
from tests.forking import Forked
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.slow


class Open:
    """The shop of the example, in this process; what stands in its class is made anew."""

    def __init__(self):
        file = EXAMPLES / "scraping" / "server.py"
        spec = importlib.util.spec_from_file_location("scraping_server", file)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.shop = self.module.Shop
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.shop)
        self.place = f"127.0.0.1:{self.server.server_port}"

    @property
    def visits(self):
        return {path: count for path, count in self.shop.visits.items() if path != "/pages.json"}


@pytest.fixture
def shop():
    found = Open()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def perdure_run(shop, folder):
    inputs = ["-i", f"shop=http://{shop.place}"]
    words = ["run", "prices.yaml", "--run-id", "today", *inputs, "--json"]
    with (folder / "printed").open("w") as printed:
        return Forked(words, cwd=folder, env=environment(PERDURE_EGRESS_ALLOW=shop.place), stdout=printed.fileno())


def finish(process, folder):
    return process.wait(PATIENCE_SECONDS), json.loads((folder / "printed").read_text())


def test_at_most_eight_pages_are_fetched_at_once(shop, tmp_path):
    folder = copy("scraping", tmp_path)
    code, run = finish(perdure_run(shop, folder), folder)
    assert code == 0
    assert run["outputs"]["rows"] == 58
    assert 1 < shop.shop.most <= 8
    assert sum(shop.visits.values()) == 60 + 7


def test_a_killed_scraper_goes_on_and_fetches_only_what_is_missing(shop, tmp_path):
    folder = copy("scraping", tmp_path)
    process = perdure_run(shop, folder)
    wait_until(lambda: len(shop.visits) >= 30, "half of the pages")
    process.kill()
    process.wait(PATIENCE_SECONDS)
    wait_until(lambda: shop.shop.inside == 0, "the last visitors to leave")
    before = sum(shop.visits.values())
    assert len(shop.visits) < 60
    code, run = finish(perdure_run(shop, folder), folder)
    assert code == 0
    assert run["outputs"]["rows"] == 58
    # Those under way when it died are fetched twice; nothing else is.
    assert sum(shop.visits.values()) <= 60 + 7 + 8
    assert sum(shop.visits.values()) - before < 60


def test_too_many_pages_that_are_gone_fail_the_run(shop, tmp_path):
    shop.module.GONE = {1, 2, 3, 4}
    folder = copy("scraping", tmp_path)
    code, run = finish(perdure_run(shop, folder), folder)
    assert code == 1
    assert run["error"]["code"] == "items_failed"


@pytest.mark.parametrize("name", ["enrichment", "scraping"])
def test_a_server_ends_with_its_command(name, tmp_path):
    """And gives its exit code on."""
    folder = copy(name, tmp_path)
    command = [sys.executable, "server.py", sys.executable, "-c", "import sys; sys.exit(7)"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False, timeout=30)
    assert done.returncode == 7
