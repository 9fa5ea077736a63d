"""One server and one browser for all tests of a worker, one context for each test; and what must hold on every page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from perdure.access import Authenticator
from perdure.access.tokens import TokenRules, Tokens
from perdure.api import Options, create_app
from perdure.api.server import serve
from perdure.engine import Engine
from perdure.secrets.providers import Environment, Secrets
from perdure.secrets.vault import Vault
from perdure.service.tenancy import archive_of
from tests.api.helpers import SECRET
from tests.web.browser import launch_options

PATIENCE_SECONDS = 60.0
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


def _asking(engine: Engine) -> Authenticator:
    """Keys and tokens, as on a server that others reach."""
    return Authenticator(archive_of(engine), engine.clock, keys=True, tokens=Tokens(TokenRules(secret=SECRET)))


class Site:
    """A server with the web interface, in a thread: real sockets, a real engine, a real database."""

    def __init__(
        self,
        folder: Path,
        options: Options,
        *,
        closed: bool = False,
        secrets: dict[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self._port = port
        self._closed = closed
        self._vault = Vault(Secrets([("environment", Environment(secrets or {}))]))
        self._ready: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(folder, options)), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._ready.result(PATIENCE_SECONDS)}"
        self.client = httpx2.Client(base_url=f"{self.url}/api/v1", timeout=PATIENCE_SECONDS)

    async def _serve(self, folder: Path, options: Options) -> None:
        try:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            engine = await Engine.open(f"sqlite:///{folder / 'perdure.db'}", vault=self._vault)
            try:
                await engine.hold()
                app = create_app(engine, options=options, authenticator=_asking(engine) if self._closed else None)
                await serve(app, "127.0.0.1", self._port, self._ready.set_result, self._stop)
            finally:
                await engine.close(0.5)
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    def close(self) -> None:
        self.client.close()
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def post(self, path: str, body: Any = None) -> Any:
        response = self.client.post(path, json={} if body is None else body)
        assert response.is_success, response.text
        return response.json()

    def get(self, path: str) -> Any:
        response = self.client.get(path)
        assert response.is_success, response.text
        return response.json()

    def start(self, definition: dict[str, Any], *, wait: float = 0.0, **more: Any) -> str:
        body = {"definition": definition, "wait_seconds": wait, **more}
        return str(self.post("/runs", body)["run_id"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file, which are one group: as long as it is driven, its loop runs in this thread, and no test of
    another file could run its own."""
    options = launch_options()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(**options)
        yield found
        found.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("web"), Options(ui=True))
    yield made
    made.close()


class Watch:
    """What a page did that no page may do: errors in the console, requests to others, dialogs."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.faults: list[str] = []
        self.allowed: list[str] = []
        """Parts of console messages that the test itself brings about, such as a server that is gone."""

    def follow(self, page: Page) -> None:
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", self._note_request)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self.origin + "/", "blob:" + self.origin, "data:")):
            self.faults.append(f"request: {request.url}")

    def check(self) -> None:
        assert [fault for fault in self.faults if not any(one in fault for one in self.allowed)] == []


@pytest.fixture
def watch(site: Site) -> Iterator[Watch]:
    made = Watch(site.url)
    yield made
    made.check()


@pytest.fixture
def context(browser: Browser, watch: Watch) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="Europe/Berlin")
    made.set_default_timeout(PATIENCE_SECONDS * 1000)
    made.on("page", watch.follow)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
