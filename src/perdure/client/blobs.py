"""Blobs: content by its hash."""

from __future__ import annotations

from perdure.client import views as v
from perdure.client.http_calls import Call, path_of, read_bytes
from perdure.client.operations import AsyncNoun, Noun, operation

PAGE = 100


class BlobsCalls:
    """Large values, by the hash of their content."""

    @operation
    def get(self, ref: str) -> Call[bytes]:
        """The bytes exactly as they were put. `ref` is `cas://sha256:…` or `sha256:…`."""
        return Call(method="GET", path=path_of("blobs", ref.removeprefix("cas://")), repeatable=True, read=read_bytes)

    @operation
    def stat(self, ref: str) -> Call[v.BlobStat]:
        """The size of a blob, and when it was last put, without its content."""
        return Call(method="GET", path=path_of("blobs", ref.removeprefix("cas://"), "stat"), repeatable=True)

    @operation
    def put(self, data: bytes) -> Call[v.BlobPut]:
        """Store the bytes; the answer has the reference by which a definition names them."""
        headers = {"Content-Type": "application/octet-stream"}
        return Call(method="POST", path="/blobs", body=data, headers=headers, repeatable=True)


class Blobs(BlobsCalls, Noun):
    __doc__ = BlobsCalls.__doc__


class AsyncBlobs(BlobsCalls, AsyncNoun):
    __doc__ = BlobsCalls.__doc__
