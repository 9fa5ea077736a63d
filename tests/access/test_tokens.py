"""JSON Web Tokens: only those that are signed as the settings say, in time, and name a tenant."""

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from perdure.access import Unauthenticated
from perdure.access.tokens import LEEWAY_SECONDS, TOKEN_BYTES, TokenRules, Tokens
from perdure.clock import SystemClock
from perdure.errors import SettingsInvalid
from tests.attack.marks import attack

SECRET = "correct horse battery staple 12345"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def claims(**fields):
    values: dict[str, Any] = {"sub": "ada", "tenant": "acme", "roles": ["operator"], "exp": time.time() + 60}
    return {name: value for name, value in (values | fields).items() if value is not None}


def token(key=SECRET, algorithm="HS256", headers=None, **fields) -> str:
    return jwt.encode(claims(**fields), key, algorithm, headers=headers)


def public_pem(key) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def jwk(key, algorithm: str, kid: str | None) -> dict:
    data = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return data | ({"kid": kid} if kid else {})


@pytest.fixture
def shared() -> Tokens:
    return Tokens(TokenRules(secret=SECRET))


@pytest.fixture
def files(tmp_path):
    def write(content: object, **rules) -> TokenRules:
        path = tmp_path / "keys"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return TokenRules(keys_file=str(path), **rules)

    return write


def refuse(tokens: Tokens, text: str) -> str:
    with pytest.raises(Unauthenticated) as error:
        tokens.principal(text)
    return error.value.message


def test_a_token_gives_its_tenant_subject_and_roles(shared):
    principal = shared.principal(token(roles=["operator", "approver", "unheard_of"]))
    assert (principal.tenant, principal.name, principal.kind) == ("acme", "ada", "jwt")
    assert "runs:start" in principal.permissions
    assert "approvals:decide" in principal.permissions
    assert "keys:admin" not in principal.permissions


def test_roles_may_be_words_in_a_text_or_missing(shared):
    assert shared.principal(token(roles="viewer approver")).roles == ("viewer", "approver")
    assert shared.principal(token(roles=None)).permissions == set()


def test_claims_have_the_names_that_the_settings_give_them():
    tokens = Tokens(TokenRules(secret=SECRET, tenant_claim="org", roles_claim="groups"))
    principal = tokens.principal(token(org="globex", groups=["admin"], roles=["viewer"]))
    assert (principal.tenant, principal.roles) == ("globex", ("admin",))


@pytest.mark.parametrize(
    "fields",
    [
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\0b"},
        {"tenant": None},
        {"tenant": ["acme"]},
        {"tenant": "../acme"},
        {"tenant": ""},
        {"roles": {"admin": True}},
        {"roles": [1]},
        {"exp": 1.0},
        {"exp": "soon"},
        {"nbf": 4_000_000_000},
        {"key": "another secret that is long enough!"},
        {"algorithm": "HS512", "key": SECRET * 2},
    ],
    ids=str,
)
def test_what_is_missing_late_or_signed_otherwise_is_refused(shared, fields):
    assert SECRET not in refuse(shared, token(**fields))


def test_clocks_may_differ_a_little_about_when_a_token_was_made(shared):
    for name in ("nbf", "iat"):
        shared.principal(token(**{name: time.time() + LEEWAY_SECONDS / 2}))
        refuse(shared, token(**{name: time.time() + LEEWAY_SECONDS + 60}))


@attack("S15", "a token is used for some seconds after its end")
def test_no_token_outlives_its_end(shared):
    assert "expired" in refuse(shared, token(exp=time.time() - 1))
    end = int(time.time()) + 60
    for now, valid in ((end - 0.001, True), (end, False), (end + 1, False)):
        tokens = Tokens(TokenRules(secret=SECRET), Stopped(now))
        if valid:
            assert tokens.principal(token(exp=end)).name == "ada"
        else:
            assert "expired" in refuse(tokens, token(exp=end))


class Stopped(SystemClock):
    """A clock that stands still."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self._at = at

    def now(self) -> float:
        return self._at


def unsigned(header: dict, payload: dict) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, payload)]
    return ".".join(parts) + "."


def test_a_token_without_a_signature_is_refused(shared, files):
    both = [shared, Tokens(files(public_pem(RSA)))]
    for tokens in both:
        for algorithm in ("none", "None", "NONE", ""):
            refuse(tokens, unsigned({"alg": algorithm, "typ": "JWT"}, claims()))


def test_a_changed_payload_is_refused(shared):
    head, _, signature = token().split(".")
    payload = base64.urlsafe_b64encode(json.dumps(claims(roles=["admin"])).encode()).decode().rstrip("=")
    refuse(shared, f"{head}.{payload}.{signature}")


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "x" * 100, "é.é.é", "null", "eyJhbGciOiJIUzI1NiJ9..", "\0"])
def test_rubbish_is_refused(shared, text):
    refuse(shared, text)


def test_a_token_that_is_too_long_is_not_even_read(shared):
    assert "longer" in refuse(shared, token(padding="x" * TOKEN_BYTES))


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "EdDSA")],
    ids=["RS256", "PS256", "ES256", "EdDSA"],
)
def test_a_public_key_verifies_what_its_private_key_signed(files, key, algorithm):
    tokens = Tokens(files(public_pem(key)))
    assert tokens.principal(token(key, algorithm)).name == "ada"
    other = {"RS256": RSA, "PS256": RSA, "ES256": ec.generate_private_key(ec.SECP256R1()), "EdDSA": None}[algorithm]
    other = rsa.generate_private_key(65537, 2048) if other is RSA else other or ed25519.Ed25519PrivateKey.generate()
    refuse(tokens, token(other, algorithm))


def test_a_public_key_is_never_taken_for_a_shared_secret(files):
    pem = public_pem(RSA)
    tokens = Tokens(files(pem))
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    payload = base64.urlsafe_b64encode(json.dumps(claims()).encode()).decode().rstrip("=")
    import hashlib
    import hmac

    signature = hmac.new(pem.encode(), f"{head}.{payload}".encode(), hashlib.sha256).digest()
    refuse(tokens, f"{head}.{payload}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}")


def test_a_key_set_is_asked_by_key_id_so_that_keys_can_be_rotated(files):
    tokens = Tokens(files({"keys": [jwk(RSA, "RS256", "old"), jwk(EC, "ES256", "new")]}))
    assert tokens.principal(token(RSA, "RS256", {"kid": "old"})).name == "ada"
    assert tokens.principal(token(EC, "ES256", {"kid": "new"})).name == "ada"
    for wrong in (
        token(RSA, "RS256", {"kid": "new"}),
        token(RSA, "RS256", {"kid": "other"}),
        token(RSA, "RS256"),
        token(RSA, "PS256", {"kid": "old"}),
    ):
        refuse(tokens, wrong)


def test_a_set_of_one_key_needs_no_key_id(files):
    assert Tokens(files({"keys": [jwk(ED, "EdDSA", None)]})).principal(token(ED, "EdDSA")).name == "ada"
    assert Tokens(files({"keys": [jwk(ED, "EdDSA", "k")]})).principal(token(ED, "EdDSA")).name == "ada"


def test_algorithms_can_be_narrowed(files):
    tokens = Tokens(files(public_pem(RSA), algorithms=("PS256",)))
    assert tokens.principal(token(RSA, "PS256")).name == "ada"
    refuse(tokens, token(RSA, "RS256"))


def test_audience_and_issuer_must_be_those_of_the_settings():
    tokens = Tokens(TokenRules(secret=SECRET, audience="perdure", issuer="https://id.example"))
    right = {"aud": ["other", "perdure"], "iss": "https://id.example"}
    assert tokens.principal(token(**right)).name == "ada"
    for wrong in ({"aud": "other"}, {"aud": None}, {"iss": "https://evil.example"}, {"iss": None}):
        refuse(tokens, token(**right | wrong))


def test_without_an_audience_in_the_settings_any_will_do(shared):
    assert shared.principal(token(aud="whoever", iss="somebody")).name == "ada"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (TokenRules(), "either jwt_secret or jwt_keys_file"),
        (TokenRules(secret=SECRET, keys_file="x"), "either jwt_secret or jwt_keys_file"),
        (TokenRules(secret="short"), "shorter than 32 bytes"),
        (TokenRules(keys_file="missing.pem"), "cannot be read"),
        (TokenRules(secret=SECRET, algorithms=("RS256",)), "RS256 cannot be used with jwt_secret"),
        (TokenRules(secret=SECRET, algorithms=("none",)), "none cannot be used"),
    ],
    ids=str,
)
def test_rules_that_cannot_work_are_refused_at_the_start(rules, said):
    with pytest.raises(SettingsInvalid, match=said) as error:
        Tokens(rules)
    assert SECRET not in error.value.message
    assert SECRET not in repr(rules)


def test_files_that_hold_the_wrong_thing_are_refused_at_the_start(files):
    private = RSA.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    octet = {"kty": "oct", "k": base64.urlsafe_b64encode(b"x" * 32).decode(), "kid": "s"}
    cases = [
        (private, "private key"),
        ("hello", "neither"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no public key"),
        ("[]", "neither"),
        ({"keys": []}, "neither"),
        ({"keys": [octet]}, "shared secret"),
        ({"keys": [jwk(RSA, "RS256", None), jwk(EC, "ES256", "k")]}, "needs a 'kid'"),
    ]
    for content, said in cases:
        with pytest.raises(SettingsInvalid, match=said):
            Tokens(files(content))
    with pytest.raises(SettingsInvalid, match="HS256 cannot be used with jwt_keys_file"):
        Tokens(files(public_pem(RSA), algorithms=("HS256",)))
