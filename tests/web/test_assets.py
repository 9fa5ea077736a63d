"""Files among the values of a run: looked into as what their bytes are and never as markup; and those that outlive their run."""

import re
import struct
import zlib

import pytest
from playwright.sync_api import expect

import perdure
from perdure.api import Options
from tests.web import samples
from tests.web.axe import find_barriers
from tests.web.conftest import Site
from tests.web.test_approvals import sheet

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("assets")]

EVIL = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
WIDE, HIGH = 5, 3


def png() -> bytes:
    """A picture of some red dots."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\xff\0\0" * WIDE for _ in range(HIGH)))
    head = struct.pack(">IIBBBBB", WIDE, HIGH, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def draw() -> dict[str, object]:
    return {
        "files": [
            perdure.Asset(png(), "text/html", "red.html"),  # its name lies, its bytes do not
            perdure.Asset(EVIL.encode(), "image/png", "evil.png"),
            perdure.Asset(bytes(range(256)), "application/octet-stream", "all.bin"),
            perdure.Asset("a line\n" * 20_000, "text/plain", "long.txt"),
            perdure.Asset(b"", "text/plain", "nothing.txt"),
        ]
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("assets"), Options(ui=True))
    yield made
    made.close()


@pytest.fixture(scope="module")
def run(site):
    task = {"id": "draw", "type": "task", "config": {"function": "tests.web.test_assets:draw"}}
    return site.start(samples.definition_named("drawing", task), wait=60)


def file_named(page, name):
    return page.locator("aside.drawer").get_by_role("group", name=f"File {name}")


def test_a_file_is_looked_into_as_what_its_bytes_are(site, page, run):
    page.goto(f"{site.url}/runs/{run}?node=draw")
    red = file_named(page, "red.html")
    red.get_by_role("button", name="Preview").click()
    picture = red.get_by_role("img", name="Picture red.html")
    expect(picture).to_have_attribute("src", re.compile("^blob:"))
    expect(picture).to_have_js_property("naturalWidth", WIDE)
    evil = file_named(page, "evil.png")
    evil.get_by_role("button", name="Preview").click()
    expect(evil.get_by_role("group", name="Content as text")).to_have_text(EVIL)
    expect(evil.locator("img, svg:not(.icon), script")).to_have_count(0)
    every = file_named(page, "all.bin")
    every.get_by_role("button", name="Preview").click()
    expect(every.get_by_role("group", name="Content as bytes")).to_contain_text("00000010  10 11 12")
    long = file_named(page, "long.txt")
    long.get_by_role("button", name="Preview").click()
    expect(long).to_contain_text("The first 65,536 of 140,000 bytes.")
    nothing = file_named(page, "nothing.txt")
    nothing.get_by_role("button", name="Preview").click()
    expect(nothing).to_contain_text("It is empty.")
    assert find_barriers(page) == []
    with page.expect_download() as download:
        evil.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "evil.png"
    assert download.value.path().read_text() == EVIL


def test_a_file_is_kept_and_its_versions_are_listed_looked_into_and_deleted(site, page, run):
    page.goto(f"{site.url}/assets")
    expect(page.get_by_role("heading", name="No file is kept")).to_be_visible()
    for version in (1, 2):
        page.goto(f"{site.url}/runs/{run}?node=draw")
        file_named(page, "red.html").get_by_role("button", name="Keep").click()
        asked = sheet(page, "Keep red.html")
        asked.get_by_label("Name").fill("")
        expect(asked.locator("footer")).to_contain_text("Say under which name.")
        asked.get_by_label("Name").fill("logo")
        assert find_barriers(page) == []
        asked.get_by_role("button", name="Keep", exact=True).click()
        expect(asked).to_contain_text(f"Kept as logo, version {version}.")
    page.get_by_role("link", name="All assets").click()
    rows = page.get_by_role("table", name="Assets").locator("tbody tr")
    expect(rows).to_have_count(2)
    assert [one["object"] for one in site.get("/audit?action=assets.promote")["items"]] == ["logo@2", "logo@1"]
    expect(rows.first).to_contain_text("red.html")
    expect(rows.first.get_by_role("link", name="draw")).to_have_attribute("href", f"/runs/{run}?node=draw")
    rows.first.get_by_role("button", name="logo").click()
    expect(page.locator(".opened").get_by_role("img")).to_have_js_property("naturalHeight", HIGH)
    assert find_barriers(page) == []
    rows.first.get_by_role("button", name="Delete").click()
    asked = sheet(page, "Delete version 1 of logo?")
    asked.get_by_role("button", name="Delete").click()
    expect(asked).to_contain_text("Deleted.")
    page.keyboard.press("Escape")
    expect(rows).to_have_count(1)
    assert [one["version"] for one in site.get("/assets")["items"]] == [2]
    page.goto(f"{site.url}/assets?name=nobody")
    expect(page.get_by_role("heading", name="No file has this name")).to_be_visible()
