"""The units of the deployment page have the limits that keep one process from taking the machine with it (S07)."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.api.protocol import Bounds

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "deployment.md"
UNITS = {
    found[1]: found[2]
    for found in re.finditer(r"```ini\n# (\S+\.service)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
}


def test_there_is_a_unit_for_each_kind_of_process():
    assert list(UNITS) == ["perdure-serve.service", "perdure-worker@.service"]


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_has_its_limits(name):
    text = re.sub(r"^EnvironmentFile=.*\n", "", UNITS[name], flags=re.MULTILINE)  # a key that is there twice
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert int(service["LimitNOFILE"]) >= 2 * Bounds().connections
    assert int(service["TasksMax"]) <= 4096
    assert service["MemoryMax"].endswith("G")
    assert service["NoNewPrivileges"] == service["ProtectHome"] == service["PrivateTmp"] == "true"
    assert service["ProtectSystem"] == "strict"
    assert service["User"] != "root"


@pytest.mark.parametrize("name", UNITS)
def test_systemd_reads_a_unit_without_a_complaint(name, tmp_path):
    """Where there is a systemd; what the unit starts need not be installed."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    text = UNITS[name].replace("/opt/perdure/bin/perdure", "/bin/true")
    text = re.sub(r"^WorkingDirectory=.*$", f"WorkingDirectory={tmp_path}", text, flags=re.MULTILINE)
    file = tmp_path / name.replace("@.", "@default.")
    file.write_text(text)
    done = subprocess.run([analyze, "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60)  # noqa: PLW1510
    assert (done.returncode, file.name in done.stderr) == (0, False), done.stderr
