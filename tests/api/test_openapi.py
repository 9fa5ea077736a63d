"""The document of the API is one that tools can read: whatever it refers to is in it."""

import json
import re

from perdure.api.app import NOUNS
from perdure.api.openapi import make_document


def test_every_reference_leads_somewhere():
    document = make_document([endpoint for noun in NOUNS for endpoint in noun.endpoints])
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named - set(document["components"]["schemas"]) == set()
