"""`python scripts/tokens.py`: writes the colours and icons of the web interface from those of the drawings.

`make ui` runs it. So pictures of the command line, of the docs and of the browser look the same, and a test says when
`tokens.css` or `icons.ts` is out of date.
"""

from __future__ import annotations

import json
from pathlib import Path

from perdure.drawing.icons import ICONS, OTHER
from perdure.drawing.style import DARK, GROUPS, LIGHT, STATES, TYPES

SOURCES = Path(__file__).parent.parent / "ui" / "src"


def make_tokens() -> str:
    lines = [
        "/* Made by scripts/tokens.py from src/perdure/drawing/style.py: change that file, then run `make ui`. */",
        ":root {",
    ]
    for name, light in LIGHT.items():
        lines.append(f"  --{name}: light-dark({light}, {DARK[name]});")
    for kind, (light, dark) in TYPES.items():
        lines.append(f"  --type-{kind}: light-dark({light}, {dark});")
    for group, (day, night) in STATES.items():
        for part, light, dark in zip(("border", "ground", "text"), day, night, strict=True):
            lines.append(f"  --{group}-{part}: light-dark({light}, {dark});")
    lines.append("}")
    for group in STATES:
        states = [f'[data-state="{state}"]' for state, found in GROUPS.items() if found == group]
        selector = ",\n".join([f'[data-group="{group}"]', *states])
        parts = " ".join(f"--state-{part}: var(--{group}-{part});" for part in ("border", "ground", "text"))
        lines.append(f"{selector} {{\n  {parts.replace('; ', f';{chr(10)}  ')}\n}}")
    return "\n".join(lines) + "\n"


def make_icons() -> str:
    rows = "".join(f"  {kind}: {json.dumps(path)},\n" for kind, path in {**ICONS, "other": OTHER}.items())
    said = "// Made by scripts/tokens.py from src/perdure/drawing/icons.py: change that file, then run `make ui`."
    return f"{said}\nexport const ICONS: Readonly<Record<string, string>> = {{\n{rows}}};\n"


MADE = {"style/tokens.css": make_tokens, "graph/icons.ts": make_icons}

if __name__ == "__main__":
    for name, make in MADE.items():
        (SOURCES / name).write_text(make(), encoding="utf-8")
