"""What the address of a bucket in a trigger says, and the signature of a request to it (AWS Signature Version 4).

`s3://KEY:SECRET@BUCKET/PREFIX/?endpoint=https://HOST&region=REGION`. The keys are those of the address and never those of the
worker, whose service is chosen by the author of a trigger (X08); without keys a request is not signed, as public buckets
allow.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from perdure.sources import SourceRefused

_KEYS = ("endpoint", "region")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KEY = re.compile(r"[A-Za-z0-9._-]{1,200}")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_EMPTY = hashlib.sha256(b"").hexdigest()
_SHAPE = "s3://KEY:SECRET@BUCKET/PREFIX/?endpoint=https://HOST&region=REGION, its keys with %2F for a slash"


class BucketAddress(msgspec.Struct, frozen=True):
    bucket: str
    prefix: str
    """What every key begins with; empty, or with a slash at its end."""
    origin: str
    """`https://HOST`: where requests go."""
    path: str
    """What comes before a key in the path of a request."""
    region: str
    key: str
    secret: str

    def make_url(self, key: str, query: dict[str, str]) -> str:
        pairs = "&".join(f"{_quote(name)}={_quote(value)}" for name, value in sorted(query.items()))
        return f"{self.origin}{self.path}{quote(key, safe='/-._~')}" + (f"?{pairs}" if pairs else "")

    def sign(self, url: str, now: float, headers: dict[str, str]) -> dict[str, str]:
        """The headers of a request without a body, those given and its signature."""
        if not self.key:
            return headers
        parts = urlsplit(url)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        told = {**headers, "host": parts.netloc, "x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
        names = ";".join(sorted(told))
        lines = "".join(f"{name}:{told[name]}\n" for name in sorted(told))
        request = f"GET\n{parts.path}\n{parts.query}\n{lines}\n{names}\n{_EMPTY}"
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        made = f"AWS4{self.secret}".encode()
        for word in (stamp[:8], self.region, "s3", "aws4_request"):
            made = hmac.digest(made, word.encode(), "sha256")
        signature = hmac.digest(made, text.encode(), "sha256").hex()
        del told["host"]  # it comes with every request
        told["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return told


def read_bucket_address(url: str) -> BucketAddress:
    """Raises SourceRefused, which holds nothing of the address."""
    try:
        parts = urlsplit(url)
        found = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise SourceRefused(f"a bucket is {_SHAPE}") from None
    login, at, bucket = parts.netloc.rpartition("@")
    key, _, secret = (unquote(part) for part in login.partition(":"))
    if not _BUCKET.fullmatch(bucket) or (at and not (_KEY.fullmatch(key) and secret)):
        raise SourceRefused(f"a bucket is {_SHAPE}")
    if found.keys() - set(_KEYS) or parts.fragment:
        raise SourceRefused(f"the address of a bucket has {' and '.join(_KEYS)}, and nothing else; it is {_SHAPE}")
    region = found.get("region", "us-east-1")
    if not _REGION.fullmatch(region):
        raise SourceRefused("the region of a bucket is a name such as eu-north-1")
    prefix = unquote(parts.path.removeprefix("/"))
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    origin, path = _read_place(found.get("endpoint", ""), bucket, region)
    return BucketAddress(bucket, prefix, origin, path, region, key, secret)


def _read_place(endpoint: str, bucket: str, region: str) -> tuple[str, str]:
    if not endpoint:
        if "." in bucket:  # no certificate is that of a name below a name below
            return f"https://s3.{region}.amazonaws.com", f"/{bucket}/"
        return f"https://{bucket}.s3.{region}.amazonaws.com", "/"
    try:
        parts = urlsplit(endpoint.lower())
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        wrong = usual is None or not parts.hostname or "@" in parts.netloc
        if wrong or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
        return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, usual) else ""), f"/{bucket}/"
    except ValueError:
        raise SourceRefused("the endpoint of a bucket is https://HOST or https://HOST:PORT") from None


def _quote(text: str) -> str:
    return quote(text, safe="-._~")
