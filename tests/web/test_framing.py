"""No page of another site shows the interface in a frame: tried from a real one, with each of the two walls alone and with none."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import httpx2
import pytest
from playwright.sync_api import expect

from perdure.web import HEADERS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("framing")]

OLD, NEW = "x-frame-options", "content-security-policy"


class _Elsewhere(BaseHTTPRequestHandler):
    """`/frames/ADDRESS` is a page without any policy that frames the address. `/copy/WALLS` is a page of the interface as another server would
    send it, with no other walls against frames than these."""

    target = ""

    def do_GET(self):
        _, kind, rest = (*self.path.split("/", 2), "")[:3]
        if kind not in ("frames", "copy"):
            self.send_error(404)
            return
        headers = {"Content-Type": "text/html; charset=utf-8"}
        body = f"<!doctype html><iframe src='{unquote(rest)}'></iframe>".encode()
        if kind == "copy":
            page = httpx2.get(f"{self.target}/welcome")
            body = page.content
            headers |= {name: page.headers[name] for name in (OLD, NEW) if name in rest}
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def elsewhere(site):
    """Another site: another origin, as a browser sees it."""
    handler = type("Handler", (_Elsewhere,), {"target": site.url})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def frame(page, elsewhere, address):
    """Where the frame of a page of another site has got to."""
    page.goto(f"{elsewhere}/frames/{address}")
    [framed] = page.main_frame.child_frames
    framed.wait_for_load_state()
    return framed.url


REFUSED = "chrome-error://chromewebdata/"


def test_no_page_of_another_site_can_frame_it(site, elsewhere, page, watch):
    watch.allowed += [
        "frame",
        "Framing",
        "request:",
        "404",
        "MIME",
    ]  # the other site is asked, and a copy finds no files beside it
    for path in ("/runs", "/welcome", "/login", "/nothing"):
        assert frame(page, elsewhere, site.url + path) == REFUSED, path
    # A frame that is not forbidden is shown: so it is the walls that refuse it, and each of them does by itself.
    open_ = f"{elsewhere}/copy/none"
    assert frame(page, elsewhere, open_) == open_
    expect(page.frame_locator("iframe").locator("#app")).to_be_attached()
    for wall in (OLD, NEW):
        assert frame(page, elsewhere, f"{elsewhere}/copy/{wall}") == REFUSED, wall
    assert {OLD, NEW} <= {name.lower() for name in HEADERS}
