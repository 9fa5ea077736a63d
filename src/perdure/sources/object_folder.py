"""Objects under a prefix of a bucket as items, from any service that speaks as S3 does.

It is a folder like one on this machine: what lies below a further slash is not in it. An object's version is its ETag. In
order of names only what comes after the last name is listed, so that a bucket of millions is read by pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote_plus
from xml.etree import ElementTree

import msgspec

from perdure.clock import Clock
from perdure.model.trigger_sources import Folder
from perdure.sources import MOST_ITEMS, Item, Polled, Source, SourceFailed
from perdure.sources.bucket_address import read_bucket_address
from perdure.sources.listings import File, Listings, read_name
from perdure.threads import aside

PIECE = 4 * 1024 * 1024
"""How much of an object is asked for at a time."""
_MOST_PAGES = 100_000
_MOST_PARTS = 100_000
"""How many parts the XML of one page may have; a page has at most 1,000 objects."""


class Fetched(msgspec.Struct, frozen=True):
    status: int
    body: bytes


Fetch = Callable[[str, dict[str, str]], Awaitable[Fetched]]
"""Get a URL with these headers, by the rules for outgoing calls, without following redirects. Raises SourceRefused, SourceFailed."""


class _Page(msgspec.Struct, frozen=True):
    files: list[File]
    next: str
    """The token of the next page; empty: this is the last one."""


class ObjectFolderSource(Source):
    def __init__(self, spec: Folder, fetch: Fetch, clock: Clock) -> None:
        """Raises SourceRefused for an address that is none."""
        self._spec = spec
        self._fetch = fetch
        self._clock = clock
        self._address = read_bucket_address(spec.url)
        self._listings = Listings(spec, clock)

    async def poll(self, cursor: str | None) -> Polled:
        at_first = cursor is None and self._spec.from_ != "start"
        if self._spec.order == "name":
            after = read_name(cursor)
            files = await self._read_last() if at_first else await self._list(after, MOST_ITEMS + 1)
        else:
            files = await self._list("")
        if at_first:
            return self._listings.begin(files)
        new = self._listings.choose(files, cursor)
        items: list[tuple[File, Item]] = []
        for file in new.files:
            item = await self._make(file)
            if item is not None:
                items.append((file, item))
            elif new.in_order:
                break
        return new.give(items)

    async def _make(self, file: File) -> Item | None:
        """The item of an object; None when it is gone or has changed while it was read."""
        path = self._address.prefix + file.name
        data = {
            "path": path,
            "url": f"s3://{self._address.bucket}/{path}",
            "size": file.size,
            "version": file.version,
        }
        digest = await self._hash(path, file) if self._spec.identity == "content" else ""
        return None if digest is None else Item(self._listings.name_item(file, digest), data)

    async def _hash(self, path: str, file: File) -> str | None:
        digest, begin = hashlib.sha256(), 0
        url = self._address.make_url(path, {})
        while begin < file.size:
            asked = {"range": f"bytes={begin}-{begin + PIECE - 1}", "if-match": f'"{file.version}"'}
            got = await self._get(url, asked)
            if got.status in (404, 412, 416) or (got.status == 200 and begin):
                return None
            if got.status not in (200, 206) or not got.body:
                raise self._fail(got)
            await aside("", digest.update, got.body)
            begin += len(got.body)
        return digest.hexdigest() if begin == file.size else None

    async def _list(self, after: str, most: int | None = None) -> list[File]:
        """The objects after a name, in order of names: all of them, or at least `most`."""
        found: list[File] = []
        async for page in self._read_pages(after):
            found += [file for file in page.files if file.name > after]
            self._listings.check_number(len(found))
            if most is not None and len(found) >= most:
                break
        return sorted(found, key=lambda file: file.name)

    async def _read_last(self) -> list[File]:
        last: list[File] = []
        async for page in self._read_pages(""):
            last = sorted([*last, *page.files], key=lambda file: file.name)[-1:]
        return last

    async def _read_pages(self, after: str) -> AsyncIterator[_Page]:
        prefix = self._address.prefix
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/", "encoding-type": "url"}
        if after:
            query["start-after"] = prefix + after
        for _ in range(_MOST_PAGES):
            got = await self._get(self._address.make_url("", query), {})
            if got.status != 200:
                raise self._fail(got)
            page = await aside("", self._read_page, got.body)
            yield page
            if not page.next:
                return
            query["continuation-token"] = page.next
        raise SourceFailed(f"the listing of bucket {self._address.bucket} has no end")

    def _read_page(self, body: bytes) -> _Page:
        root = _parse(body)
        if root is None or _name(root) != "ListBucketResult":
            raise SourceFailed(f"bucket {self._address.bucket}: the answer is no listing; check the endpoint")
        told = {_name(part): part.text or "" for part in root}
        plain = told.get("EncodingType") != "url"
        files = []
        for part in root:
            if _name(part) != "Contents":
                continue
            said = {_name(one): one.text or "" for one in part}
            key = said.get("Key", "") if plain else unquote_plus(said.get("Key", ""))
            name, size = key.removeprefix(self._address.prefix), said.get("Size", "")
            if not key.startswith(self._address.prefix) or not name or "/" in name or not size.isdecimal():
                continue
            if self._listings.matches(name):
                files.append(File(name, int(size), said.get("ETag", "").strip('"')))
        is_cut = told.get("IsTruncated") == "true"
        return _Page(files, told.get("NextContinuationToken", "") if is_cut else "")

    async def _get(self, url: str, headers: dict[str, str]) -> Fetched:
        return await self._fetch(url, self._address.sign(url, self._clock.now(), headers))

    def _fail(self, got: Fetched) -> SourceFailed:
        root = _parse(got.body[:100_000])
        code = "" if root is None else next((part.text or "" for part in root if _name(part) == "Code"), "")
        bucket = f"bucket {self._address.bucket}"
        if 300 <= got.status < 400:
            return SourceFailed(f"{bucket} is elsewhere (HTTP {got.status}); say its region, or another endpoint")
        why = f"HTTP {got.status} {code[:80]}".rstrip()
        if got.status in (401, 403):
            return SourceFailed(f"{bucket} refuses the keys of the address ({why}); check them, and what they may list")
        return SourceFailed(f"{bucket} cannot be read: {why}")


def _parse(body: bytes) -> ElementTree.Element | None:
    """The XML of an answer; None: it is none, has more parts than a page, or defines entities, which no answer needs."""
    try:
        text = body.decode()
        if text.count("<") > _MOST_PARTS or "<!" in text:
            return None
        return ElementTree.fromstring(text)  # noqa: S314  no entities, and not many parts
    except (ElementTree.ParseError, ValueError):
        return None


def _name(part: ElementTree.Element) -> str:
    return part.tag.rpartition("}")[2]
