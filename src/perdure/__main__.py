"""`python -m perdure`."""

from perdure.cli import main

main()
