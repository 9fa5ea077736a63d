// What each role permits, as in src/perdure/access/roles.py; a test compares the two.

export const ROLES = ["viewer", "operator", "approver", "author", "admin"] as const;

const VIEW = [
  "runs:read",
  "workflows:read",
  "approvals:read",
  "dead_letters:read",
  "blobs:read",
  "system:read",
  "costs:read",
];
const OPERATE = [...VIEW, "runs:start", "runs:operate", "dead_letters:operate", "blobs:write"];
const AUTHOR = [...OPERATE, "runs:patch", "workflows:write", "workflows:delete"];

export const GIVEN: Readonly<Record<string, readonly string[]>> = {
  viewer: VIEW,
  operator: OPERATE,
  approver: [...VIEW, "approvals:decide"],
  author: AUTHOR,
  admin: [...AUTHOR, "approvals:decide", "system:operate", "costs:write", "keys:admin", "audit:read"],
};

export const PERMISSIONS = [
  "runs:read",
  "runs:start",
  "runs:operate",
  "runs:patch",
  "workflows:read",
  "workflows:write",
  "workflows:delete",
  "approvals:read",
  "approvals:decide",
  "dead_letters:read",
  "dead_letters:operate",
  "blobs:read",
  "blobs:write",
  "system:read",
  "system:operate",
  "costs:read",
  "costs:write",
  "keys:admin",
  "audit:read",
] as const;
