"""The two classes: `Client` blocks, `AsyncClient` is for programs with an event loop. They offer the same."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from perdure.client.approvals import Approvals, AsyncApprovals
from perdure.client.assets import Assets, AsyncAssets
from perdure.client.audit import AsyncAudit, Audit
from perdure.client.blobs import AsyncBlobs, Blobs
from perdure.client.budgets import AsyncBudgets, Budgets
from perdure.client.conversation import PREFIX, Options
from perdure.client.dead_letters import AsyncDeadLetters, DeadLetters
from perdure.client.events import AsyncEvents, Events
from perdure.client.http_calls import is_header
from perdure.client.keys import AsyncKeys, Keys
from perdure.client.runs import AsyncRuns, Runs
from perdure.client.saved_views import AsyncSavedViews, SavedViews
from perdure.client.sessions import AsyncSessions, Sessions
from perdure.client.sockets import AsyncSender, Sender, Verify
from perdure.client.system import AsyncSystem, System
from perdure.client.tools import AgentSessions, AsyncAgentSessions, AsyncTools, Tools
from perdure.client.triggers import AsyncTriggers, Triggers
from perdure.client.workflows import AsyncWorkflows, Workflows
from perdure.errors import SettingsInvalid
from perdure.settings import Settings

TIMEOUT_SECONDS = 30.0
RETRIES = 4


class Client:
    """A Perdure server, for a program that blocks:

        with perdure.Client("http://127.0.0.1:8700", api_key="perdure_…") as client:
            client.runs.start("orders")

    Without a URL, the settings `server_url` and `api_key` are used. When the server is busy or the connection fails,
    calls that may be repeated are, up to `retries` times. A client may be used by several threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        verify: Verify = True,
    ) -> None:
        self._sender = Sender(make_options(url, api_key, timeout, retries), verify)

    @property
    def url(self) -> str:
        return self._sender.options.url

    @cached_property
    def runs(self) -> Runs:
        return Runs(self._sender)

    @cached_property
    def workflows(self) -> Workflows:
        return Workflows(self._sender)

    @cached_property
    def approvals(self) -> Approvals:
        return Approvals(self._sender)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        return DeadLetters(self._sender)

    @cached_property
    def triggers(self) -> Triggers:
        return Triggers(self._sender)

    @cached_property
    def events(self) -> Events:
        return Events(self._sender)

    @cached_property
    def assets(self) -> Assets:
        return Assets(self._sender)

    @cached_property
    def blobs(self) -> Blobs:
        return Blobs(self._sender)

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(self._sender)

    @cached_property
    def system(self) -> System:
        return System(self._sender)

    @cached_property
    def keys(self) -> Keys:
        return Keys(self._sender)

    @cached_property
    def saved_views(self) -> SavedViews:
        return SavedViews(self._sender)

    @cached_property
    def tools(self) -> Tools:
        return Tools(self._sender)

    @cached_property
    def agent_sessions(self) -> AgentSessions:
        return AgentSessions(self._sender)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self._sender)

    @cached_property
    def audit(self) -> Audit:
        return Audit(self._sender)

    def close(self) -> None:
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """A Perdure server, for a program with an event loop:

        async with perdure.AsyncClient(…) as client:
            await client.runs.start(…)

    It offers the same as `Client`; every operation is awaited, and lists and streams are read with `async for`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        verify: Verify = True,
    ) -> None:
        self._sender = AsyncSender(make_options(url, api_key, timeout, retries), verify)

    @property
    def url(self) -> str:
        return self._sender.options.url

    @cached_property
    def runs(self) -> AsyncRuns:
        return AsyncRuns(self._sender)

    @cached_property
    def workflows(self) -> AsyncWorkflows:
        return AsyncWorkflows(self._sender)

    @cached_property
    def approvals(self) -> AsyncApprovals:
        return AsyncApprovals(self._sender)

    @cached_property
    def dead_letters(self) -> AsyncDeadLetters:
        return AsyncDeadLetters(self._sender)

    @cached_property
    def triggers(self) -> AsyncTriggers:
        return AsyncTriggers(self._sender)

    @cached_property
    def events(self) -> AsyncEvents:
        return AsyncEvents(self._sender)

    @cached_property
    def assets(self) -> AsyncAssets:
        return AsyncAssets(self._sender)

    @cached_property
    def blobs(self) -> AsyncBlobs:
        return AsyncBlobs(self._sender)

    @cached_property
    def budgets(self) -> AsyncBudgets:
        return AsyncBudgets(self._sender)

    @cached_property
    def system(self) -> AsyncSystem:
        return AsyncSystem(self._sender)

    @cached_property
    def keys(self) -> AsyncKeys:
        return AsyncKeys(self._sender)

    @cached_property
    def saved_views(self) -> AsyncSavedViews:
        return AsyncSavedViews(self._sender)

    @cached_property
    def tools(self) -> AsyncTools:
        return AsyncTools(self._sender)

    @cached_property
    def agent_sessions(self) -> AsyncAgentSessions:
        return AsyncAgentSessions(self._sender)

    @cached_property
    def sessions(self) -> AsyncSessions:
        return AsyncSessions(self._sender)

    @cached_property
    def audit(self) -> AsyncAudit:
        return AsyncAudit(self._sender)

    async def close(self) -> None:
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def make_options(url: str | None, api_key: str | None, timeout: float, retries: int) -> Options:
    if url is None:
        # A key from the settings belongs to the server from the settings; it is never sent to another.
        settings = Settings.load()
        url, api_key = settings.server_url, api_key if api_key is not None else settings.api_key
        if not url:
            raise SettingsInvalid("no server is named: give its URL, or set server_url (PERDURE_SERVER_URL)")
    key = (api_key or "").strip()
    if not is_header(key):
        raise SettingsInvalid("the API key is not one word of plain ASCII; give it as it was shown when it was made")
    return Options(url=check_url(url), api_key=key, timeout=timeout, retries=retries)


def check_url(url: str) -> str:
    """The URL of a server, checked: scheme, host, perhaps a port and a path. The API's path is added behind it."""
    if not _is_server(url.strip()):
        raise SettingsInvalid(
            "the URL of a server is http:// or https://, a host, perhaps a port and a path, such as "
            f"http://127.0.0.1:8700; got {_shown(url)!r}"
        )
    return url.strip().rstrip("/").removesuffix(PREFIX)


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and named and not (parts.query or parts.fragment or "@" in parts.netloc)


def _shown(url: str) -> str:
    """The URL for a message, without what stands before an @: that may be a password."""
    return url.rpartition("@")[2][:200]
