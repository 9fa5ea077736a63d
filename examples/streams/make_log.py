"""Print a log of so many lines: a page and a size each, and now and then something else."""

import sys

for number in range(int(sys.argv[1])):
    print("???" if number % 1000 == 999 else f"/page/{number % 3} {100 + number % 7}")
