"""`python scripts/house.py [TREE …]`: what the house is like, in figures, for one or more checkouts side by side.

It reads the source of each tree as text and syntax, and imports nothing of it. Counted are the files of Python in `src/perdure`: a room is a
folder, and a file that is written by a program counts as any other. Cycles are sets of modules that import each other at the top of their
files; with types, also under `if TYPE_CHECKING`. With `--detail`, of the last tree: the rooms, the longest functions, where `Any` is.
"""

from __future__ import annotations

import ast
import re
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FULL_ROOM = 25
LONG_LINES = 70
MOST_SECONDS = 300
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class House:
    """The figures of a tree, and what stands behind each."""

    lines: dict[str, int] = field(default_factory=dict)
    functions: list[tuple[int, str]] = field(default_factory=list)
    rooms: Counter[str] = field(default_factory=Counter)
    any: Counter[str] = field(default_factory=Counter)
    ignores: int = 0
    cycles: list[list[str]] = field(default_factory=list)
    cycles_with_types: list[list[str]] = field(default_factory=list)
    duplicates: str = "-"
    tests: int = 0


def main(arguments: list[str]) -> int:
    trees = [Path(one).resolve() for one in arguments if not one.startswith("-")] or [Path.cwd()]
    for tree in trees:
        if not (tree / "src" / "perdure").is_dir():
            print(f"{tree} is no checkout of Perdure: it has no folder src/perdure", file=sys.stderr)
            return 2
    houses = [look_at(tree) for tree in trees]
    table = [figures_of(house) for house in houses]
    print(f"{'':44}" + "".join(f"{tree.name[:16]:>18}" for tree in trees))
    for name in table[0]:
        print(f"{name:44}" + "".join(f"{one[name]:>18}" for one in table))
    if "--detail" in arguments:
        print_detail(houses[-1])
    return 0


def figures_of(house: House) -> dict[str, str]:
    sizes, lengths = list(house.lines.values()), sorted(length for length, _ in house.functions)
    fullest, most = house.rooms.most_common(1)[0]
    longest, where = max(house.functions)
    return {
        "files of source": f"{len(sizes):,}",
        "lines of source": f"{sum(sizes):,}",
        "lines of tests": f"{house.tests:,}",
        "largest file": f"{max(sizes)}",
        "median file": f"{statistics.median(sizes):.0f}",
        "rooms": f"{len(house.rooms)}",
        "fullest room": f"{fullest or '.'} {most}",
        "files a room, mean": f"{len(sizes) / len(house.rooms):.1f}",
        f"rooms of more than {FULL_ROOM} files": f"{sum(n > FULL_ROOM for n in house.rooms.values())}",
        "functions": f"{len(lengths):,}",
        "longest function": f"{longest} {where.rpartition(' ')[2]}",
        "p95 of functions": f"{lengths[len(lengths) * 95 // 100]}",
        f"functions over {LONG_LINES} lines": f"{sum(n > LONG_LINES for n in lengths)}",
        "Any": f"{sum(house.any.values()):,}",
        "Any in 1,000 lines": f"{1000 * sum(house.any.values()) / sum(sizes):.1f}",
        "type: ignore": f"{house.ignores}",
        "cycles of imports": f"{len(house.cycles)}",
        "cycles with types (modules in them)": f"{len(house.cycles_with_types)} ({sum(map(len, house.cycles_with_types))})",
        "pairs of duplicates": house.duplicates,
    }


def look_at(tree: Path) -> House:
    root, house = tree / "src" / "perdure", House()
    modules: dict[str, ast.Module] = {}
    for path in sorted(root.rglob("*.py")):
        where, text = path.relative_to(root), path.read_text(encoding="utf-8")
        module = ast.parse(text)
        house.lines[where.as_posix()] = len(text.splitlines())
        house.rooms[where.parent.as_posix()] += 1
        house.ignores += len(re.findall(r"# type: ignore", text))
        for node in ast.walk(module):
            if isinstance(node, Function):
                house.functions.append(((node.end_lineno or 0) - node.lineno + 1, f"{where.as_posix()} {node.name}"))
            elif isinstance(node, ast.Name) and node.id == "Any":
                house.any[where.as_posix()] += 1
        modules[".".join(("perdure", *where.with_suffix("").parts)).removesuffix(".__init__")] = module
    house.cycles = cycles({name: set(needs_of(one, name, modules, types=False)) for name, one in modules.items()})
    house.cycles_with_types = cycles(
        {name: set(needs_of(one, name, modules, types=True)) for name, one in modules.items()}
    )
    house.tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (tree / "tests").rglob("*.py"))
    house.duplicates = duplicates(root)
    return house


def needs_of(module: ast.Module, name: str, modules: dict[str, ast.Module], *, types: bool) -> Iterator[str]:
    """The modules that a module imports at its top."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, Function) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types
        ):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules and alias.name != name)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                found = f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in modules else node.module
                if found != name:
                    yield found
        else:
            pending += ast.iter_child_nodes(node)


def cycles(needs: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other (Tarjan, without recursion)."""
    numbers: dict[str, int] = {}
    lows: dict[str, int] = {}
    path: list[str] = []
    found = []
    for root, first in needs.items():
        if root in numbers:
            continue
        numbers[root] = lows[root] = len(numbers)
        path.append(root)
        work = [(root, iter(sorted(first)))]
        while work:
            at, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lows[work[-1][0]] = min(lows[work[-1][0]], lows[at])
                if lows[at] == numbers[at]:
                    circle = path[path.index(at) :]
                    del path[path.index(at) :]
                    if len(circle) > 1:
                        found.append(sorted(circle))
            elif following not in numbers:
                numbers[following] = lows[following] = len(numbers)
                path.append(following)
                work.append((following, iter(sorted(needs[following]))))
            elif following in path:
                lows[at] = min(lows[at], numbers[following])
    return found


def duplicates(root: Path) -> str:
    """How many pairs of places share six lines or more, where there is a program `duplicates`; those of boilerplate too."""
    if (program := shutil.which("duplicates")) is None:
        return "-"
    command = [program, "--repo", str(root), "--seconds", str(MOST_SECONDS), "--most", "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * MOST_SECONDS)
    counted = re.search(r"(\d+) pairs of places", done.stdout)
    return counted[1] if counted else "-"


def print_detail(house: House) -> None:
    print("\nrooms:", ", ".join(f"{room} {n}" for room, n in house.rooms.most_common(20)))
    print("\nlongest functions:")
    for length, where in sorted(house.functions, reverse=True)[:15]:
        print(f"  {length:4} {where}")
    print("\nAny:", ", ".join(f"{where} {n}" for where, n in house.any.most_common(25)))
    print("\ncycles with types:")
    for one in house.cycles_with_types:
        print("  " + " ".join(one))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
