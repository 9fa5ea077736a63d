"""A session lives as long as it is used, as its credential, and as it may; then it is refused as if it had never been."""

import jwt
import pytest

from perdure.access import Authenticator, Sessions, Unauthenticated
from perdure.access.authenticator import REMEMBER_SECONDS
from perdure.access.sessions import IDLE_SECONDS, LONGEST_SECONDS, MOST_SESSIONS
from perdure.access.tokens import TokenRules, Tokens
from perdure.clock import system
from tests.access.test_keys import issue

SECRET = "a secret of tests that is long enough for HS256"


@pytest.fixture
def authenticator(archive, clock) -> Authenticator:
    return Authenticator(archive, clock, keys=True, tokens=Tokens(TokenRules(secret=SECRET), clock))


@pytest.fixture
def sessions(archive, clock, authenticator) -> Sessions:
    return Sessions(archive, clock, authenticator)


def token(seconds: int = 3600) -> str:
    claims = {"sub": "ann", "tenant": "acme", "roles": ["author"], "exp": int(system.now()) + seconds}
    return jwt.encode(claims, SECRET, algorithm="HS256")


async def ended(sessions, text) -> bool:
    try:
        await sessions.authenticate(text)
    except Unauthenticated:
        return True
    return False


async def test_a_session_has_what_its_key_has_and_its_secret_is_nowhere(sessions, archive, clock):
    issued = await issue(archive, clock, scopes=("runs:start", "runs:read"))
    opened = await sessions.open(issued.text, agent="Fire\nfox" + "x" * 300)
    principal = await sessions.authenticate(opened.text)
    assert (principal.tenant, principal.name, principal.kind, principal.key_id) == (
        "acme",
        "ci",
        "key",
        issued.key.key_id,
    )
    assert principal.permissions == {"runs:start", "runs:read"}
    assert principal.session_id == opened.session.session_id
    assert "\n" not in opened.session.agent
    assert len(opened.session.agent) <= 200
    assert opened.text not in repr(opened)
    assert opened.text not in repr(opened.session)


async def test_a_session_of_a_token_keeps_its_roles_and_ends_with_it(archive, sessions, clock):
    await clock.advance(system.now() - clock.now())  # PyJWT itself looks at the machine's clock
    opened = await sessions.open(token(3600))
    assert clock.now() + 3500 < opened.session.expires_at <= clock.now() + 3600
    principal = await sessions.authenticate(opened.text)
    assert (principal.tenant, principal.name, principal.kind, principal.roles) == ("acme", "ann", "jwt", ("author",))
    await clock.advance(opened.session.expires_at - clock.now())
    assert await ended(sessions, opened.text)


async def test_it_ends_after_twelve_hours_without_use_and_not_before(sessions, archive, clock):
    opened = await sessions.open((await issue(archive, clock)).text)
    for _ in range(3):
        await clock.advance(IDLE_SECONDS - 1)
        assert not await ended(sessions, opened.text)
    await clock.advance(IDLE_SECONDS)
    assert await ended(sessions, opened.text)


async def test_use_in_one_process_counts_in_another(sessions, archive, clock, authenticator):
    opened = await sessions.open((await issue(archive, clock)).text)
    other = Sessions(archive, clock, authenticator)
    for used in (sessions, other, sessions):
        await clock.advance(IDLE_SECONDS - 1)
        assert not await ended(used, opened.text)


async def test_it_ends_after_seven_days_however_it_is_used(sessions, archive, clock):
    opened = await sessions.open((await issue(archive, clock)).text)
    begun = clock.now()
    while clock.now() + 6 * 3600 < begun + LONGEST_SECONDS:
        await clock.advance(6 * 3600)
        assert not await ended(sessions, opened.text)
    await clock.advance(begun + LONGEST_SECONDS - clock.now())
    assert await ended(sessions, opened.text)


async def test_it_does_not_outlive_its_key(sessions, archive, clock):
    opened = await sessions.open((await issue(archive, clock, expires_at=clock.now() + 100)).text)
    assert opened.session.expires_at == clock.now() + 100
    await clock.advance(99)
    assert not await ended(sessions, opened.text)
    await clock.advance(1)
    assert await ended(sessions, opened.text)


async def test_revoking_its_key_ends_it_within_a_second(sessions, archive, clock):
    issued = await issue(archive, clock)
    opened = await sessions.open(issued.text)
    assert not await ended(sessions, opened.text)
    await archive.revoke_key("acme", issued.key.key_id, clock.now())
    await clock.advance(REMEMBER_SECONDS)
    assert await ended(sessions, opened.text)


async def test_ended_elsewhere_it_ends_here_within_a_second_and_at_once_where_it_was_ended(
    sessions, archive, clock, authenticator
):
    opened = await sessions.open((await issue(archive, clock)).text)
    other = Sessions(archive, clock, authenticator)
    assert not await ended(sessions, opened.text)
    assert not await ended(other, opened.text)
    assert (await sessions.end(opened.text)).session_id == opened.session.session_id
    assert await sessions.end(opened.text) is None
    assert await ended(sessions, opened.text)
    await clock.advance(REMEMBER_SECONDS)
    assert await ended(other, opened.text)


async def test_each_login_has_a_new_secret_and_ends_the_session_it_replaces(sessions, archive, clock):
    issued = await issue(archive, clock)
    first = await sessions.open(issued.text)
    second = await sessions.open(issued.text, before=first.text)
    assert first.text != second.text
    assert await ended(sessions, first.text)
    assert not await ended(sessions, second.text)


@pytest.mark.parametrize("text", ["", "x", "a" * 43, "ü" * 43, "a" * 100_000])
async def test_what_is_no_session_is_refused(sessions, text):
    assert await ended(sessions, text)
    assert await sessions.end(text) is None


async def test_a_session_is_refused_where_its_kind_of_credential_no_longer_is(sessions, archive, clock):
    of_key = await sessions.open((await issue(archive, clock)).text)
    of_token = await sessions.open(token())
    keys = Sessions(archive, clock, Authenticator(archive, clock, keys=True))
    tokens = Sessions(
        archive, clock, Authenticator(archive, clock, keys=False, tokens=Tokens(TokenRules(secret=SECRET), clock))
    )
    assert [await ended(keys, one.text) for one in (of_key, of_token)] == [False, True]
    assert [await ended(tokens, one.text) for one in (of_key, of_token)] == [True, False]


async def test_one_credential_keeps_so_many_sessions_and_the_oldest_make_room(sessions, archive, clock):
    issued = await issue(archive, clock)
    opened = []
    for _ in range(MOST_SESSIONS + 2):
        await clock.advance(0.001)
        opened.append(await sessions.open(issued.text))
    assert [await ended(sessions, one.text) for one in opened[:3]] == [True, True, False]
    assert not await ended(sessions, opened[-1].text)
