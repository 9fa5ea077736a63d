"""Texts that a browser would like to execute, follow or hide, for every place where text of others is shown (X25)."""

from __future__ import annotations

_EVENTS = (
    "abort animationend animationstart auxclick beforeinput beforetoggle blur canplay change click close contextmenu copy cut "
    "dblclick drag dragend dragstart drop error focus focusin focusout hashchange input invalid keydown keypress keyup load "
    "loadstart message mousedown mouseenter mousemove mouseout mouseover mouseup mousewheel pagehide pageshow paste play "
    "pointerdown pointerenter pointermove pointerover popstate reset resize scroll search select submit toggle touchstart "
    "transitionend unload wheel"
).split()
_TAGS = ("<img src=x on{0}=alert(1)>", "<svg on{0}=alert(1)>", '" autofocus on{0}="alert(1)')
_LINKS = ("<a href='{0}'>x</a>", "<iframe src='{0}'>", "<form action='{0}'><button>")
_ADDRESSES = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    " javascript:alert(1)",
    "javascript&colon;alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "vbscript:msgbox(1)",
    "//evil.example/x",
    "\\\\evil.example\\x",
    "https:evil.example",
    "blob:https://evil.example/1",
    "file:///etc/passwd",
    "view-source:https://evil.example",
)
HIDDEN = (
    *(chr(code) for code in range(0x200B, 0x2010)),
    *(chr(code) for code in range(0x202A, 0x202F)),
    *(chr(code) for code in range(0x2060, 0x2065)),
    *(chr(code) for code in range(0x2066, 0x206A)),
    *(chr(code) for code in (*range(1, 9), *range(0x0E, 0x20), 0x7F, 0x85, 0xAD, 0x061C, 0x115F, 0x3164, 0xFEFF)),
)
"""Characters that are not seen, or that move others: each is shown by its number."""

SEEN = (
    *(tag.format(event) for event in _EVENTS for tag in _TAGS),
    *(link.format(address) for address in _ADDRESSES for link in _LINKS),
)
"""Texts that are shown as they are."""

PAYLOADS = (*SEEN, *(f"a{character}b" for character in HIDDEN))
