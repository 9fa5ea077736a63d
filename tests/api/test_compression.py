"""Answers sent with gzip, and parts of blobs: less to send, and nothing given away by it."""

import gzip
import threading

import pytest

from perdure.api import compression
from perdure.api.compression import accepts_gzip
from tests.api.helpers import API, serving
from tests.api.test_people import asking, pending
from tests.attack.marks import attack
from tests.engine.helpers import transform, workflow

LONG = workflow(*(transform(f"node_{number}", "a value") for number in range(200)), name="long")


async def raw(server, path, accepted, **more):
    """An answer as it was sent, not unpacked."""
    request = server.client.build_request("GET", API + path, headers={"Accept-Encoding": accepted, **more})
    response = await server.client.send(request, stream=True)
    content = b"".join([piece async for piece in response.aiter_raw()])
    await response.aclose()
    return response, content


async def test_large_json_and_pictures_are_sent_with_gzip_to_a_client_that_takes_it(server):
    await server.ok("/workflows", LONG)
    for path in ("/workflows/long", "/workflows/long/graph", "/workflows/long/graph.svg"):
        plain, text = await raw(server, path, "identity")
        packed, data = await raw(server, path, "br, gzip;q=0.5")
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) == len(data) < len(text) / 4
        assert gzip.decompress(data) == text
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
        assert plain.headers["content-type"] == packed.headers["content-type"]
    listed, _ = await raw(server, "/node-types", "gzip")
    assert (listed.headers["content-encoding"], listed.headers["etag"][:3]) == ("gzip", 'W/"')
    known, _ = await raw(server, "/node-types", "gzip", **{"If-None-Match": listed.headers["etag"]})
    assert known.status_code == 304
    small, _ = await raw(server, "/me", "gzip")
    assert "content-encoding" not in small.headers
    first, _ = await raw(server, "/workflows/long/graph", "gzip")
    known, nothing = await raw(server, "/workflows/long/graph", "gzip", **{"If-None-Match": first.headers["etag"]})
    assert (known.status_code, nothing) == (304, b"")


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("GZIP, deflate", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip; q=0.0", False),
        ("gzip;q=x", False),
        ("br, deflate", False),
        ("", False),
        ("x-gzip", False),
    ],
)
def test_what_a_client_takes(accepted, takes):
    assert accepts_gzip(accepted) is takes


async def test_answers_that_show_a_secret_are_not_compressed(server, monkeypatch):
    monkeypatch.setattr(compression, "LEAST_BYTES", 10)
    run = await server.start(asking(), wait=0)
    approval = await pending(server, run["run_id"])
    assert (await server.get("/me")).headers["content-encoding"] == "gzip"
    made = await server.post("/keys", {"name": "ci", "roles": ["viewer"]})
    links = await server.post(f"/approvals/{approval['approval_id']}/links", {"approver": "ann"})
    for answer in (made, links):
        assert answer.status_code == 201
        assert "content-encoding" not in answer.headers


async def test_a_large_answer_is_compressed_in_a_thread(server, monkeypatch):
    used: list[str] = []
    real = compression._pack

    def pack(body):
        used.append(threading.current_thread().name)
        return real(body)

    monkeypatch.setattr(compression, "_pack", pack)
    await server.ok("/workflows", LONG)
    await server.ok("/workflows/long/graph")
    assert used == [threading.current_thread().name]
    monkeypatch.setattr(compression, "_INLINE_BYTES", 2000)
    await server.ok("/workflows/long/graph")
    assert used[1:] == ["perdure-aside"]


@pytest.fixture
async def blob(server):
    content = bytes(range(100))
    headers = {"Content-Type": "application/octet-stream"}
    return (await server.client.post(f"{API}/blobs", content=content, headers=headers)).json()["ref"]


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [("0-9", 0, 10), ("90-", 90, 100), ("-5", 95, 100), ("-500", 0, 100), ("40-1000", 40, 100), ("99-99", 99, 100)],
)
async def test_a_part_of_a_blob_is_given(server, blob, asked, first, end):
    answer = await server.get(f"/blobs/{blob}", headers={"Range": f"bytes={asked}"})
    assert (answer.status_code, answer.content) == (206, bytes(range(100))[first:end])
    assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/100"
    assert answer.headers["content-disposition"] == "attachment"


@attack("S13", "a byte of a large blob, asked for again and again")
async def test_no_more_of_a_blob_is_read_than_was_asked_for(server, blob, monkeypatch):
    store = server.engine.contents.blobs
    read, real = [], store._objects.read

    async def note(name, first=0, count=None):
        read.append((first, count))
        return await real(name, first, count)

    monkeypatch.setattr(store._objects, "read", note)
    answer = await server.get(f"/blobs/{blob}", headers={"Range": "bytes=90-91"})
    assert (answer.status_code, answer.content) == (206, bytes([90, 91]))
    assert read == [(90, 2)]


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=0-1,4-5", "items=0-1", "bytes=-", "bytes=a-b", "bytes=0x1-2"])
async def test_a_range_that_cannot_be_read_gives_the_whole(server, blob, asked):
    answer = await server.get(f"/blobs/{blob}", headers={"Range": asked})
    assert (answer.status_code, answer.content) == (200, bytes(range(100)))
    assert answer.headers["accept-ranges"] == "bytes"


async def test_ranges_behind_the_end_and_conditions_on_them(server, blob):
    for asked in ("100-", "-0"):
        answer = await server.get(f"/blobs/{blob}", headers={"Range": f"bytes={asked}"})
        assert (answer.status_code, answer.json()["code"]) == (416, "range_not_satisfiable")
        assert answer.headers["content-range"] == "bytes */100"
    tag = (await server.get(f"/blobs/{blob}")).headers["etag"]
    known = await server.get(f"/blobs/{blob}", headers={"If-None-Match": tag})
    assert (known.status_code, known.content) == (304, b"")
    for condition, status in ((tag, 206), ('"other"', 200), (f"W/{tag}", 200)):
        headers = {"Range": "bytes=0-1", "If-Range": condition}
        assert (await server.get(f"/blobs/{blob}", headers=headers)).status_code == status
    missing = await server.get(f"/blobs/sha256:{'0' * 64}", headers={"Range": "bytes=0-1"})
    assert missing.status_code == 404


async def test_the_size_of_a_blob_is_told_without_its_content(tmp_path):
    async with serving(tmp_path, real=True) as server:
        headers = {"Content-Type": "application/octet-stream"}
        ref = (await server.client.post(f"{API}/blobs", content=b"x" * 5000, headers=headers)).json()["ref"]
        for _ in range(2):  # the connection stays usable
            head = await server.client.head(f"{API}/blobs/{ref}")
            assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "5000")
        assert (await server.client.head(f"{API}/blobs/sha256:{'0' * 64}")).status_code == 404
        assert (await server.client.head(f"{API}/runs")).status_code == 405
