"""The table of roles and permissions: written out, and denying what it does not give."""

import pytest

from perdure.access import (
    PERMISSIONS,
    Forbidden,
    InvalidRole,
    Permission,
    Role,
    check_roles,
    make_principal,
    permissions_of,
)

# Who may do what. A change here is a change of what somebody's key can do.
TABLE = """
                      viewer operator approver author admin
runs:read             x      x        x        x      x
runs:start            .      x        .        x      x
runs:operate          .      x        .        x      x
runs:patch            .      .        .        x      x
workflows:read        x      x        x        x      x
workflows:write       .      .        .        x      x
workflows:delete      .      .        .        x      x
approvals:read        x      x        x        x      x
approvals:decide      .      .        x        .      x
dead_letters:read     x      x        x        x      x
dead_letters:operate  .      x        .        x      x
blobs:read            x      x        x        x      x
blobs:write           .      x        .        x      x
system:read           x      x        x        x      x
system:operate        .      .        .        .      x
costs:read            x      x        x        x      x
costs:write           .      .        .        .      x
keys:admin            .      .        .        .      x
audit:read            .      .        .        .      x
"""


def test_the_table_is_the_one_written_here():
    heading, *rows = [line.split() for line in TABLE.strip().splitlines()]
    assert heading == list(Role)
    written = {role: {row[0] for row in rows if row[1 + heading.index(role)] == "x"} for role in heading}
    assert [row[0] for row in rows] == list(Permission)
    assert written == {role: set(given) for role, given in PERMISSIONS.items()}


def test_every_role_can_look_and_the_administrator_can_do_everything():
    assert all(PERMISSIONS[Role.VIEWER] <= given for given in PERMISSIONS.values())
    assert PERMISSIONS[Role.ADMIN] == set(Permission)


def test_roles_add_up():
    both = permissions_of(["approver", "operator"])
    assert both == PERMISSIONS["approver"] | PERMISSIONS["operator"]


def test_unknown_roles_give_nothing():
    assert permissions_of([]) == set()
    assert permissions_of(["root", "Admin", "admin ", "*", ""]) == set()


def test_scopes_take_away_and_never_add():
    assert permissions_of(["viewer"], ["runs:read", "runs:start", "keys:admin"]) == {"runs:read"}
    assert permissions_of(["admin"], ["*"]) == set()
    assert permissions_of(["admin"], ["runs:start"]) == {"runs:start"}


@pytest.mark.parametrize("role", list(Role))
def test_a_principal_may_do_exactly_what_its_role_gives(role):
    principal = make_principal(tenant="acme", name="ada", kind="key", roles=(role,))
    for permission in Permission:
        assert principal.may(permission) == (permission in PERMISSIONS[role])
        if principal.may(permission):
            principal.require(permission)
        else:
            with pytest.raises(Forbidden, match=f"ada may not do this: it needs the permission {permission}") as error:
                principal.require(permission)
            assert (error.value.code, error.value.status) == ("forbidden", 403)


def test_what_is_not_in_the_table_is_refused_with_everything_that_is_wrong():
    check_roles(["viewer", "admin"], ["runs:read"])
    with pytest.raises(InvalidRole) as error:
        check_roles(["viewr", "zzz"], ["run:read"])
    assert error.value.message.startswith(
        "unknown role 'viewr'; did you mean 'viewer'?; unknown role 'zzz'; known are viewer,"
    )
    assert error.value.message.endswith("unknown scope 'run:read'; did you mean 'runs:read'?")
    with pytest.raises(InvalidRole, match="no role"):
        check_roles([], [])
