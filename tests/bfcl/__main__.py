"""`make bfcl`: every function and every call of BFCL through the wire formats, and a search for the functions by what people ask.

`--write-sample` writes the sample that `make test` has.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from perdure.expressions.json_schema import find_mistake
from scripts import judges
from tests.bfcl.functions import SAMPLE, Question, read_all
from tests.bfcl.judging import recall, through_the_wire

BAR = 0.88
EVERY = 60


def judge(questions: list[Question]) -> int:
    tools = {msgspec.json.encode(tool, order="sorted") for one in questions for tool in one.tools}
    print(f"{len(questions)} questions, {len(tools)} different functions")
    mistakes = [
        f"{one.id} {tool.name}: {found}"
        for one in questions
        for tool in one.tools
        if (found := find_mistake(tool.schema))
    ]
    count, wrong = asyncio.run(through_the_wire(questions))
    print(f"{count} exchanges: {len(wrong)} differ; {len(mistakes)} schemas are none")
    print("\n".join([*wrong, *mistakes][:20]))
    small, large, known = recall(questions)
    print(f"search among {known} functions: recall@5 {small:.3f}, recall@10 {large:.3f}")
    return 1 if wrong or mistakes or large < BAR else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bfcl", description=__doc__)
    parser.add_argument("--write-sample", action="store_true")
    given = parser.parse_args()
    try:
        folder = judges.fetch("bfcl") / "bfcl_eval" / "data"
    except judges.Unavailable as error:
        print(f"bfcl: cannot be had: {error}", file=sys.stderr)
        return 1
    questions = read_all(folder)
    if given.write_sample:
        SAMPLE.write_bytes(msgspec.json.format(msgspec.json.encode(questions[::EVERY]), indent=1) + b"\n")
        return 0
    return judge(questions)


if __name__ == "__main__":
    sys.exit(main())
