"""The quick `perdure` of documents is what the other one is."""

import os
import subprocess

import pytest

from tests.forking import REAL, commands


def asked(program, *arguments, folder, **environment):
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "90", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_folder_arguments_environment_output_and_exit_code_are_the_same(tmp_path):
    (tmp_path / "b.yaml").write_text(
        "name: b\nnodes:\n  - {id: a, type: transform, config: {value: '{{ inputs.x + 1 }}'}}\n"
    )
    (tmp_path / "bad.yaml").write_text("name: bad\nnodes: [{id: a}]\n")
    quick = f"{commands()}/perdure"
    for arguments in (["--version"], ["validate", "b.yaml"], ["validate", "bad.yaml"], ["nonsense é"], []):
        assert asked(quick, *arguments, folder=tmp_path) == asked(REAL, *arguments, folder=tmp_path), arguments
    code, printed, error = asked(quick, "runs", "list", folder=tmp_path, PERDURE_DATABASE_URL="nowhere://")
    assert (code, printed) == (1, b"")
    assert b"nowhere" in error
