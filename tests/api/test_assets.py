"""Assets and large blobs over HTTP: whole, in parts, and never as a page."""

import pytest

from perdure.api import byte_ranges
from perdure.api.routes import assets as asset_routes
from perdure.api.routes import system

OCTETS = {"Content-Type": "application/octet-stream"}
CONTENT = bytes(range(256)) * 40


@pytest.fixture
async def ref(server):
    return (await server.post("/blobs", content=CONTENT, headers=OCTETS)).json()["ref"]


@pytest.mark.parametrize("pieces", [False, True])
async def test_content_comes_whole_and_in_parts_also_piece_by_piece(server, ref, monkeypatch, pieces):
    if pieces:
        monkeypatch.setattr(asset_routes, "SMALL", 100)
        monkeypatch.setattr(system, "LARGEST_WHOLE", 100)
        monkeypatch.setattr(byte_ranges, "PIECE", 1000)
    await server.ok("/assets/a", {"parts": [ref], "media_type": "text/html", "file_name": "a.html"}, method="PUT")
    for path in ("/assets/a/content", f"/blobs/{ref.removeprefix('cas://')}"):
        whole = await server.get(path)
        assert (whole.status_code, whole.content) == (200, CONTENT)
        part = await server.get(path, headers={"Range": "bytes=1000-9000"})
        assert (part.status_code, part.content) == (206, CONTENT[1000:9001])
        assert part.headers["content-range"] == f"bytes 1000-9000/{len(CONTENT)}"
        assert (await server.get(path, headers={"Range": "bytes=20000-"})).status_code == 416


async def test_the_audit_says_which_version_was_kept_or_deleted(server, ref):
    for _ in range(2):
        await server.ok("/assets/logo", {"parts": [ref]}, method="PUT")
    assert (await server.client.delete("/api/v1/assets/logo?version=1")).is_success
    entries = (await server.ok("/audit"))["items"]
    assert [one["object"] for one in entries if one["action"].startswith("assets.")] == ["logo@1", "logo@2", "logo@1"]


async def test_a_page_that_was_uploaded_is_never_a_page_of_this_server(server, ref):
    name = "a;b ü%.html"
    made = await server.ok("/assets/page", {"parts": [ref], "media_type": "text/html", "file_name": name}, method="PUT")
    assert made["asset"]["$asset"]["name"] == name
    answer = await server.get("/assets/page/content")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a%3Bb%20%C3%BC%25.html"


@pytest.mark.parametrize(
    "wrong",
    [
        {"media_type": "a/b\r\nX: y"},
        {"file_name": "a\r\nX: y"},
        {"file_name": "../a"},
        {"parts": []},
        {"parts": ["cas://sha256:1"]},
    ],
)
async def test_what_could_do_harm_in_a_header_is_refused(server, ref, wrong):
    answer = await server.client.put("/api/v1/assets/bad", json={"parts": [ref], **wrong})
    assert answer.status_code == 422
    assert (await server.ok("/assets"))["items"] == []
