"""`perdure assets`: files that outlive the run they came from, in versions."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.output_file import opened_output
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import moment, print_fields, print_json, print_table
from perdure.cli.terminal.speech import echo

PART = 8 * 1024 * 1024


@click.group(cls=Group)
def assets() -> None:
    """Assets: files that outlive the run they came from, in versions."""


@assets.command("list", short_help="List assets and their versions.")
@click.argument("name", default="")
@where_options
@json_option
def list_(name: str, where: Where, as_json: bool) -> None:
    """List the versions of NAME, or of all assets."""
    found = asyncio.run(_list(where, name))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        [
            one["name"],
            str(one["version"]),
            one["media_type"],
            f"{one['size']:,}",
            one["run_id"] or "uploaded",
            moment(one["kept_at"]),
        ]
        for one in found
    ]
    print_table(["name", "version", "type", "bytes", "from", "kept"], rows)


@assets.command(short_help="Keep an asset that a node gave, beyond its run.")
@click.argument("run_id", metavar="RUN")
@click.argument("node")
@click.option(
    "--as", "name", default="", metavar="NAME", help="Of what it becomes a version; default: the file's name."
)
@click.option("--pointer", default="", metavar="PATH", help="Which of several assets, such as /files/0.")
@click.option("--visit", type=click.IntRange(0), help="Of which visit of the node; default: the last.")
@click.option("--item", type=click.IntRange(0), help="Of which item of a map.")
@where_options
@json_option
def promote(
    run_id: str, node: str, name: str, pointer: str, visit: int | None, item: int | None, where: Where, as_json: bool
) -> None:
    """Keep the asset that NODE of RUN gave as the next version of its name."""
    view = asyncio.run(_promote(where, run_id, node, {"name": name, "pointer": pointer, "visit": visit, "item": item}))
    _show(view, as_json)


@assets.command(short_help="Keep a file as the next version of a name.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--as", "name", default="", metavar="NAME", help="Of what it becomes a version; default: the file's name."
)
@click.option("--media-type", default="", metavar="TYPE", help="What the file is; default: what its name says.")
@where_options
@json_option
def put(file: Path, name: str, media_type: str, where: Where, as_json: bool) -> None:
    """Keep FILE, of any size, as the next version of a name. Its value (`--json`, `asset`) can be an input of a run."""
    _show(asyncio.run(_put(where, file, name or file.name, media_type)), as_json)


@assets.command(short_help="Write the content of an asset to a file.")
@click.argument("name")
@click.option("--version", type=click.IntRange(1), help="Which version; default: the newest.")
@click.option("-o", "--output", metavar="FILE", help="Where to; default: a new file of its own name, here.")
@where_options
@json_option
def get(name: str, version: int | None, output: str | None, where: Where, as_json: bool) -> None:
    """Write the content of NAME to a file, checked against its hash. Without -o, no file that exists is replaced."""
    view, file = asyncio.run(_get(where, name, version, output))
    if as_json:
        print_json({**view, "file": file})
    else:
        say(f"{view['size']:,} bytes written to {file}")


@assets.command(short_help="Delete a version of an asset.")
@click.argument("name")
@click.argument("version", type=click.IntRange(1))
@where_options
@json_option
def delete(name: str, version: int, where: Where, as_json: bool) -> None:
    """Delete VERSION of NAME. Its number is not given again; `perdure gc` takes the content, unless a run names it."""
    view = asyncio.run(_delete(where, name, version))
    if as_json:
        print_json(view)
    else:
        echo(f"deleted: {view['name']}, version {view['version']}")


def _show(view: Any, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    print_fields(
        {
            "name": view["name"],
            "version": str(view["version"]),
            "type": view["media_type"],
            "size": f"{view['size']:,} bytes",
            "ref": view["asset"]["$asset"]["ref"],
        }
    )


async def _list(where: Where, name: str) -> list[Any]:
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        return [one async for one in backend.assets.list(name=name)]


async def _promote(where: Where, run_id: str, node: str, which: dict[str, Any]) -> Any:
    from perdure.cli.frame.backend import connected, resolve_run

    async with connected(where) as backend:
        run = await resolve_run(backend, run_id)
        return await backend.assets.promote(run["run_id"], node, **which)


async def _put(where: Where, path: Path, name: str, media_type: str) -> Any:
    import mimetypes

    from perdure.cli.frame.backend import connected

    media_type = media_type or mimetypes.guess_type(path.name)[0] or ""
    async with connected(where, make=True) as backend:
        parts: list[str] = []
        with path.open("rb") as file:
            while (data := file.read(PART)) or not parts:
                parts.append((await backend.blobs.put(data))["ref"])
        return await backend.assets.put(name, parts, media_type=media_type, file_name=path.name)


def _choose(view: Any) -> str:
    """A new file of the asset's own name, which is data, also of a server: it is neither hidden nor somewhere else."""
    from perdure.assets import find_file_trouble

    name = (view["file_name"] or view["name"]).lstrip(".") or "asset"
    if (trouble := find_file_trouble(name)) is not None:
        raise click.UsageError(f"the asset names no file ({trouble}); say with -o where the content goes")
    if Path(name).exists():
        raise click.UsageError(f"{name} exists; say with -o where the content goes")
    return str(name)


async def _get(where: Where, name: str, version: int | None, output: str | None) -> tuple[Any, str]:
    import hashlib

    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        view = await backend.assets.get(name, version=version)
        output = _choose(view) if output is None else output
        seen = hashlib.sha256()
        with ExitStack() as stack:
            file = stack.enter_context(opened_output(output))
            for first in range(0, view["size"], PART):
                count = min(PART, view["size"] - first)
                data = await backend.assets.part(name, version=view["version"], first=first, count=count)
                seen.update(data)
                file.write(data)
        if not view["asset"]["$asset"]["ref"].endswith(seen.hexdigest()):
            raise click.ClickException(f"what was written to {output} is not what was kept: the blob store is damaged")
        return view, output


async def _delete(where: Where, name: str, version: int) -> Any:
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        return await backend.assets.delete(name, version)
