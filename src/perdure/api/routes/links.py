"""The page behind an approval link: it asks, and only its button decides (X17). Scanners that open it change nothing.

The page is plain HTML without scripts; everything in it that comes from a workflow is escaped.
"""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.responses import Response

from perdure.access import Forbidden, LinkInvalid, link_principal
from perdure.api.endpoints import Call, Routes
from perdure.api.problem_details import BadBody
from perdure.api.request_reader import media_type, read_bytes
from perdure.errors import NotFound, Refused
from perdure.journal import JournalUnavailable
from perdure.plain_text import clean_json
from perdure.runtime.forms import fields_of, read_fields
from perdure.service import Service
from perdure.service.errors import Invalid, Trouble
from perdure.threads import aside

pages = Routes("links", prefix="")

_SHOWN = 100_000
"""How many characters of what an approval shows are on its page. What is left out is said before anything is shown."""
_MOST_FIELDS = 200
_DATA = "data."
"""The prefix of the names of the approval form's fields, so that none is taken for the comments."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would send the form without an origin
}
_STYLE = "body{font:16px/1.5 system-ui;max-width:42rem;margin:3rem auto;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}"


def _page(title: str, body: str, status: int = 200) -> Response:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta name="robots" content="noindex"><title>{html.escape(title)}</title><style>{_STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>"
    )
    return Response(text, status, dict(_HEADERS), "text/html")


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


HTML = dict.fromkeys((403, 404, 409, 422), "text/html")


@pages.get("/links/{token}", None, "text/html", also=HTML)
async def ask(call: Call) -> Response:
    """A page that shows what a link would decide, and asks. It decides nothing."""
    try:
        link = await call.site.links.get(call.path("token"))
        approvals = _service(call, link).approvals
        view = await approvals.get(link.approval_id)
    except (LinkInvalid, NotFound) as error:
        call.site.count_failure(call.request)
        return _page("This link does nothing", _paragraph(error.message), 403)
    if view["state"] != "pending":
        return _page("Decided already", _paragraph(f"{link.approval_id} was decided: {view['decision']}."))
    shown, left_out = await aside(link.tenant, _write_out, await approvals.read_shown(link.approval_id))
    warning = (
        "" if not left_out else f"<p><strong>{html.escape(_LEFT_OUT.format(left_out, link.approval_id))}</strong></p>"
    )
    asked = "".join(
        f'<p><label>{html.escape(name)}<br><input name="{html.escape(_DATA + name)}" size="60"></label></p>'
        for name in (fields_of(view["form"]) if link.decision == "approve" else ())
    )
    form = (
        f'<form method="post">{asked}<p><label>Comments<br><textarea name="comments" rows="3" cols="60"></textarea></label></p>'
        f'<p><button type="submit">{html.escape(link.decision.capitalize())}</button></p></form>'
    )
    about = _paragraph(f"{link.approver} is asked about node {view['node']} of run {link.run_id}.")
    return _page(f"{link.decision.capitalize()}?", f"{about}{warning}<pre>{html.escape(shown)}</pre>{form}")


_LEFT_OUT = (
    "This page does not show everything: {:,} characters at the end are left out. "
    "Before you decide, read the whole of approval {} where you log in."
)


def _write_out(shown: Any) -> tuple[str, int]:
    """What an approval shows, as far as the page has room, and how many characters it has no room for. Characters that cannot be seen, or
    turn the direction of writing, are escaped: the page is what a person decides by."""
    text = msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()
    return clean_json(text[:_SHOWN]), max(0, len(text) - _SHOWN)


@pages.post("/links/{token}", None, "text/html", also=HTML, sends=("application/x-www-form-urlencoded",), audited=False)
async def decide(call: Call) -> Response:
    """The button of the page: decide, once."""
    written = await _written(call)
    token = call.path("token")
    links = call.site.links
    try:
        link = await links.get(token)
        form = (await _service(call, link).approvals.get(link.approval_id))["form"]
        link = await links.consume(token, approval_id=link.approval_id, decision=link.decision)
    except (LinkInvalid, NotFound) as error:
        call.site.count_failure(call.request)
        return _page("This link does nothing", _paragraph(error.message), 403)
    service = _service(call, link)
    try:
        data = read_fields(form, {name.removeprefix(_DATA): one for name, one in written.items()})
        comments = written.get("comments", "")
        view = await service.approvals.decide(link.approval_id, link.decision, comments=comments, data=data)  # type: ignore[arg-type]
    except JournalUnavailable:
        await links.release(link)  # nothing was decided, so the link may be used again
        raise
    except Invalid as error:
        await links.release(link)  # the form may be filled in again
        return _page("It was not taken", _paragraph(error.message), 422)
    except (Refused, Forbidden, NotFound) as error:
        return _page("It was not taken", _paragraph(error.message), 403 if isinstance(error, Forbidden) else 409)
    principal = service.tenancy.principal
    await call.site.audit.record(
        principal, "links.decide", link.approval_id, after=link.decision, request_id=call.request_id
    )
    more = "" if view["state"] != "pending" else _paragraph("More people have to decide.")
    return _page("Thank you", _paragraph(f"Your decision is: {link.decision}.") + more)


async def _written(call: Call) -> dict[str, str]:
    """Read what was written into the fields of the page."""
    data = await read_bytes(call.request)
    if not data:
        return {}
    media_type(call.request, {"application/x-www-form-urlencoded"})
    try:
        fields = parse_qs(data.decode(), max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise BadBody(
            "the form cannot be read; open the link again, and fill it in there",
            [Trouble("", "syntax", "expected a form")],
        ) from None
    written = {name: values[0] for name, values in fields.items()}
    for name, text in written.items():
        if len(text) > 10_000 or "\0" in text:
            raise BadBody(f"{name[:80]} is too long", [Trouble(name[:80], "wrong_value", "at most 10000 characters")])
    return written


def _service(call: Call, link: Any) -> Service:
    return Service(call.site.engine, link_principal(link))
