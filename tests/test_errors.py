"""The tree of errors: codes are public, so they are unique and listed here."""

import ast
from pathlib import Path

from perdure import errors
from perdure.errors import Conflict, PerdureError, Refused

DOCSTRING = errors.__doc__ or ""


def all_errors() -> list[type[PerdureError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PerdureError)]


def test_codes_are_unique_and_never_renamed():
    assert {kind.__name__: kind.code for kind in all_errors()} == {
        "PerdureError": "error",
        "SettingsInvalid": "settings_invalid",
        "NotFound": "not_found",
        "Refused": "refused",
        "Conflict": "conflict",
        "IntegrityError": "integrity_error",
        "StoreUnavailable": "store_unavailable",
        "SchemaTooNew": "schema_too_new",
        "SchemaTooOld": "schema_too_old",
    }
    codes = [kind.code for kind in all_errors()]
    assert len(codes) == len(set(codes))


def test_every_error_is_drawn_in_the_tree():
    assert [kind.__name__ for kind in all_errors() if kind.__name__ not in DOCSTRING] == []


def test_every_class_states_its_own_code():
    tree = ast.parse(Path(errors.__file__).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    without = [node.name for node in classes if "code" not in vars(getattr(errors, node.name))]
    assert without == []


def test_a_refusal_may_carry_a_code_of_its_own():
    assert Refused("run r1 has ended").code == "refused"
    refusal = Refused("run r1 has ended; retry it instead", code="run_ended")
    assert (refusal.code, refusal.message, str(refusal)) == ("run_ended", *["run r1 has ended; retry it instead"] * 2)
    assert Refused.code == "refused"
    assert Conflict("run r1 moved on").status == 409
