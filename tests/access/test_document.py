"""What docs/operations/access.md says of roles is the table of the source. Its commands are executed by tests/test_docs.py."""

import re
from pathlib import Path

from perdure.access import PERMISSIONS, Permission, Role

DOCUMENT = (Path(__file__).parents[2] / "docs" / "operations" / "access.md").read_text(encoding="utf-8")


def test_the_table_of_roles_is_the_one_in_force():
    heading = re.search(r"^\| \| (.+) \|$", DOCUMENT, re.MULTILINE)
    assert heading is not None
    roles = heading[1].split(" | ")
    rows = re.findall(r"^\| `([a-z_]+:[a-z]+)` \|(.+)\|$", DOCUMENT, re.MULTILINE)
    marks = {permission: [cell.strip() == "x" for cell in cells.split("|")] for permission, cells in rows}
    assert roles == list(Role)
    assert list(marks) == list(Permission)
    assert marks == {one: [one in PERMISSIONS[role] for role in roles] for one in Permission}
