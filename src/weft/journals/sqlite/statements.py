"""The SQL of this adapter, from `queries/`."""

from __future__ import annotations

from weft.journals.statements import Statements

_statements = Statements("weft.journals.sqlite")
names = _statements.names
text = _statements.text
query = _statements.query
