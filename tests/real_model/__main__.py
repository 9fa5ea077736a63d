"""`make real-model`: runs of `llm`, `classifier` and `agent` nodes on SmolLM2, a real and poor model on this machine.

What it says does not matter. Every run ends, completed or with a code that the reference documents, and the tokens that the runs
count are those that the model's own server counts. Not a part of `make test`: it fetches 127 MB, and a run takes seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from model import Model, NoModel  # type: ignore[import-not-found]  # noqa: E402

WORDS = (
    "a lamp that does not shine",
    "an invoice that was paid twice",
    "thanks for the quick help",
    "",
    "ünïcödé 漢字 🙂",
)
RUN_SECONDS = 600
TOOLS = '''
def lookup(company: str, year: int = 2026) -> dict:
    """Looks a company up."""
    return {"company": company[:100], "year": year, "seats": 42}


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b
'''


def definitions(number: int) -> list[dict[str, Any]]:
    """One workflow of each kind; every number another prompt."""
    text = f"{WORDS[number % len(WORDS)]} ({number})"
    params = {"temperature": round(number % 5 / 4, 2), "max_output_tokens": 60, "seed": number}
    answer = {
        "type": "object",
        "required": ["about"],
        "additionalProperties": False,
        "properties": {"about": {"type": "string", "maxLength": 40}},
    }
    tools = [{"function": "shop:lookup", "effect": "read"}, {"function": "shop:add", "effect": "read"}]
    kinds: list[dict[str, Any]] = [
        {
            "type": "llm",
            "config": {"model": "small", "prompt": f"Say what this is about: {text}", "params": params, "repairs": 1},
        },
        {
            "type": "classifier",
            "config": {
                "model": "small",
                "input": text,
                "labels": {"bug": "broken", "billing": "money", "praise": "thanks"},
            },
        },
        {
            "type": "agent",
            "config": {
                "model": "small",
                "prompt": f"Help: {text}",
                "params": params,
                "tools": tools,
                "max_turns": 3,
                "repairs": 1,
            },
        },
    ]
    if number % 2:
        kinds[0]["config"]["schema"] = kinds[2]["config"]["schema"] = answer
    return [{"name": f"{one['type']}", "nodes": [{"id": "ask", **one, "retry": {"max_attempts": 1}}]} for one in kinds]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real_model", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    codes = set(re.findall(r"^\| `([a-z_:]+)`", (ROOT / "docs/reference/errors.md").read_text(), re.MULTILINE))
    try:
        with Model() as model, tempfile.TemporaryDirectory(prefix="perdure-real-model-") as name:
            return _run_all(Path(name), model, given.runs, codes)
    except NoModel as error:
        print(f"real-model: there is no model here: {error}", file=sys.stderr)
        return 1


def _run_all(folder: Path, model: Any, runs: int, codes: set[str]) -> int:
    (folder / "agents.toml").write_text(model.agents_file)
    (folder / "perdure.toml").write_text('agents_file = "agents.toml"\n')
    (folder / "shop.py").write_text(TOOLS)
    ended: Counter[str] = Counter()
    wrong: list[str] = []
    counted = 0
    for number in range(runs):
        definition = definitions(number // 3)[number % 3]
        file = folder / f"r{number}.json"
        file.write_text(json.dumps(definition))
        command = [sys.executable, "-m", "perdure"]
        run = subprocess.run(
            [*command, "run", file.name, "--run-id", f"r{number}"],
            cwd=folder,
            check=False,
            capture_output=True,
            timeout=RUN_SECONDS,
        )
        shown = json.loads(_say(folder, "runs", "show", f"r{number}"))
        error = shown.get("error") or {}
        outcome = shown["state"] if not error else error["code"]
        ended[f"{definition['name']}: {outcome}"] += 1
        if run.returncode not in (0, 1) or (error and error["code"] not in codes):
            wrong.append(f"r{number}: exit {run.returncode}, {outcome}: {run.stderr.decode()[-300:]}")
        counted += json.loads(_say(folder, "runs", "cost", f"r{number}"))["total"]["output"]
    for what, times in sorted(ended.items()):
        print(f"{times:5} {what}")
    wrote = model.count_output()
    print(f"tokens written: {wrote} by the server, {counted} by the runs")
    if wrote != counted:
        wrong.append("the runs count other tokens than the server")
    print("\n".join(wrong) or f"nothing wrong in {runs} runs")
    return 1 if wrong else 0


def _say(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "perdure", *words, "--json"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
