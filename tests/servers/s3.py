"""A private S3 service: SeaweedFS from its wheel, with keys that it really checks.

It is a child of this process and ends with it. It takes a few seconds to start, so there is one per session.
"""

from __future__ import annotations

import atexit
import functools
import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 90.0
ACCESS_KEY, SECRET_KEY = "perdure-tests", "not-a-secret"
BUCKET = "perdure"


class S3Server:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-s3-", dir="/tmp"))
        self.ports: dict[str, int] = {}
        self._process: subprocess.Popen[str] | None = None
        self._log: deque[str] = deque(maxlen=20)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    def options(self, secret: str = SECRET_KEY) -> dict[str, Any]:
        """What the client needs to know besides the URL."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": secret,
            "region": "us-east-1",
            "virtual_hosted_style_request": False,
            "client_options": {"allow_http": True},
        }

    def environment(self) -> dict[str, str]:
        """The same for a process of its own."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self) -> None:
        if not self.ports:
            self._prepare()
        self._log.clear()
        program = [str(Path(sys.executable).parent / "weed"), "server", f"-dir={self.folder / 'data'}", "-s3"]
        options = {f"-{name}": str(port) for name, port in self.ports.items()} | {
            "-ip": "127.0.0.1",
            "-ip.bind": "127.0.0.1",
            "-master.telemetry": "false",
            "-s3.port.iceberg": "0",  # these would take fixed ports, and a second server could not start
            "-s3.port.lance": "0",
            "-volume.max": "20",
            "-master.volumeSizeLimitMB": "256",
            "-volume.preStopSeconds": "1",
            "-s3.config": str(self.folder / "s3.json"),
            "-filer.localSocket": str(self.folder / "filer.sock"),
            "-s3.localSocket": str(self.folder / "s3.sock"),
        }
        program += [f"{name}={value}" for name, value in options.items()]
        launcher = [sys.executable, "-m", "tests.servers.launcher", "0", "0"]
        self._process = subprocess.Popen(
            [*launcher, *program],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        names = ["master", "volume", "filer", "s3"]
        self.ports = {f"{name}.{kind}": free_port() for name in names for kind in ("port", "port.grpc")}
        (self.folder / "data").mkdir()
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        (self.folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._log.append(line.rstrip())

    def _wait_until_ready(self) -> None:
        """It is ready when it takes an object, not when its ports are open."""
        import obstore
        from obstore.store import S3Store

        process = self._process
        assert process is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        options = self.options()
        options.pop("endpoint")
        while True:
            assert process.poll() is None, "the S3 server ended: " + "\n".join(self._log)
            assert time.monotonic() < deadline, "the S3 server is not ready: " + "\n".join(self._log)
            try:
                if self._make_bucket():
                    store = S3Store(BUCKET, endpoint=self.endpoint, retry_config={"max_retries": 0}, **options)
                    obstore.put(store, "ready", b"yes")
                    return
            except (OSError, obstore.exceptions.BaseError):
                pass
            threading.Event().wait(0.1)

    def _make_bucket(self) -> bool:
        """By way of the filer, whose folder of buckets it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["filer.port"], timeout=5)
        try:
            connection.request("POST", f"/buckets/{BUCKET}/")
            return connection.getresponse().status in (200, 201, 409)
        finally:
            connection.close()

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)
        assert process.stderr is not None
        process.stderr.close()

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def shared() -> S3Server:
    """The one of this session, started when first asked for; gone with the process."""
    server = S3Server()
    atexit.register(server.remove)
    server.start()
    return server
