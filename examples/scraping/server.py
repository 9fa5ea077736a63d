"""A shop with sixty pages, on this machine: `python server.py COMMAND` runs a command while it is open.

`{shop}` in the command becomes its address, which PERDURE_EGRESS_ALLOW allows: nodes may not call this machine otherwise. When
the command is done, the shop says how many visits it had, and how many at once.
"""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

PAGES = 60
GONE = {13, 42}
"""Listed, but no longer there."""
MOODY = 7
"""Every seventh page fails the first time it is asked for."""


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pause = threading.Event()
    lock = threading.Lock()
    visits: ClassVar[dict[str, int]] = {}
    inside = most = 0

    def do_GET(self) -> None:
        with self.lock:
            Shop.visits[self.path] = Shop.visits.get(self.path, 0) + 1
            Shop.inside += 1
            Shop.most = max(Shop.most, Shop.inside)
        self.pause.wait(0.05)
        status, body = self.find()
        with self.lock:
            Shop.inside -= 1  # before the answer: the next one may come as soon as it is read
        self.answer(status, body)

    def find(self) -> tuple[int, str]:
        if self.path == "/pages.json":
            return 200, json.dumps([f"/items/{number}" for number in range(1, PAGES + 1)])
        number = int(self.path.rpartition("/")[2])
        if number in GONE:
            return 404, "no longer sold"
        if number % MOODY == 0 and self.visits[self.path] == 1:
            return 500, "oh dear"
        price = 5 + number * 37 % 101
        return 200, f'<html><h1 class="name">Item {number}</h1><p class="price">€ {price}.50</p></html>'

    def answer(self, status: int, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if self.path.endswith(".json") else "text/html")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"127.0.0.1:{server.server_port}"
    command = [word.replace("{shop}", f"http://{place}") for word in sys.argv[1:]]
    code = subprocess.run(command, env=os.environ | {"PERDURE_EGRESS_ALLOW": place}, check=False).returncode
    print(f"{sum(Shop.visits.values())} visits, never more than {Shop.most} at once", flush=True)
    sys.exit(code)
