"""put_definition, get_definition: content by its hash."""

import pytest

from perdure.errors import NotFound
from perdure.journal import Definition


async def test_a_definition_comes_back_byte_for_byte(journal):
    await journal.put_definition("sha256:ab", "ir", b"\x00\xffbody")
    assert await journal.get_definition("sha256:ab") == Definition("sha256:ab", "ir", b"\x00\xffbody")


async def test_putting_it_again_changes_nothing(journal):
    await journal.put_definition("sha256:ab", "ir", b"body")
    await journal.put_definition("sha256:ab", "ir", b"body")
    assert (await journal.get_definition("sha256:ab")).body == b"body"


async def test_an_unknown_hash_is_not_found(journal):
    with pytest.raises(NotFound, match="definition sha256:no"):
        await journal.get_definition("sha256:no")
