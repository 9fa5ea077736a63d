"""The report on many histories of one workflow: how it ends, what was never reached, and the shortest bad one."""

from __future__ import annotations

import msgspec

from perdure.plain_text import cut


class End(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which histories ended."""

    state: str
    """A state of the run, `stuck`, `endless`, or `broken` when Perdure broke a rule of its own."""
    reason: str = ""
    """Which node failed with which code, for runs that did not complete."""
    message: str = ""
    """What the error of the example says."""
    seeds: int = 0
    example: int = 0
    """The first seed that ended like this."""

    @property
    def why(self) -> str:
        """The reason, with what the error of the example says."""
        said = " ".join(self.message.split())
        return f"{self.reason}: {cut(said, 160)}" if said else self.reason

    @property
    def bad(self) -> bool:
        return self.state in ("stuck", "endless", "broken")


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """A history that did not end as it must."""

    seed: int
    kind: str
    message: str
    history: tuple[str, ...]
    faults: tuple[str, ...] = ()
    """The faults needed to get there; empty when none is needed."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    workflow: str
    start: int
    seeds: int
    ends: tuple[End, ...]
    never_reached: tuple[str, ...] = ()
    bad: Bad | None = None
    virtual_seconds: float = 0.0
    faults: int = 0
    """How many faults were injected over all histories."""
    digest: str = ""
    """The digest of all histories; equal digests mean equal histories."""

    @property
    def ok(self) -> bool:
        """Every history ended, and no rule was broken."""
        return self.bad is None

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Rows for a table: end state, seeds, share, example seed, reason."""
        return [
            (end.state, str(end.seeds), f"{100 * end.seeds / max(self.seeds, 1):.1f}%", str(end.example), end.why)
            for end in self.ends
        ]

    def verdict(self) -> str:
        bad = sum(end.seeds for end in self.ends if end.bad)
        if not bad:
            return f"{self.workflow} ended in every one of {self.seeds} histories, and every rule held."
        return f"{self.workflow} went wrong in {bad} of {self.seeds} histories."

    def __str__(self) -> str:
        rows = [("END STATE", "SEEDS", "SHARE", "EXAMPLE SEED", "WHY"), *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [self.verdict()]
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        if self.never_reached:
            lines.append(f"never reached: {', '.join(self.never_reached)}")
        if self.bad is not None:
            lines += [*self.describe_bad(), *self.bad.history]
        return "\n".join(lines)

    def describe_bad(self) -> list[str]:
        if self.bad is None:
            return []
        need = f"with {', '.join(self.bad.faults)}" if self.bad.faults else "without any fault"
        return [f"shortest bad history (seed {self.bad.seed}, {need}):", f"{self.bad.kind}: {self.bad.message}"]
