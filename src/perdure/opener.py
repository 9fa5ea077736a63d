"""Opens the database a program or a command works on: its settings, its folder and an engine.

Adapters and the engine are imported late: commands that only read settings need none of them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import SettingsInvalid
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.engine import Engine

LONGEST_PATH = 504
"""What SQLite opens: 512 bytes, with the names of the files beside it."""


def load_settings(db: str | None) -> Settings:
    return Settings.load({"database_url": None if db is None else as_url(db)})


def as_url(db: str) -> str:
    """The URL of a database that is given as a URL or as the path of a SQLite file."""
    if re.match(r"^[a-z][a-z0-9+.-]*:", db):
        return db
    return f"sqlite:////{Path(db).absolute().as_posix().lstrip('/')}"


def make_folder(settings: Settings) -> None:
    from perdure.deployment import database_file, is_postgres

    if not is_postgres(settings.database_url):
        path = database_file(settings.database_url)
        if (length := len(os.fsencode(path.absolute()))) > LONGEST_PATH:
            raise SettingsInvalid(
                f"the path of the database has {length:,} bytes, and SQLite opens none of more than {LONGEST_PATH}; "
                f"choose a shorter one than {str(path)[:60]}…"
            )
        # Inputs, outputs and hashes of keys are private: a folder made here is open to its owner alone.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def prepare_calls(settings: Settings) -> None:
    """Let this process call what the settings allow, and know which secrets are keys of models."""
    from perdure import egress, llms
    from perdure.egress.policy import Policy

    llms.configure(settings.agents_file)
    egress.configure(Policy.parse(settings.egress_allow))


async def open_engine(settings: Settings) -> Engine:
    from perdure.engine import Engine
    from perdure.sandbox import python as sandbox

    prepare_calls(settings)
    sandbox.configure(settings.sandbox_memory_mb)
    return await Engine.open(settings)
