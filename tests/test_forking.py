"""The quick `perdure` of documents is what the other one is."""

import os
import signal
import subprocess

import pytest

from tests.forking import REAL, Forked, commands, run
from tests.processes import python_path
from tests.waiting import wait_until


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


@pytest.mark.slow
def test_what_is_forked_is_signalled_and_its_end_is_known(tmp_path):
    (tmp_path / "w.yaml").write_text(
        "name: w\nnodes:\n  - {id: a, type: task, config: {function: 'tests.cli.work:wait_until', args: {path: never, begun: begun}}}\n"
    )
    environment = {**os.environ, "PYTHONPATH": python_path()}
    process = Forked(["run", "w.yaml", "--run-id", "r1"], cwd=tmp_path, env=environment)
    wait_until((tmp_path / "begun").exists, "the function of a module on PYTHONPATH")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGKILL)
    assert (process.wait(60), process.poll()) == (-signal.SIGKILL, -signal.SIGKILL)
    process.send_signal(signal.SIGKILL)  # reaches nobody
    done = run(["runs", "show", "r1"], cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "running" in done.stdout
