"""`openapi_action`: the documents of profiles are fetched when an agent begins, and operations of theirs are called, through `perdure.egress`.

The key of a profile goes to its origin and nowhere else: redirects are not followed, and a document cannot name another server (X08).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure import egress, llms
from perdure.agents.openapi_document import LARGEST_DOCUMENT, Api, BadDocument, BadValue, read_document, write_call
from perdure.agents.value_handles import LARGEST_VALUE
from perdure.egress.errors import EgressError, EgressRefused
from perdure.egress.urls import parse
from perdure.llms.profile_rows import Profile
from perdure.nodes import http
from perdure.outcomes import Failure
from perdure.plain_text import hide
from perdure.threads import aside

FETCH_SECONDS = 30.0
CALL_SECONDS = 60.0
KEPT_HEADERS = ("content-type", "location", "retry-after")


async def open_apis(names: Sequence[str], ctx: Any) -> tuple[Api, ...]:
    """The documents of profiles. Raises Failure."""
    return tuple([await _open(name, ctx) for name in names])


async def _open(name: str, ctx: Any) -> Api:
    profile = _get_profile(name, ctx)
    config: dict[str, Any] = {"url": profile.spec, "follow_redirects": False, "max_bytes": LARGEST_DOCUMENT}
    answer = await _send(profile, name, config, ctx, FETCH_SECONDS)
    if answer.status != 200:
        message = f"the document of profile {name} is not there: {answer.url.shown} answers {answer.status}"
        raise Failure("openapi:no_document", message, retryable=answer.status >= 500)
    try:
        return await aside(ctx.tenant, read_document, name, profile, answer.body)
    except BadDocument as error:
        raise Failure("openapi:bad_document", f"the document of profile {name}: {error}", retryable=False) from None


async def call_operation(api: Api, given: dict[str, Any], ctx: Any, key: str) -> dict[str, Any]:
    """What a call gave: its status, and its body. Raises Failure."""
    profile = _get_profile(api.profile, ctx)
    operation = api.find_operation(given["operation_id"])
    if operation is None or str(profile.url).rstrip("/") != api.origin:
        message = f"profile {api.profile} is another one than when the agent began; start the run anew"
        raise Failure("openapi:changed", message, retryable=False)
    try:
        config = write_call(api, operation, given.get("params") or {}, given.get("body"), has_body="body" in given)
    except BadValue as error:
        raise Failure("tool_bad_arguments", str(error), retryable=False, not_done=True) from None
    config["max_bytes"] = LARGEST_VALUE
    answer = await _send(profile, api.profile, config, ctx, CALL_SECONDS, key)
    headers = {name: value for name, value in answer.headers if name in KEPT_HEADERS and name != "content-type"}

    def read() -> dict[str, Any]:
        found = {"status": answer.status, "body": without_secrets(http.read_body(answer, "auto"))}
        return found | ({"headers": without_secrets(headers)} if headers else {})

    return await aside(ctx.tenant, read)


async def _send(profile: Profile, name: str, config: dict[str, Any], ctx: Any, seconds: float, key: str = "") -> Any:
    if profile.auth is not None and parse(config["url"]).origin == profile.url.origin:
        config = {**config, "auth": profile.auth.headers(_reveal(profile, name, ctx))}
    try:
        request = http.make_request(config, key, seconds)
        return await egress.shared(profile.also).send(request)
    except EgressRefused as error:
        raise Failure(error.code, error.message, retryable=False, not_done=not error.sent) from None
    except EgressError as error:
        raise Failure(error.code, error.message, not_done=not error.sent) from None


def _reveal(profile: Profile, name: str, ctx: Any) -> str:
    assert profile.auth is not None
    secret = profile.auth.secret
    try:
        found: str = ctx.reveal_secret(secret)
    except LookupError:
        message = f"profile {name} needs the secret {secret}, and this worker has none; set PERDURE_SECRET_{secret}"
        raise Failure("openapi:no_key", message, retryable=False, not_done=True) from None
    return found


def _get_profile(name: str, ctx: Any) -> Profile:
    profile = llms.get_models().find_profile(name, ctx.tenant)
    if profile is None:
        message = f"there is no profile {name} here; the operator names profiles in the file of the setting agents_file"
        raise Failure("openapi:unknown_profile", message, retryable=False, not_done=True)
    return profile


def without_secrets(value: Any) -> Any:
    """The value without what this process has revealed: a service may give back what it was sent. It may take time."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide(key): without_secrets(one) for key, one in value.items()}
    return [without_secrets(one) for one in value] if isinstance(value, list) else value
