"""How an SVG looks: colours for light and dark, by node type and by state. No selector leaves the drawing.

Everything is said twice: as attributes of the elements, in the light colours, for programs that know no variables
(librsvg, and most converters of SVG); and as a style sheet, which wins where it is understood and knows light and dark.
"""

from __future__ import annotations

# Type to (light, dark): the colour of its icon. Grounds and borders are the same for all.
TYPES = {
    "task": ("#2563eb", "#60a5fa"),
    "http": ("#0d9488", "#2dd4bf"),
    "human": ("#d97706", "#fbbf24"),
    "wait": ("#7c3aed", "#a78bfa"),
    "transform": ("#64748b", "#94a3b8"),
    "workflow": ("#4f46e5", "#818cf8"),
    "map": ("#0891b2", "#22d3ee"),
    "input": ("#475569", "#94a3b8"),
    "output": ("#475569", "#94a3b8"),
    "llm": ("#db2777", "#f472b6"),
    "agent": ("#db2777", "#f472b6"),
    "classifier": ("#db2777", "#f472b6"),
    "search": ("#db2777", "#f472b6"),
    "trigger": ("#ea580c", "#fb923c"),
    "migration": ("#65a30d", "#a3e635"),
    "celery": ("#65a30d", "#a3e635"),
    "other": ("#64748b", "#94a3b8"),
}

# Group of states to ((border, ground, text) light, (border, ground, text) dark). Text on its ground and on paper has a
# contrast of 4.5 to 1 and a border of 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11).
STATES = {
    "good": (("#16a34a", "#f0fdf4", "#15803d"), ("#22c55e", "#0d2818", "#22c55e")),
    "busy": (("#0284c7", "#f0f9ff", "#0369a1"), ("#38bdf8", "#0b2536", "#38bdf8")),
    "waits": (("#d97706", "#fffbeb", "#b45309"), ("#fbbf24", "#2c2108", "#fbbf24")),
    "bad": (("#dc2626", "#fef2f2", "#b91c1c"), ("#f87171", "#331414", "#f87171")),
    "stopped": (("#475569", "#f1f5f9", "#475569"), ("#94a3b8", "#1c2431", "#94a3b8")),
    "undone": (("#c026d3", "#fdf4ff", "#a21caf"), ("#e879f9", "#2a1030", "#e879f9")),
    "none": (("#64748b", "#f8fafc", "#475569"), ("#64748b", "#161d2a", "#9aa7b8")),
}
GROUPS = {
    "completed": "good",
    "running": "busy",
    "queued": "busy",
    "waiting": "waits",
    "retrying": "waits",
    "held": "waits",
    "parked": "bad",
    "compensated": "undone",
    "failed": "bad",
    "cancelled": "stopped",
}


def state_group(state: str) -> str:
    """The group of a state. Nodes that were not reached, for whatever reason, stay in the background."""
    return GROUPS.get(state, "none")


PAPER, LINE, ARROW, TITLE, SOFT, CHOICE, FAILURE = (
    *("#ffffff", "#cbd5e1", "#94a3b8", "#0f172a", "#64748b", "#475569", "#dc2626"),
)
"""The light colours of the variables with the same names."""
LIGHT = {
    "paper": PAPER,
    "ground": PAPER,
    "line": LINE,
    "arrow": ARROW,
    "title": TITLE,
    "soft": SOFT,
    "choice": CHOICE,
    "failure": FAILURE,
}
DARK = {
    "paper": "#0d1117",
    "ground": "#161b22",
    "line": "#3b4656",
    "arrow": "#5b687a",
    "title": "#e6edf3",
    "soft": "#9aa7b8",
    "choice": "#b6c2d1",
    "failure": "#f87171",
}

_BASE = """
.perdure{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
VARIABLES}
.perdure .paper{fill:var(--paper)}
.perdure .box>rect{fill:var(--ground);stroke:var(--line);stroke-width:1.3}
.perdure .box>.tile{fill:var(--hue);fill-opacity:.13;stroke:none}
.perdure .icon,.perdure .mark{fill:none;stroke:var(--hue);stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}
.perdure .mark{stroke:var(--soft);stroke-width:1.3}
.perdure .t-wait>rect{stroke-dasharray:5 3}
.perdure text{fill:var(--soft)}
.perdure .title{fill:var(--title);font-weight:600}
.perdure .note{font-style:italic}
.perdure .error{fill:var(--failure)}
.perdure .s-bad>rect{stroke-width:2}
.perdure .s-stopped>rect{stroke-dasharray:2 3}
.perdure .arrow .line{fill:none;stroke:var(--arrow);stroke-width:1.5}
.perdure .arrow .head{fill:var(--arrow);stroke:none}
.perdure .failure .line{stroke:var(--failure);stroke-dasharray:5 4}
.perdure .failure .head{fill:var(--failure);stroke:none}
.perdure .back .line{stroke-dasharray:2 4;stroke-linecap:round;stroke-width:1.8}
.perdure .label rect{fill:var(--paper);stroke:var(--line);stroke-width:1}
.perdure .label text{font:10.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;text-anchor:middle;fill:var(--choice)}
.perdure .label.failure text{fill:var(--failure)}
.perdure .s-none text,.perdure .s-none .icon{opacity:.6}
.perdure .state{fill:var(--edge);font-weight:600}
.perdure .s-none .state{fill:var(--soft)}
.perdure .arrow.skipped,.perdure .label.skipped text{opacity:.35}
.perdure .arrow.open,.perdure .label.open text{opacity:.5}
.perdure .failure.skipped .line,.perdure .failure.open .line{stroke:var(--arrow)}
.perdure .failure.skipped .head,.perdure .failure.open .head{fill:var(--arrow);stroke:none}
.perdure .label.failure.skipped text,.perdure .label.failure.open text{fill:var(--choice)}
.perdure .taken .line{stroke:var(--choice);stroke-width:2.2}
.perdure .taken .head{fill:var(--choice);stroke:none}
"""

FONT = "DejaVu Sans,Segoe UI,Roboto,Helvetica,Arial,sans-serif"
CODE_FONT = "DejaVu Sans Mono,Menlo,Consolas,monospace"


def hue(kind: str) -> str:
    return TYPES[kind][0]


def draw_box(kind: str, state: str) -> str:
    """Attributes of the rectangle of a box."""
    group = state_group(state)
    line, ground, _ = STATES[group][0] if state else (LINE, PAPER, TITLE)
    dashes = "2 3" if state and group == "stopped" else "5 3" if kind == "wait" else ""
    width = "2" if state and group == "bad" else "1.3"
    return _attributes(fill=ground, stroke=line, stroke_width=width, stroke_dasharray=dashes)


def draw_text(style: str, state: str) -> str:
    """Attributes of a line in a box."""
    group = state_group(state)
    faded = "0.6" if state and group == "none" else ""
    match style:
        case "title":
            return _attributes(fill=TITLE, font_weight="600", opacity=faded)
        case "state":
            colour = SOFT if group == "none" else STATES[group][0][2]
            return _attributes(fill=colour, font_weight="600", opacity=faded)
        case "note":
            return _attributes(fill=SOFT, font_style="italic", opacity=faded)
        case "error":
            return _attributes(fill=FAILURE)
        case _:
            return _attributes(fill=SOFT, opacity=faded)


def draw_line(kind: str, fate: str) -> tuple[str, str, str]:
    """Attributes of an arrow: of all of it, of its line, and of its head."""
    passed_by = fate in ("skipped", "open")
    colour = FAILURE if kind == "failure" and not passed_by else ARROW
    colour, width = (CHOICE, "2.2") if fate == "taken" else (colour, "1.8" if kind == "back" else "1.5")
    dashes = {"failure": "5 4", "back": "2 4"}.get(kind, "")
    line = _attributes(fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dashes)
    return _attributes(opacity=_fade(fate)), line, _attributes(fill=colour)


def draw_label(kind: str, fate: str) -> tuple[str, str]:
    """Attributes of the ground and of the text of a label."""
    colour = FAILURE if kind == "failure" and fate not in ("skipped", "open") else CHOICE
    ground = _attributes(fill=PAPER, stroke=LINE, stroke_width="1")
    return ground, _attributes(
        fill=colour, font_family=CODE_FONT, font_size="10.5", text_anchor="middle", opacity=_fade(fate)
    )


def draw_sign(kind: str) -> tuple[str, str]:
    """Attributes of the tile and of the lines of an icon."""
    line = _attributes(
        fill="none", stroke=hue(kind), stroke_width="1.6", stroke_linecap="round", stroke_linejoin="round"
    )
    return _attributes(fill=hue(kind), fill_opacity="0.13"), line


def draw_mark() -> str:
    return _attributes(fill="none", stroke=SOFT, stroke_width="1.3", stroke_linecap="round", stroke_linejoin="round")


def _fade(fate: str) -> str:
    return {"skipped": "0.35", "open": "0.5"}.get(fate, "")


def _attributes(**given: str) -> str:
    """Attributes with a space before each; empty ones are left out."""
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in given.items() if value)


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


def _sheet() -> str:
    light, dark = [], [f".perdure{{{_variables(DARK)}}}"]
    for name, (day, night) in TYPES.items():
        light.append(f".perdure .t-{name}{{--hue:{day}}}")
        dark.append(f".perdure .t-{name}{{--hue:{night}}}")
    for name, (day_pair, night_pair) in STATES.items():
        light.append(_state(name, day_pair))
        dark.append(_state(name, night_pair))
    base = _BASE.strip().replace("VARIABLES", _variables(LIGHT))
    return f"{base}\n{''.join(light)}\n@media (prefers-color-scheme:dark){{{''.join(dark)}}}"


def _state(name: str, colours: tuple[str, str, str]) -> str:
    border, ground, text = colours
    return f".perdure .s-{name}{{--edge:{text};--line:{border};--ground:{ground}}}"


STYLE = _sheet()
