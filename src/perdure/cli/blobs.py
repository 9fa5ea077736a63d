"""`perdure blobs`: store content, and read it by its hash."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.output_file import opened_output
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import moment, print_fields, print_json
from perdure.cli.terminal.speech import echo

MAX_BYTES = 1024 * 1024 * 1024


@click.group(cls=Group)
def blobs() -> None:
    """Blobs: large values, kept by the hash of their content. A definition may name one by it: config_ref and others."""


@blobs.command(short_help="Keep the content of a file; print its reference.")
@click.argument("file")
@where_options
@json_option
def put(file: str, where: Where, as_json: bool) -> None:
    """Keep the content of FILE (- reads standard input) and print its reference."""
    data = _read(file)
    ref = asyncio.run(_put(where, data))
    if as_json:
        print_json({"ref": ref, "size": len(data)})
    else:
        echo(ref)


def _read(file: str) -> bytes:
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"{file} has more than {MAX_BYTES} bytes")
    return data


async def _put(where: Where, data: bytes) -> Any:
    from perdure.cli.frame.backend import connected

    async with connected(where, make=True) as backend:
        return (await backend.blobs.put(data))["ref"]


@blobs.command(short_help="Print the content that a reference names.")
@click.argument("ref")
@click.option("-o", "--output", metavar="FILE", help="Write it there; default: standard output.")
@where_options
@json_option
def get(ref: str, output: str | None, where: Where, as_json: bool) -> None:
    """Print the content that REF (cas://sha256:…, or sha256:…) names, checked against its hash: byte for byte,
    but on a terminal, which must not obey it, as text."""
    data = asyncio.run(_get(where, ref))
    if output is not None:
        with opened_output(output) as file:
            file.write(data)
        if as_json:
            print_json({"ref": ref, "size": len(data), "file": output})
        else:
            say(f"{len(data):,} bytes written to {output}")
    elif as_json:
        import base64

        print_json({"ref": ref, "size": len(data), "content_base64": base64.b64encode(data).decode()})
    else:
        if sys.stdout.isatty():
            echo(data.decode(errors="replace"), nl=not data.endswith(b"\n"))
            return
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@blobs.command(short_help="Say how large a blob is, and when it was put.")
@click.argument("ref")
@where_options
@json_option
def stat(ref: str, where: Where, as_json: bool) -> None:
    """Say how large the content is that REF names, and when it was put last."""
    found = asyncio.run(_stat(where, ref))
    if as_json:
        print_json({"ref": ref, **found})
    else:
        print_fields({"ref": ref, "size": f"{found['size']:,} bytes", "put": moment(found["modified_at"])})


async def _get(where: Where, ref: str) -> bytes:
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        return await backend.blobs.get(ref)


async def _stat(where: Where, ref: str) -> Any:
    from perdure.cli.frame.backend import connected

    async with connected(where) as backend:
        return await backend.blobs.stat(ref)
