"""`python scripts/openapi.py FILE`: writes the OpenAPI document of the server, from which the types of `ui/src/api/schema.ts` are made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from perdure.api.app import NOUNS
from perdure.api.openapi import make_document
from perdure.api.routes.dev_only import routes as dev


def main(file: Path) -> None:
    document = make_document([endpoint for noun in (*NOUNS, dev) for endpoint in noun.endpoints])
    file.write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
