"""The three services, on this machine: `python server.py COMMAND` runs a command while they are up.

They are where customer.yaml calls them, which PERDURE_EGRESS_ALLOW allows: nodes may not call this machine otherwise.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

COMPANIES = {"acme": {"name": "Acme Ltd", "country": "NO"}, "zeta": {"name": "Zeta SA", "country": "FR"}}
INVOICES = {
    "acme": [{"amount": 900, "paid": False}, {"amount": 700.5, "paid": False}, {"amount": 50, "paid": True}],
    "zeta": [{"amount": 20, "paid": True}],
}
RATINGS = {"acme": {"grade": "B+"}}


class Services(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: ClassVar[set[str]] = set()
    reminders: ClassVar[dict[str, int]] = {}
    """The number of each reminder, by its key: one that comes again is the same reminder."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/register":
            if self.headers["Authorization"] != "Bearer sesame":
                return self.answer(401, {"error": "who are you?"})
            return self.find(COMPANIES, query.get("name", ""))
        if url.path == "/invoices":
            if url.query not in self.asked:  # too busy the first time
                self.asked.add(url.query)
                return self.answer(503, {"error": "busy"}, {"Retry-After": "0"})
            return self.find(INVOICES, query.get("of", ""))
        return self.find(RATINGS, query.get("of", ""))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        number = self.reminders.setdefault(self.headers["Idempotency-Key"], len(self.reminders) + 1)
        self.answer(201, {"number": number})

    def find(self, table: Mapping[str, object], name: str) -> None:
        self.answer(200, table[name]) if name in table else self.answer(404, {"error": f"nothing about {name}"})

    def answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    definition = Path(__file__).with_name("customer.yaml")
    host, port = re.findall(r"http://([\d.]+):(\d+)/", definition.read_text())[0]
    try:
        server = ThreadingHTTPServer((host, int(port)), Services)
    except OSError as error:
        sys.exit(f"{host}:{port}: {error.strerror}; write another port into {definition.name}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = os.environ | {"PERDURE_EGRESS_ALLOW": f"{host}:{port}"}
    sys.exit(subprocess.run(sys.argv[1:], env=environment, check=False).returncode)
