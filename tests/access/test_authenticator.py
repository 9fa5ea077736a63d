"""From a header to a principal, or to one and the same refusal."""

from typing import Any

import msgspec
import pytest

from perdure.access import LOCAL, Authenticator, Unauthenticated, check_exposure, open_authenticator
from perdure.access.authenticator import REMEMBER_SECONDS, REMEMBERED_KEYS, TOUCH_SECONDS
from perdure.errors import SettingsInvalid
from perdure.journals.sqlite import SqliteJournal
from perdure.settings import Settings
from tests.access.test_keys import issue


@pytest.fixture
def authenticator(archive, clock) -> Authenticator:
    return Authenticator(archive, clock, keys=True)


class Counting:
    """The archive, and how often it was asked."""

    def __init__(self, archive) -> None:
        self._archive = archive
        self.asked: list[str] = []

    def __getattr__(self, name: str):
        self.asked.append(name)
        return getattr(self._archive, name)


async def refused(authenticator, header) -> str:
    with pytest.raises(Unauthenticated) as error:
        await authenticator.authenticate(header)
    assert (error.value.code, error.value.status) == ("unauthenticated", 401)
    return error.value.message


async def test_a_key_gives_its_tenant_name_and_roles(authenticator, archive, clock):
    issued = await issue(archive, clock, scopes=("runs:start", "runs:read"))
    for scheme in ("Bearer", "bearer", "BEARER"):
        principal = await authenticator.authenticate(f"{scheme} {issued.text}")
        assert (principal.tenant, principal.name, principal.kind) == ("acme", "ci", "key")
        assert principal.key_id == issued.key.key_id
        assert principal.permissions == {"runs:start", "runs:read"}


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic eDp5", "perdure_0123456789abcdef_x", "Bearer\tx y"]
)
async def test_without_a_credential_nobody_gets_in(authenticator, header):
    assert "Authorization: Bearer <API key>" in await refused(authenticator, header)


async def test_every_wrong_key_has_the_same_answer(authenticator, archive, clock):
    good = await issue(archive, clock)
    expired = await issue(archive, clock, expires_at=clock.now() + 1)
    revoked = await issue(archive, clock)
    await archive.revoke_key("acme", revoked.key.key_id, clock.now())
    await clock.advance(1)
    wrong = [
        good.text[:-1] + ("a" if good.text[-1] != "a" else "b"),
        f"perdure_{'0' * 16}_{good.text[-43:]}",
        f"{expired.key.prefix}_{good.text[-43:]}",
        expired.text,
        revoked.text,
        good.text + "x",
        good.text[:-1],
        "perdure_nonsense",
        "eyJhbGciOiJIUzI1NiJ9.e30.x",
    ]
    assert len({await refused(authenticator, f"Bearer {text}") for text in wrong}) == 1
    await authenticator.authenticate(f"Bearer {good.text}")


async def test_a_revoked_key_fails_within_a_second_though_it_was_just_used(authenticator, archive, clock):
    issued = await issue(archive, clock)
    await authenticator.authenticate(f"Bearer {issued.text}")
    await archive.revoke_key("acme", issued.key.key_id, clock.now())
    assert REMEMBER_SECONDS < 1
    await clock.advance(REMEMBER_SECONDS)
    await refused(authenticator, f"Bearer {issued.text}")


async def test_an_expired_key_fails_at_once_though_it_is_remembered(authenticator, archive, clock):
    issued = await issue(archive, clock, expires_at=clock.now() + REMEMBER_SECONDS / 2)
    await authenticator.authenticate(f"Bearer {issued.text}")
    await clock.advance(REMEMBER_SECONDS / 2)
    await refused(authenticator, f"Bearer {issued.text}")


async def test_the_archive_is_asked_at_most_once_in_the_time_a_key_is_remembered(archive, clock):
    issued = await issue(archive, clock)
    counting = Counting(archive)
    authenticator = Authenticator(counting, clock, keys=True)
    unknown = f"Bearer perdure_{'0' * 16}_{'a' * 43}"
    for _ in range(100):
        await authenticator.authenticate(f"Bearer {issued.text}")
        await refused(authenticator, unknown)
    assert counting.asked.count("find_key") == 2
    await clock.advance(REMEMBER_SECONDS)
    await authenticator.authenticate(f"Bearer {issued.text}")
    await refused(authenticator, unknown)
    assert counting.asked.count("find_key") == 4


@pytest.mark.slow
async def test_what_is_remembered_is_bounded(archive, clock):
    class Nothing:
        async def find_key(self, key_id: str) -> None:
            return None

    nothing: Any = Nothing()
    authenticator = Authenticator(nothing, clock, keys=True)
    for number in range(REMEMBERED_KEYS + 50):
        await refused(authenticator, f"Bearer perdure_{number:016x}_{'a' * 43}")
    assert len(authenticator._remembered) == REMEMBERED_KEYS


async def test_the_last_use_is_noted_once_in_a_while(archive, clock):
    issued = await issue(archive, clock)
    counting = Counting(archive)
    authenticator = Authenticator(counting, clock, keys=True)
    start = clock.now()

    async def use() -> float | None:
        await authenticator.authenticate(f"Bearer {issued.text}")
        return (await archive.find_key(issued.key.key_id)).last_used_at

    assert await use() == start
    await clock.advance(TOUCH_SECONDS - 1)
    assert await use() == start
    await clock.advance(1)
    assert await use() == start + TOUCH_SECONDS
    assert counting.asked.count("touch_keys") == 2


async def test_a_wrong_secret_leaves_no_trace_of_use(authenticator, archive, clock):
    issued = await issue(archive, clock)
    await refused(authenticator, f"Bearer {issued.key.prefix}_{'a' * 43}")
    assert (await archive.find_key(issued.key.key_id)).last_used_at is None


async def test_a_key_works_where_its_use_cannot_be_noted(archive, clock, journal, tmp_path, caplog):
    issued = await issue(archive, clock)
    await journal.close()
    reading = await SqliteJournal.open(tmp_path / "perdure.db", read_only=True)
    principal = await Authenticator(reading.archive, clock, keys=True).authenticate(f"Bearer {issued.text}")
    await reading.close()
    assert principal.name == "ci"
    assert "could not be stored" in caplog.text


async def test_an_open_server_takes_everybody_for_the_local_administrator(archive, clock):
    authenticator = open_authenticator(Settings(), archive, clock)
    for header in (None, "Bearer perdure_x", "nonsense"):
        assert await authenticator.authenticate(header) is LOCAL
    assert (LOCAL.tenant, LOCAL.name, LOCAL.roles, LOCAL.kind) == ("default", "local", ("admin",), "local")


async def test_each_mode_accepts_its_own_credentials_alone(archive, clock):
    import jwt

    secret = "s" * 32
    issued = await issue(archive, clock)
    claims = {"sub": "bob", "tenant": "globex", "roles": ["viewer"], "exp": 4_000_000_000}
    token = jwt.encode(claims, secret, "HS256")
    found: dict[tuple[str, str], str | None] = {}
    for auth in ("keys", "jwt", "keys,jwt"):
        settings = msgspec.structs.replace(Settings(), auth=auth, jwt_secret=secret)
        authenticator = open_authenticator(settings, archive, clock)
        for kind, text in (("key", issued.text), ("token", token)):
            try:
                found[auth, kind] = (await authenticator.authenticate(f"Bearer {text}")).name
            except Unauthenticated:
                found[auth, kind] = None
    assert found == {
        ("keys", "key"): "ci",
        ("keys", "token"): None,
        ("jwt", "key"): None,
        ("jwt", "token"): "bob",
        ("keys,jwt", "key"): "ci",
        ("keys,jwt", "token"): "bob",
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_an_open_server_may_listen_on_the_loopback_interface(host):
    check_exposure(Settings(), host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",
        "::",
        "192.168.1.5",
        "10.0.0.1",
        "example.com",
        "localhost.evil.com",
        "127.1",
        "8.8.8.8",
        "fe80::1",
    ],
)
def test_an_open_server_refuses_to_listen_elsewhere(host):
    with pytest.raises(SettingsInvalid, match="PERDURE_AUTH=keys"):
        check_exposure(Settings(), host)
    for auth in ("keys", "jwt", "keys,jwt"):
        check_exposure(msgspec.structs.replace(Settings(), auth=auth), host)
