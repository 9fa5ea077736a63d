"""Text for a terminal or a log: invisible characters are shown escaped, so that data never moves the cursor, hides or
reverses what stands beside it; and text for a message, which is short and holds no secret.

It owns which characters those are, and the order: secrets are taken out before anything is cut, because half a secret
would not be recognized. It does not know where text goes, nor what is secret: the parts that know say so (`hiding`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, ESC and those of C1 among them
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u3164\ufeff\uffa0"  # of no width
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # which turn the direction of writing
    r"\u2028\u2029\ufdd0-\ufdef\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff"  # line separators, noncharacters, tags
)
_IN_TEXT = re.compile(f"[{_HIDDEN}]")
_IN_LINE = re.compile(rf"[\n{_HIDDEN}]")
_IN_JSON = re.compile(f"[{_HIDDEN}]")
_LONGEST_NAME = 200
_NO_NAME = re.compile(rf"[\n\t\ufe00-\ufe0f{_HIDDEN}]")
_NO_NAME_KINDS = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_TAKEN = re.compile(r"(role|webhook) *:|run |(timeout|local)$", re.IGNORECASE)
_SHORT = {"\n": "\\n", "\r": "\\r"}

LOOKED_AT = 65_536
"""How many characters of a long text are searched for secrets before it is cut."""
_MASK = "***"
_hides: list[Callable[[str], str]] = []


def hiding(hide: Callable[[str], str]) -> Callable[[], None]:
    """From now on let `hide` take out of messages what this process must not say. Returns a function that ends that."""
    _hides.append(hide)
    return lambda: _hides.remove(hide)


def hide(text: str) -> str:
    """The text without any secret that a part of this process has revealed."""
    for one in _hides:
        text = one(text)
    return text


def cut(text: str, most: int) -> str:
    """The beginning of a text, for a message."""
    looked_at = text[:LOOKED_AT]
    hidden = hide(looked_at)
    if len(text) >= LOOKED_AT and len(hidden) < len(looked_at) // 2:
        return _MASK  # nearly all of it was secret, so its end may be too
    return hidden if len(hidden) <= most and len(text) <= LOOKED_AT else f"{hidden[: most - 1]}…"


def clean_text(text: str) -> str:
    """Escaped text that may have several lines."""
    return _IN_TEXT.sub(_escape, text)


def clean_line(text: str) -> str:
    """Escaped text in one line: a second line would be taken for something else."""
    return _IN_LINE.sub(_escape, text)


def clean_json(text: str) -> str:
    """JSON that means the same: characters that a terminal obeys, and a JSON writer leaves alone, are escaped."""
    return _IN_JSON.sub(_escape_json, text)


def find_text_trouble(text: object, most: int) -> str | None:
    """Why something given where text belongs cannot be kept and sent exactly as it is; None if it can."""
    if not isinstance(text, str):
        return f"it is of type {type(text).__qualname__}, not text"
    if not 0 < str.__len__(text) <= most:
        return f"it has {str.__len__(text):,} characters, 1 to {most:,} are allowed"
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return "it holds half a character, which is no valid Unicode"
    return "it holds the character NUL" if str.__contains__(text, "\0") else None


def find_name_trouble(text: str) -> str | None:
    """Why a text cannot be the name of a person or of a key: two names that read the same would be taken for one.
    Look-alike letters of other scripts are not told apart; that is left to those who give names."""
    if not 0 < len(text) <= _LONGEST_NAME or text != text.strip():
        return f"expected 1 to {_LONGEST_NAME} characters without spaces around them"
    for one in text:
        if _NO_NAME.match(one) or (one != " " and unicodedata.category(one) in _NO_NAME_KINDS):
            return f"it holds the character U+{ord(one):04X}, which is not to be seen; leave it out"
    if not unicodedata.is_normalized("NFC", text):
        return "it is composed in a way that is read as another name; write it in the form NFC"
    return None


def find_principal_trouble(text: str) -> str | None:
    """Why a text cannot be the name of a user who logs in: names that journals use for others are taken."""
    if _TAKEN.match(text):
        return "it is how a journal names a role, a webhook, a run, the end of a time, or a server without keys"
    return find_name_trouble(text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or ascii(character)[1:-1]


def _escape_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def explain_json(error: Exception) -> str:
    """What is wrong with a text that should be JSON, by the error of its decoder: where, in words without the decoder's own."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    said = str(error)
    if "truncated" in said:
        return "it ends too early"
    found = re.search(r"malformed: (.+?) \(byte (\d+)\)", said)
    if found is None:
        return cut(said, 200)
    what = "there is more behind its end" if found[1] == "trailing characters" else found[1]
    return f"{what}, at byte {found[2]}"
