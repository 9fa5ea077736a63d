"""Assets that outlive their run, in versions."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, given, path_of, post, put, read_bytes
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class AssetsCalls:
    """Files that outlive the run they came from."""

    @listing
    def list(self, *, name: str = "", limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.AssetVersion]]:
        """The versions of one name, or of all, by name and version."""
        return get("assets", name=name or None, limit=limit, cursor=cursor)

    @operation
    def get(self, name: str, *, version: int | None = None) -> Call[v.AssetVersion]:
        """A version; without one the newest."""
        return get("assets", name, version=version)

    @operation
    def promote(
        self,
        run_id: str,
        node: str,
        *,
        name: str = "",
        pointer: str = "",
        visit: int | None = None,
        item: int | None = None,
    ) -> Call[v.AssetVersion]:
        """Keep an asset that a node gave as the next version of a name, by default of its own: it outlives the run. Of several that
        the node gave, `pointer` says which, such as `/files/0`."""
        body = {"run_id": run_id, "node": node, "name": name, "pointer": pointer, **given(visit=visit, item=item)}
        return post("assets", body=body)

    @operation
    def put(
        self, name: str, parts: Sequence[str], *, media_type: str = "", file_name: str = ""
    ) -> Call[v.AssetVersion]:
        """Keep content that was put with `blobs.put`, part by part, as the next version of a name."""
        return put("assets", name, body={"parts": [*parts], "media_type": media_type, "file_name": file_name})

    @operation
    def part(self, name: str, *, version: int | None = None, first: int = 0, count: int = 1024 * 1024) -> Call[bytes]:
        """Read `count` bytes of the content from `first` on."""
        return Call(
            method="GET",
            path=path_of("assets", name, "content"),
            query={"version": version},
            headers={"Range": f"bytes={first}-{first + count - 1}"},
            repeatable=True,
            read=read_bytes,
        )

    @operation
    def delete(self, name: str, version: int) -> Call[v.AssetVersion]:
        """Delete a version. Its number is not given again."""
        return delete("assets", name, version=version)


class Assets(AssetsCalls, Noun):
    __doc__ = AssetsCalls.__doc__


class AsyncAssets(AssetsCalls, AsyncNoun):
    __doc__ = AssetsCalls.__doc__
