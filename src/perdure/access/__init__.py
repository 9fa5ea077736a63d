"""Access: who asks, what they may do, how often, and the audit trail they leave. It knows no HTTP and no route.

authenticator = open_authenticator(settings, journal.archive, clock)      # SettingsInvalid if `auth` cannot work
check_exposure(settings, host)                                            # SettingsInvalid: open beyond loopback
principal = await authenticator.authenticate(authorization_header)        # Principal, or Unauthenticated (401)
limiter = RateLimiter(clock, per_key=…, per_tenant=…)                     # requests a second; 0: no limit
limiter.check(principal)                                                  # RateLimited (429) with .retry_after
places = Places(per_key=…, per_tenant=…)                                  # streams and waiting requests at once
with places.enter(principal): …                                             # RateLimited (429)
principal.require(Permission.RUNS_START)                                  # Forbidden (403)
principal.may(Permission.RUNS_START)                                      # bool

issued = await issue_key(archive, clock, tenant=…, name=…, roles=("operator",), scopes=(), expires_at=None, by=…)
issued.text                                                               # `perdure_<id>_<secret>`, shown once
issued.key                                                                # perdure.archive.ApiKey

sessions = Sessions(archive, clock, authenticator)
opened = await sessions.open(key_or_token)                                # Unauthenticated (401); .text is the cookie
principal = await sessions.authenticate(opened.text)                      # Unauthenticated (401) once it has ended
await sessions.end(opened.text)

audit = Audit(archive, clock)
await audit.record(principal, "alias.moved", "workflow orders@live", before={…}, after={…}, request_id="…")
verdict = await verify_audit(archive, tenant)                             # .broken_seq is None, or the first bad one

links = Links(archive, clock)
token = await links.make(tenant=…, approval_id=…, run_id=…, decision="approve", approver=…, expires_at=…)
link = await links.get(token)                                            # LinkInvalid (403); changes nothing
link = await links.consume(token, approval_id=…, decision=…)              # exactly once, else LinkInvalid (403)
await links.release(link)                                                 # certainly nothing was decided
principal = link_principal(link)                                          # may decide approvals, nothing else
"""

from perdure.access.audit import Audit, AuditVerdict, verify_audit
from perdure.access.authenticator import Authenticator, check_exposure, open_authenticator
from perdure.access.errors import Forbidden, LinkInvalid, RateLimited, Unauthenticated
from perdure.access.keys import InvalidKey, IssuedKey, issue_key
from perdure.access.links import Links, link_principal
from perdure.access.principal import DEFAULT_TENANT, LOCAL, Principal, make_principal
from perdure.access.rate_limits import Buckets, Failures, Place, Places, RateLimiter, name_of, network_of
from perdure.access.roles import PERMISSIONS, InvalidRole, Permission, Role, check_roles, permissions_of
from perdure.access.sessions import IDLE_SECONDS, OpenedSession, Sessions

__all__ = [
    "DEFAULT_TENANT",
    "IDLE_SECONDS",
    "LOCAL",
    "PERMISSIONS",
    "Audit",
    "AuditVerdict",
    "Authenticator",
    "Buckets",
    "Failures",
    "Forbidden",
    "InvalidKey",
    "InvalidRole",
    "IssuedKey",
    "LinkInvalid",
    "Links",
    "OpenedSession",
    "Permission",
    "Place",
    "Places",
    "Principal",
    "RateLimited",
    "RateLimiter",
    "Role",
    "Sessions",
    "Unauthenticated",
    "check_exposure",
    "check_roles",
    "issue_key",
    "link_principal",
    "make_principal",
    "name_of",
    "network_of",
    "open_authenticator",
    "permissions_of",
    "verify_audit",
]
