"""A reverse proxy as others are, in a thread of its own."""

import asyncio
import threading
from concurrent.futures import Future

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse
from starlette.routing import Route

from perdure.api.server import bind
from tests.web.conftest import PATIENCE_SECONDS


class Proxy:
    """A reverse proxy as others are: it takes a path away, asks by its own name for the server, and passes on what comes as it comes."""

    def __init__(self, path, stream=None):
        self.target: Future[str] = Future()
        self._stream = stream
        """Instead of events of the server: what gives them."""
        self._listening = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}{path}"
        methods = ["GET", "HEAD", "POST", "PUT", "DELETE"]
        app = Starlette(routes=[Route(f"{path}/{{rest:path}}", self._pass_on, methods=methods)])
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()

    async def _serve(self):
        self._client = httpx2.AsyncClient(timeout=None)
        await self._server.serve(sockets=[self._listening])
        await self._client.aclose()

    async def _pass_on(self, request):
        if self._stream is not None and request.url.path.endswith("/stream"):
            return StreamingResponse(self._stream(request), media_type="text/event-stream")
        where = f"{self.target.result()}/{request.path_params['rest']}"
        headers = [(name, value) for name, value in request.headers.items() if name not in ("host", "connection")]
        asked = self._client.build_request(
            request.method, where, params=request.url.query.encode(), headers=headers, content=await request.body()
        )
        found = await self._client.send(asked, stream=True)
        kept = {name: value for name, value in found.headers.items() if name not in ("connection", "transfer-encoding")}
        done = BackgroundTask(found.aclose)
        return StreamingResponse(found.aiter_raw(), found.status_code, kept, background=done)

    def close(self):
        self._server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)
