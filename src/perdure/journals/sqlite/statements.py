"""The SQL of this adapter, from `queries/`."""

from __future__ import annotations

from perdure.journals.statements import Statements

_statements = Statements("perdure.journals.sqlite")
names = _statements.names
text = _statements.text
query = _statements.query
