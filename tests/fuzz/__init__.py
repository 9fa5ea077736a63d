"""Bad input, made by chance: text, templates, expressions, queries, patterns, schemas, programs.

`make test` tries some thousands, always the same ones; `python -m tests.fuzz --cases 1000000` as many as there is time for.
"""
