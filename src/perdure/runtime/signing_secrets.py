"""The secrets that definitions name to sign or to verify with. A key of a model is none (X08)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import llms
from perdure.errors import SettingsInvalid

if TYPE_CHECKING:
    from perdure.secrets.vault import Vault


def reveal_unless_a_key(vault: Vault, name: str, tenant: str, queue: str) -> str:
    """A secret that a definition names to sign or to verify with. The key of a model is none: what is signed with it goes
    where a workflow says, and every answer about a signature is a guess less. Raises LookupError, also where the operator's
    file cannot be read: then nobody knows which secrets are keys."""
    try:
        is_key = llms.get_models().find_owner_of(name) is not None
    except SettingsInvalid as error:
        raise LookupError(name) from error
    if is_key:
        raise LookupError(name)
    return vault.reveal(name, tenant, queue)
