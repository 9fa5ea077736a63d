"""Objects of a bucket as items: like files of a folder, and by signed requests."""

from __future__ import annotations

import hashlib
from functools import partial
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit
from xml.sax.saxutils import escape

import obstore
import pytest
from obstore.store import S3Store

from perdure import egress
from perdure.clock import SystemClock
from perdure.egress.policy import Policy
from perdure.journal import RunFilter
from perdure.model.trigger_sources import Folder
from perdure.runtime.source_kinds import SourceKinds
from perdure.sources import Item, SourceFailed, SourceRefused
from perdure.sources.bucket_address import BucketAddress, read_bucket_address
from perdure.sources.object_folder import PIECE, Fetched, ObjectFolderSource
from perdure.testing.source_checks import check_source
from tests.attack.marks import attack
from tests.engine.helpers import running
from tests.engine.test_polls import begin, idle
from tests.servers.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, shared
from tests.sources.test_sources import Time

URL = "s3://key:word@box/in/?endpoint=https://store.example&region=eu-north-1"


class Bucket:
    """A service in memory, which speaks as S3 does: pages of a few keys, in order."""

    def __init__(self, page=3):
        self.objects = {}
        self.asked = []
        self.answers = []
        """What is answered instead, once each."""
        self._page = page

    def put(self, key, content=b"x"):
        self.objects[key] = content

    async def fetch(self, url, headers):
        self.asked.append((url, headers))
        if self.answers:
            return self.answers.pop(0)
        parts = urlsplit(url)
        query = {name: found[0] for name, found in parse_qs(parts.query, keep_blank_values=True).items()}
        if query.get("list-type") == "2":
            return Fetched(200, self._list(query).encode())
        content = self.objects.get(unquote(parts.path).removeprefix("/box/"))
        if content is None:
            return Fetched(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if headers["if-match"] != f'"{_etag(content)}"':
            return Fetched(412, b"")
        first, last = (int(part) for part in headers["range"].removeprefix("bytes=").split("-"))
        return Fetched(206, content[first : last + 1])

    def _list(self, query):
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = [key for key in sorted(self.objects) if key.startswith(query["prefix"]) and key > after]
        keys = [key for key in keys if "/" not in key.removeprefix(query["prefix"])]
        shown = keys[: self._page]
        lines = [
            f"<Contents><Key>{escape(quote_plus(key, safe='/'))}</Key><Size>{len(self.objects[key])}</Size>"
            f'<ETag>"{_etag(self.objects[key])}"</ETag></Contents>'
            for key in shown
        ]
        more = len(keys) > len(shown)
        token = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(lines)}"
            "</ListBucketResult>"
        )


def _etag(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def bucket():
    return Bucket()


def make(bucket, time, **spec):
    spec = {"url": URL, "from_": "start", **spec}
    return ObjectFolderSource(Folder(**spec), bucket.fetch, time)


@pytest.mark.parametrize("identity", ["path", "version", "content"])
@pytest.mark.parametrize("order", ["", "name"])
async def test_a_bucket_loses_and_repeats_nothing(bucket, time, identity, order):
    for number in range(7):
        bucket.put(f"in/{number} +ä.csv", f"content {number}".encode())
    bucket.put("in/", b"")
    bucket.put("in/below/9.csv")
    bucket.put("in/other.txt")
    bucket.put("inside.csv")
    items = await check_source(
        lambda: make(bucket, time, identity=identity, order=order, match="*.csv"), between=time.move
    )
    assert [item.data["path"] for item in items] == [f"in/{number} +ä.csv" for number in range(7)]
    assert items[0].data["url"] == "s3://box/in/0 +ä.csv"
    assert items[0].data["size"] == 9
    assert all("authorization" in headers for _, headers in bucket.asked)


async def test_in_order_of_names_only_what_comes_later_is_listed(time):
    bucket = Bucket(1000)
    for number in range(250):
        bucket.put(f"in/{number:03}")
    source = make(bucket, time, order="name", settle=0)
    first = await source.poll(None)
    assert (len(first.items), first.more) == (100, True)
    await source.poll(first.cursor)
    assert "start-after=in%2F099" in bucket.asked[-1][0]


@pytest.mark.parametrize("order", ["", "name"])
async def test_what_is_there_at_first_is_no_item(bucket, time, order):
    for number in range(8):
        bucket.put(f"in/{number}")
    source = make(bucket, time, order=order, settle=0, from_="end")
    polled = await source.poll(None)
    assert polled.items == ()
    bucket.put("in/9")
    assert [item.data["path"] for item in (await source.poll(polled.cursor)).items] == ["in/9"]


async def test_an_object_that_changes_while_it_is_read_is_given_later(bucket, time):
    source = make(bucket, time, identity="content", settle=0)
    bucket.put("in/a", b"y" * (PIECE + 1))
    listed = await bucket.fetch(
        f"https://h/box/?{urlsplit(source._address.make_url('', {})).query}list-type=2&prefix=in/", {}
    )
    bucket.answers = [listed, Fetched(206, b"y" * PIECE), Fetched(412, b"")]
    polled = await source.poll(None)
    assert polled.items == ()
    [item] = (await source.poll(polled.cursor)).items
    assert item.id == f"sha256:{hashlib.sha256(b'y' * (PIECE + 1)).hexdigest()}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Fetched(403, b"<Error><Code>AccessDenied</Code></Error>"), "refuses the keys .*AccessDenied"),
        (Fetched(301, b""), "region"),
        (Fetched(503, b"<html>"), "HTTP 503"),
        (Fetched(200, b"<html></html>"), "no listing"),
        (Fetched(200, b'<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult>&b;</ListBucketResult>'), "no listing"),
        (Fetched(200, '<?xml version="1.0" encoding="utf-16"?><ListBucketResult/>'.encode("utf-16")), "no listing"),
        (Fetched(200, b"<ListBucketResult>" + b"<a/>" * 100_001 + b"</ListBucketResult>"), "no listing"),
    ],
)
async def test_a_service_that_does_not_answer_is_asked_again(bucket, time, answer, said):
    source = make(bucket, time)
    bucket.answers = [answer]
    with pytest.raises(SourceFailed, match=said) as failed:
        await source.poll(None)
    assert "word" not in str(failed.value)
    bucket.put("in/a")
    time.move(100)
    assert (await source.poll(None)).items == ()  # it is looked at twice


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3://Box/in",
        "s3:///in",
        "s3://key@box/",
        "s3://key:@box/",
        "s3://a/b:word@box/",
        "s3://box/?endpoint=ftp://h",
        "s3://box/?endpoint=https://u:word@h",
        "s3://box/?endpoint=https://h/path",
        "s3://box/?endpoint=https://h:port",
        "s3://box/?region=a/b",
        "s3://box/?access_key_id=word",
        "s3://box/?x",
    ],
)
def test_an_address_that_is_none_is_refused_without_saying_its_keys(time, url):
    with pytest.raises(SourceRefused) as refused:
        make(Bucket(), time, url=url)
    assert "word" not in str(refused.value)


def test_where_a_bucket_is():
    own = read_bucket_address("s3://box/daily")
    assert (own.make_url("a b", {}), own.prefix) == ("https://box.s3.us-east-1.amazonaws.com/a%20b", "daily/")
    assert read_bucket_address("s3://a.box/").make_url("k", {}) == "https://s3.us-east-1.amazonaws.com/a.box/k"
    other = read_bucket_address("s3://K:a%2Fb@box/x/?endpoint=HTTPS://[::1]:443")
    assert (other.make_url("", {"b": "/", "a": " "}), other.secret) == ("https://[::1]/box/?a=%20&b=%2F", "a/b")


@attack("X08", "a bucket without keys, whose service is the author's")
async def test_a_worker_tells_a_bucket_no_key_of_its_own(bucket, time, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own-word")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "own-token")
    await make(bucket, time, url="s3://box/in/?endpoint=https://store.example").poll(None)
    assert bucket.asked[0][1] == {}


@pytest.mark.parametrize(
    ("key", "query", "headers", "signature"),
    [
        ("test.txt", {}, {"range": "bytes=0-9"}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        ("", {"prefix": "J", "max-keys": "2"}, {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_a_request_is_signed_as_the_examples_of_the_service_are(key, query, headers, signature):
    address = BucketAddress(
        "examplebucket",
        "",
        "https://examplebucket.s3.amazonaws.com",
        "/",
        "us-east-1",
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    )
    told = address.sign(address.make_url(key, query), 1369353600.0, headers)
    assert told["authorization"].endswith(f"Signature={signature}")


@attack("X07", "a bucket at an address inside")
async def test_a_bucket_inside_is_not_called(tmp_path):
    egress.configure(Policy())
    try:
        url = "s3://K:word@box/?endpoint=http://169.254.169.254"
        source = await SourceKinds((str(tmp_path),), SystemClock()).open({"kind": "folder", "url": url})
        assert isinstance(source, ObjectFolderSource)
        with pytest.raises(SourceRefused, match="may not be called") as refused:
            await source.poll(None)
        assert "word" not in str(refused.value)
    finally:
        egress.configure(None)


@pytest.mark.slow
@pytest.mark.xdist_group("s3")
async def test_objects_of_a_real_service_are_read(tmp_path, time):
    items: tuple[Item, ...] = ()
    server = shared()
    options = server.options()
    store = S3Store(BUCKET, prefix=f"{tmp_path.name}/", **options)
    names = ["a b.csv", "b+c.csv", "d&ä<1>.csv", "e%2F.csv"]
    for name in [*names, "below/z.csv"]:
        await obstore.put_async(store, name, name.encode() * 3)
    egress.configure(Policy.parse("127.0.0.1:*"))
    try:
        kinds = SourceKinds((), time)
        query = f"endpoint={server.endpoint}&region=us-east-1"

        async def open_it(**spec):
            url = f"s3://{ACCESS_KEY}:{SECRET_KEY}@{BUCKET}/{tmp_path.name}/?{query}"
            return await kinds.open({"kind": "folder", "url": url, "from": "start", "match": "*.csv", **spec})

        for spec in ({}, {"order": "name", "identity": "content"}):
            items = await check_source(partial(open_it, **spec), between=time.move)
            assert [item.data["path"] for item in items] == [f"{tmp_path.name}/{name}" for name in names]
        assert items[0].id == f"sha256:{hashlib.sha256(b'a b.csv' * 3).hexdigest()}"
        wrong = await open_it(url=f"s3://{ACCESS_KEY}:wrong@{BUCKET}/?{query}")
        with pytest.raises(SourceFailed, match="refuses the keys"):
            await wrong.poll(None)
    finally:
        await egress.close()
        egress.configure(None)


@pytest.mark.slow
@pytest.mark.xdist_group("s3")
async def test_a_trigger_starts_a_run_for_each_object_by_a_secret_address(tmp_path, monkeypatch):
    server = shared()
    store = S3Store(BUCKET, prefix=f"{tmp_path.name}/", **server.options())
    await obstore.put_async(store, "a.csv", b"1")
    url = f"s3://{ACCESS_KEY}:{SECRET_KEY}@{BUCKET}/{tmp_path.name}/?endpoint={server.endpoint}&region=us-east-1"
    monkeypatch.setenv("PERDURE_SECRET_INCOMING", url)
    egress.configure(Policy.parse("127.0.0.1:*"))
    folder = {"url": "{{ secrets.INCOMING }}", "every": "1s", "settle": "0s", "from": "start"}
    try:
        async with running(tmp_path) as engine:
            await begin(engine, folder=folder, inputs={"n": "{{ item.url }}"})
            await idle(engine, 1)
            await obstore.put_async(store, "b.csv", b"2")
            await idle(engine, 2)
            rows = (await engine.journal.list_runs(RunFilter(workflow="report"), limit=10)).items
            states = [await engine.runs.state(one.run_id) for one in rows]
            names = sorted(state.inputs["n"] for state in states)
            assert names == [f"s3://{BUCKET}/{tmp_path.name}/{name}.csv" for name in "ab"]
    finally:
        egress.configure(None)
