"""The definitions an engine has: checked, stored, and made versions of their workflows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.blobs import BlobStore
from perdure.journal import Journal
from perdure.limits import Bounds
from perdure.model import Compiled, DefinitionError
from perdure.model import ir as irs
from perdure.model.ir import IR
from perdure.nodes.registry import Registry
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.library import Library
from perdure.runtime.definition_checks import Checker


class Workflows:
    def __init__(
        self,
        journal: Journal,
        library: Library,
        registry: Registry,
        blobs: BlobStore | None,
        *,
        coordinator: Callable[[], Coordinator | None],
        bounds: Bounds | None = None,
    ) -> None:
        """`coordinator` gives that of this process, if it decides."""
        self._journal = journal
        self._library = library
        self._coordinator = coordinator
        self.checker = Checker(registry, blobs, library.find_workflow, bounds)
        """Decides whether a definition can be stored here."""

    async def register(self, compiled: Compiled, *, tenant: str = "default", checked: bool = False) -> tuple[IR, int]:
        """Store a workflow and return its IR and version; registering the same definition again gives the same
        version."""
        ir = await self.keep(compiled, tenant=tenant, checked=checked)
        body = f"definition:{ir.hash}"
        return ir, await self._journal.register_workflow(ir.name, body, ir_hash=ir.hash, tenant=tenant)

    async def keep(self, compiled: Compiled, *, tenant: str = "default", checked: bool = False) -> IR:
        """Store a definition without making it a version of its workflow; a patch names it by its hash. With `checked`
        it has passed the checker already."""
        ir = compiled.get_ir()
        problems = () if checked else await self.checker.find_problems(compiled, tenant=tenant)
        if any(problem.severity == "error" for problem in problems):
            raise DefinitionError((*compiled.problems, *problems))
        coordinator = (
            self._coordinator()
        )  # one that begins meanwhile reads it: what it is given must be of its incarnation
        if coordinator is not None:
            await coordinator.incarnation.learn()
        body = msgspec.json.encode(compiled.definition, order="deterministic")
        encoded = irs.encode(ir)
        await self._library.put(ir.hash, "ir", encoded)
        await self._library.put(f"definition:{ir.hash}", "definition", body)
        self._library.add(ir, len(encoded))
        if coordinator is not None:
            coordinator.library.add(ir, len(encoded))
        return ir
