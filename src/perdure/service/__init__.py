"""The service: every operation that people and programs have, independent of how they reach it.

`Service(engine, principal)` is what HTTP, the command line on a local database and tests call; `perdure.Client` mirrors
it. It answers with plain data, the same everywhere. It must not know HTTP, and decides nothing about runs.

Nouns are loaded on first use: a command needs only one of them, and must start quickly.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.access import Principal
    from perdure.engine import Engine
    from perdure.service.agent_sessions import AgentSessions
    from perdure.service.approvals import Approvals
    from perdure.service.assets import Assets
    from perdure.service.audit import AuditTrail
    from perdure.service.blobs import Blobs
    from perdure.service.budgets import Budgets
    from perdure.service.dead_letters import DeadLetters
    from perdure.service.events import Events
    from perdure.service.keys import Keys
    from perdure.service.offered_tools import OfferedTools
    from perdure.service.runs.runs import Runs
    from perdure.service.saved_views import SavedViews
    from perdure.service.sessions import Sessions
    from perdure.service.system import System
    from perdure.service.tenancy import Tenancy
    from perdure.service.tools import Tools
    from perdure.service.triggers.triggers import Triggers
    from perdure.service.upkeep import Upkeep
    from perdure.service.workflows.workflows import Workflows

__all__ = ["Service"]


class Service:
    def __init__(self, engine: Engine, principal: Principal, *, owner: bool = False) -> None:
        from perdure.service.tenancy import Tenancy

        self.tenancy: Tenancy = Tenancy(engine, principal, owner=owner)

    @classmethod
    def of_owner(cls, engine: Engine, by: str = "", tenant: str = "default") -> Service:
        """The service for an operator who has the database itself: an administrator who sees every tenant's runs. New
        things belong to `tenant`."""
        from perdure.access import Role, make_principal

        return cls(engine, make_principal(tenant=tenant, name=by, kind="local", roles=(Role.ADMIN,)), owner=True)

    @cached_property
    def runs(self) -> Runs:
        from perdure.service.runs.runs import Runs

        return Runs(self.tenancy)

    @cached_property
    def workflows(self) -> Workflows:
        from perdure.service.workflows.workflows import Workflows

        return Workflows(self.tenancy)

    @cached_property
    def approvals(self) -> Approvals:
        from perdure.service.approvals import Approvals

        return Approvals(self.tenancy)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        from perdure.service.dead_letters import DeadLetters

        return DeadLetters(self.tenancy)

    @cached_property
    def triggers(self) -> Triggers:
        from perdure.service.triggers.triggers import Triggers

        return Triggers(self.tenancy)

    @cached_property
    def events(self) -> Events:
        from perdure.service.events import Events

        return Events(self.tenancy)

    @cached_property
    def blobs(self) -> Blobs:
        from perdure.service.blobs import Blobs

        return Blobs(self.tenancy)

    @cached_property
    def budgets(self) -> Budgets:
        from perdure.service.budgets import Budgets

        return Budgets(self.tenancy)

    @cached_property
    def assets(self) -> Assets:
        from perdure.service.assets import Assets

        return Assets(self.tenancy)

    @cached_property
    def upkeep(self) -> Upkeep:
        from perdure.service.upkeep import Upkeep

        return Upkeep(self.tenancy)

    @cached_property
    def system(self) -> System:
        from perdure.service.system import System

        return System(self.tenancy)

    @cached_property
    def keys(self) -> Keys:
        from perdure.service.keys import Keys

        return Keys(self.tenancy)

    @cached_property
    def saved_views(self) -> SavedViews:
        from perdure.service.saved_views import SavedViews

        return SavedViews(self.tenancy)

    @cached_property
    def tools(self) -> Tools:
        from perdure.service.tools import Tools

        return Tools(self.tenancy)

    def offered_tools(self, *, approvals: bool = False) -> OfferedTools:
        from perdure.service.offered_tools import OfferedTools

        return OfferedTools(self.tenancy, approvals=approvals)

    @cached_property
    def agent_sessions(self) -> AgentSessions:
        from perdure.service.agent_sessions import AgentSessions

        return AgentSessions(self.tenancy)

    @cached_property
    def sessions(self) -> Sessions:
        from perdure.service.sessions import Sessions

        return Sessions(self.tenancy)

    @cached_property
    def audit(self) -> AuditTrail:
        from perdure.service.audit import AuditTrail

        return AuditTrail(self.tenancy)
