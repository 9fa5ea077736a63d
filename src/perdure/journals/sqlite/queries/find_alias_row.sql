SELECT revision, present
FROM aliases
WHERE tenant = :tenant AND workflow = :workflow AND alias = :alias
