"""JSON Web Tokens: whether one is valid, and the principal it names.

PyJWT checks signature and times; here stand the rules around it. The algorithms are an allow-list that follows from the
kind of key, so a public key can never be taken for a shared secret. `exp` and `sub` are required; tenant and roles come
from named claims of the token and from nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from perdure.access.errors import Unauthenticated
from perdure.access.principal import Identity, Principal, is_name, is_tenant, make_principal
from perdure.clock import Clock, system
from perdure.errors import SettingsInvalid

LEEWAY_SECONDS = 10.0
"""How far clocks may differ: a token that was just made may lie so far in the future. None lives longer for it."""
SECRET_BYTES = 32
"""The shortest secret that is safe for HS256."""
TOKEN_BYTES = 8192

_SHARED = ("HS256", "HS384", "HS512")
_PUBLIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class TokenRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a token must be. Exactly one of `secret` and `keys_file` is given."""

    secret: str = ""
    keys_file: str = ""
    """A file with a public key in PEM, or with a JSON Web Key Set."""
    algorithms: tuple[str, ...] = ()
    """The accepted algorithms; empty: HS256 for a secret, every asymmetric one for keys."""
    audience: str = ""
    issuer: str = ""
    tenant_claim: str = "tenant"
    roles_claim: str = "roles"

    def __repr__(self) -> str:
        return f"TokenRules(keys_file={self.keys_file!r}, issuer={self.issuer!r}, audience={self.audience!r})"


class Tokens:
    def __init__(self, rules: TokenRules, clock: Clock = system) -> None:
        self._rules = rules
        self._clock = clock
        self._algorithms = _algorithms(rules)
        self._keys: dict[str | None, Any] = _read_keys(rules)

    def principal(self, token: str) -> Principal:
        """The principal the token names. Raises `Unauthenticated`."""
        return self.check(token).principal

    def check(self, token: str) -> Identity:
        """The principal the token names, and when the token ends. Raises `Unauthenticated`."""
        if len(token) > TOKEN_BYTES:
            raise Unauthenticated(f"the token is longer than {TOKEN_BYTES} bytes; send a shorter one")
        try:
            claims = self._decode(token)
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token has expired; get a new one") from None
        except jwt.PyJWTError:
            # Naming the check that failed would help only an attacker.
            raise Unauthenticated("the token is not valid here; check issuer, audience, algorithm and key") from None
        return Identity(self._read(claims), float(int(claims["exp"])))

    def _decode(self, token: str) -> dict[str, Any]:
        rules = self._rules
        key = self._key(jwt.get_unverified_header(token).get("kid"))
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(self._algorithms),
            audience=rules.audience or None,
            issuer=rules.issuer or None,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "sub"], "verify_aud": bool(rules.audience), "verify_iss": bool(rules.issuer)},
        )
        if int(claims["exp"]) <= self._clock.now():  # PyJWT has one leeway, for the end of a token too
            raise jwt.ExpiredSignatureError
        return claims

    def _key(self, kid: object) -> Any:
        """The key that the token names; if it names none, the only one there is."""
        if None in self._keys:
            return self._keys[None]
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if not isinstance(kid, str) or kid not in self._keys:
            raise jwt.InvalidTokenError("unknown key")
        return self._keys[kid]

    def _read(self, claims: dict[str, Any]) -> Principal:
        name, tenant = claims["sub"], claims.get(self._rules.tenant_claim)
        if not is_name(name) or not is_tenant(tenant):
            raise Unauthenticated(
                f"the token must name who it is for: a text in 'sub', and a tenant in '{self._rules.tenant_claim}'"
            )
        assert isinstance(tenant, str)
        roles = claims.get(self._rules.roles_claim, [])
        if isinstance(roles, str):
            roles = roles.split()
        if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
            raise Unauthenticated(f"the roles of the token, in '{self._rules.roles_claim}', must be a list of texts")
        return make_principal(tenant=tenant, name=name, kind="jwt", roles=tuple(roles))


def _algorithms(rules: TokenRules) -> tuple[str, ...]:
    allowed = _SHARED if rules.secret else _PUBLIC
    if not rules.algorithms:
        return _SHARED[:1] if rules.secret else _PUBLIC
    if wrong := [name for name in rules.algorithms if name not in allowed]:
        kind = "jwt_secret" if rules.secret else "jwt_keys_file"
        raise SettingsInvalid(
            f"jwt_algorithms: {', '.join(wrong)} cannot be used with {kind}; possible are {', '.join(allowed)}"
        )
    return rules.algorithms


def _read_keys(rules: TokenRules) -> dict[str | None, Any]:
    """The keys by id; under None, the one that is used whatever the token names."""
    if bool(rules.secret) == bool(rules.keys_file):
        raise SettingsInvalid("auth 'jwt' needs either jwt_secret or jwt_keys_file; set one of them")
    if rules.secret:
        if len(rules.secret.encode()) < SECRET_BYTES:
            raise SettingsInvalid(f"jwt_secret is shorter than {SECRET_BYTES} bytes: it could be guessed; make another")
        return {None: rules.secret}
    try:
        text = Path(rules.keys_file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"jwt_keys_file {rules.keys_file} cannot be read: {error}") from error
    if "PRIVATE KEY" in text:
        raise SettingsInvalid(f"jwt_keys_file {rules.keys_file} holds a private key; put the public key there")
    if not text.lstrip().startswith("-----BEGIN"):
        return _read_set(text, rules.keys_file)
    try:
        return {None: load_pem_public_key(text.encode())}
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SettingsInvalid(
            f"jwt_keys_file {rules.keys_file} holds no public key that can be used: {error}"
        ) from error


def _read_set(text: str, file: str) -> dict[str | None, Any]:
    try:
        found = jwt.PyJWKSet.from_json(text)
    except (jwt.PyJWTError, json.JSONDecodeError, AttributeError) as error:
        raise SettingsInvalid(
            f"jwt_keys_file {file} is neither a public key in PEM nor a JSON Web Key Set: {error}"
        ) from error
    keys: dict[str | None, Any] = {}
    for key in found.keys:
        if key.key_type == "oct":
            raise SettingsInvalid(f"jwt_keys_file {file} holds a shared secret; set jwt_secret instead")
        if key.key_id is None and len(found.keys) > 1:
            raise SettingsInvalid(f"jwt_keys_file {file}: each of several keys needs a 'kid'")
        keys[key.key_id or ""] = key
    return keys
