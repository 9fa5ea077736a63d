"""Functions that do with a secret what should not be done, and a server that sends back what it was sent."""

import base64
import http.server
import json
import logging
from urllib.parse import quote

import perdure

logger = logging.getLogger("user.code")


def spread(token: str, ctx: perdure.Context) -> dict[str, object]:
    logger.warning("token %s, encoded %s", token, base64.b64encode(token.encode()).decode())
    ctx.checkpoint({"so far": token})
    return {
        "plain": token,
        "inside": f"Bearer {token}!",
        "base64": base64.b64encode(f"user:{token}".encode()).decode(),
        "url": f"https://example.com/?t={quote(token, safe='')}",
        "list": [token, {token: 1}],
        "length": len(token),
    }


def spread_widely(token: str) -> list[str]:
    return [f"{number} {token}" for number in range(20_000)]


def fail(token: str) -> None:
    logger.error("about to fail with %r", {"token": token})
    raise ValueError(f"the service refused {token} ({quote(token, safe='')})")


def abort(token: str) -> None:
    raise perdure.Abort(f"no use for {token}")


def measure(token: str) -> dict[str, int]:
    return {"length": len(token)}


def look(value: object) -> dict[str, object]:
    return {"type": type(value).__name__, "text": str(value)[-4:]}


def person() -> dict[str, object]:
    return {"name": "Ada", "ssn": "078-05-1120", "cards": [{"number": "4111111111111111", "kind": "x"}]}


def large_person() -> dict[str, object]:
    return {**person(), "filler": "x" * 40_000}


def stepwise(ctx: perdure.Context) -> str:
    """Its first attempt saves the number and fails; the second one finds it."""
    if ctx.last_checkpoint is None:
        ctx.checkpoint("078-05-1120")
        raise ConnectionError("after the checkpoint")
    if ctx.last_checkpoint != "078-05-1120":
        raise perdure.Abort("the checkpoint is not what was saved")
    return ctx.last_checkpoint


def forge(key: str) -> dict[str, object]:
    return {"a": [{key: "enc:v1:k1:AAAA:person.ssn"}]}


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with everything it got; with 500 below /broken, with 400 below /refused."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        answer = json.dumps({"path": self.path, "headers": dict(self.headers), "body": body}).encode()
        self.send_response(500 if "broken" in self.path else 400 if "refused" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Echo", self.headers.get("Authorization", ""))
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST  # noqa: N815  the server's naming

    def log_message(self, format: str, *args: object) -> None:
        pass
