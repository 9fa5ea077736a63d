"""Files that `-o` writes are whole, or as they were; nobody leads them elsewhere (S26)."""

import os
import stat
import tempfile

import click
import pytest

from perdure.cli.frame import output_file
from perdure.cli.frame.output_file import opened_output
from tests.attack.marks import attack


def names(folder):
    return sorted(one.name for one in folder.iterdir())


def test_it_is_written_with_the_rights_of_any_new_file(tmp_path):
    mask = os.umask(0o027)
    try:
        with opened_output(tmp_path / "new") as file:
            file.write(b"content")
            assert names(tmp_path) != ["new"]  # only at the end
    finally:
        os.umask(mask)
    assert (tmp_path / "new").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert names(tmp_path) == ["new"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failure_leaves_the_file_as_it_was(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(0o604)
    expected = click.ClickException if isinstance(error, OSError) else type(error)

    def break_off():
        with opened_output(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(expected):
        break_off()
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]
    with opened_output(path) as file:
        file.write(b"after")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"after", 0o604)


def test_a_link_of_ones_own_is_followed_and_stays(tmp_path):
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / "link").symlink_to("real")
    with opened_output(tmp_path / "link") as file:
        file.write(b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"after"


@attack("S26", "a link where the output of a command is to be, in a folder of everybody")
@pytest.mark.parametrize("rights", [0o1777, 0o777, 0o1755])
def test_a_link_in_a_folder_of_everybody_is_not_followed(tmp_path, rights):
    folder, precious = tmp_path / "everybody", tmp_path / "precious"
    folder.mkdir()
    folder.chmod(rights)
    precious.write_bytes(b"precious")
    (folder / "out").symlink_to(precious)
    with opened_output(folder / "out") as file:
        file.write(b"content")
    assert precious.read_bytes() == b"precious"
    assert not (folder / "out").is_symlink()
    assert (folder / "out").read_bytes() == b"content"
    with precious.open("r+b") as mine:  # what this process has open is nothing that others may name either
        (folder / "open").symlink_to(f"/proc/self/fd/{mine.fileno()}")
        with opened_output(folder / "open") as file:
            file.write(b"content")
    assert precious.read_bytes() == b"precious"


def test_a_device_is_written_to_and_stays(tmp_path):
    with opened_output("/dev/null") as file:
        file.write(b"content")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for wrong in (tmp_path, tmp_path / "none" / "file"):
        with pytest.raises(click.ClickException, match="cannot write"), opened_output(wrong):
            pass


def test_what_this_process_has_open_is_written_to():
    """As `-o /dev/stdout` in a pipeline, and `-o >(gzip > file)`."""
    reader, writer = os.pipe()
    try:
        with opened_output(f"/dev/fd/{writer}") as file:
            file.write(b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
        os.close(writer)


def test_a_file_that_this_process_has_open_stays_the_same(tmp_path):
    """Otherwise what is written to it afterwards would be lost."""
    with (tmp_path / "out").open("wb") as out:
        number = os.fstat(out.fileno()).st_ino
        with opened_output(f"/proc/self/fd/{out.fileno()}") as file:
            file.write(b"content")
    assert ((tmp_path / "out").read_bytes(), os.stat(tmp_path / "out").st_ino) == (b"content", number)


def test_an_export_that_breaks_off_leaves_no_half_file(shell, tmp_path, monkeypatch):
    (tmp_path / "out.json").write_text("before")
    shell.run("runs", "export", "none", "-o", tmp_path / "out.json", code=1)
    assert (tmp_path / "out.json").read_text() == "before"
    assert not [name for name in names(tmp_path) if name.endswith(output_file.SUFFIX)]


def test_a_file_in_a_folder_that_cannot_be_written_is_refused_in_plain_words(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(click.ClickException) as refused, opened_output(path):
        pass
    assert "one that is made beside it" in refused.value.message
    assert "-o /dev/stdout > file" in refused.value.message
    assert path.read_bytes() == b"before"
    with (
        pytest.raises(click.ClickException, match=r"cannot write .*new: Permission denied"),
        opened_output(tmp_path / "new"),
    ):
        pass
