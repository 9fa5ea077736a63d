"""Tokens that are forged, late or strange, sent to a server as it listens (X37): none is believed, none breaks anything."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt

from perdure.clock import system
from tests.api.helpers import SECRET, bearer, serving
from tests.attack.marks import attack


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(head: Any, claims: Any, secret: str = SECRET) -> str:
    body = f"{part(head)}.{part(claims)}"
    return f"{body}.{part(hmac.new(secret.encode(), body.encode(), hashlib.sha256).digest())}"


def tokens() -> dict[str, str]:
    """By what is wrong with each."""
    now = int(system.now())
    good = {"sub": "ann", "tenant": "acme", "roles": ["admin"], "exp": now + 600}
    head = {"alg": "HS256", "typ": "JWT"}
    genuine = jwt.encode(good, SECRET, algorithm="HS256")
    first, middle, last = genuine.split(".")
    found = {
        f"alg {alg}": f"{part({**head, 'alg': alg})}.{part(good)}." for alg in ("none", "None", "NONE", "nOnE", "")
    }
    found |= {
        f"alg {alg}, signed": signed({**head, "alg": alg}, good) for alg in ("none", "HS1", "RS256", "HS512", "hs256")
    }
    found |= {f"alg {alg!r}": signed({**head, "alg": alg}, good) for alg in (None, 256, ["HS256"], {"HS256": 1})}
    found |= {
        "another secret": signed(head, good, "x" * 48),
        "no secret": signed(head, good, ""),
        "kid of a file": signed({**head, "kid": "../../../../dev/null"}, good, ""),
        "kid of a query": signed({**head, "kid": "' OR 1=1 --"}, good, ""),
        "a key of its own": signed({**head, "jwk": {"kty": "oct", "k": part(b"y" * 32)}}, good, "y" * 32),
        "keys from elsewhere": signed({**head, "jku": "http://127.0.0.1:1/keys"}, good, "x" * 32),
        "crit": signed({**head, "crit": ["b64"], "b64": False}, good),
        "ended": signed(head, {**good, "exp": now - 3600}),
        "ends at no time": signed(head, {**good, "exp": "soon"}),
        "ends never": signed(head, {name: one for name, one in good.items() if name != "exp"}),
        "ends at infinity": signed(head, {**good, "exp": 1e400}),
        "begins later": signed(head, {**good, "nbf": now + 3600}),
        "made later": signed(head, {**good, "iat": now + 3600}),
        "of nobody": signed(head, {**good, "sub": ""}),
        "of a number": signed(head, {**good, "sub": 7}),
        "a tenant that is a list": signed(head, {**good, "tenant": ["acme", "bobco"]}),
        "claims that are a list": signed(head, [good]),
        "claims that are none": signed(head, b"{"),
        "other claims": f"{first}.{part({**good, 'tenant': 'bobco'})}.{last}",
        "no signature": f"{first}.{middle}.",
        "half a signature": f"{first}.{middle}.{last[:20]}",
        "four parts": f"{genuine}.x",
        "two of them": f"{genuine} {genuine}",
        "deep": signed(head, b'{"sub":' + b"[" * 3_000 + b"]" * 3_000 + b"}"),
        "long": signed({**head, "x": "x" * 40_000}, good),
        "no text": "\xff\xfe.\x80.\x81",
    }
    return found


@attack("X37", "tokens that are forged, late or strange, each sent to a server")
async def test_no_token_is_believed_but_a_genuine_one(tmp_path):
    wrong = tokens()
    assert len(wrong) > 35
    async with serving(tmp_path, tokens=True, real=True) as server:
        assert (await server.get("/me", headers=bearer())).status_code == 200
        answers = {}
        for name, token in wrong.items():
            value = f"Bearer {token}".encode("latin-1")
            answers[name] = (await server.get("/me", headers=[(b"Authorization", value)])).status_code
        assert {name: status for name, status in answers.items() if status != 401} == {}
        assert (await server.get("/me", headers=bearer())).status_code == 200
