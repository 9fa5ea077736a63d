"""Every rule of docs/internals/semantics.md has a test that is found by its number."""

import re
from collections import Counter
from pathlib import Path

from tests.test_law import anchors_of

RULES = [int(name.removeprefix("rule-")) for name in anchors_of("semantics.md")]


def test_each_rule_has_a_test():
    here = Path(__file__).parent
    names = [
        name
        for file in here.glob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_rule_\w+)", file.read_text(), re.MULTILINE)
    ]
    found = Counter(int(name.split("_")[2]) for name in names)
    assert [rule for rule in RULES if not found[rule]] == []
    assert [rule for rule in found if rule not in RULES] == []
    assert [name for name, count in Counter(names).items() if count > 1] == []
