"""A server that answers what it was told to, whatever it is asked: for answers a healthy Perdure does not give on demand."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def problem(status: int, code: str, detail: str = "no", **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = {"type": f"urn:perdure:error:{code}", "title": "No", "status": status, "code": code, "detail": detail}
    return status, {"Content-Type": "application/problem+json", **headers}, json.dumps(body).encode()


def answer(body: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()


def events(*numbers: int, last: str = "node.started") -> tuple[int, dict[str, str], bytes]:
    frames = [{"seq": n, "type": last if n == numbers[-1] else "node.started"} for n in numbers]
    data = "".join(f"id: {one['seq']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in frames)
    return 200, {"Content-Type": "text/event-stream"}, f"retry: 1000\n\n: hello\n\n{data}".encode()


class Scripted:
    """`with Scripted([…]) as server:`; `server.asked` is what came, as (method, path, headers, body)."""

    def __init__(self, answers: list[tuple[int, dict[str, str], bytes]]) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        left = list(answers)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked.append((self.command, self.path, headers, body))
                status, sent, content = left.pop(0)
                self.send_response(status)
                for name, value in sent.items():
                    self.send_header(name.replace("_", "-"), value)
                if status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
