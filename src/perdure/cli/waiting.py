"""What a run waits for that only a person can give: for the command line the same as for a program."""

from __future__ import annotations

from perdure.sdk.asks import Ask, Waiting, approve_command, look

__all__ = ["Ask", "Waiting", "approve_command", "look"]
