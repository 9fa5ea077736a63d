DELETE FROM aliases
WHERE tenant = :tenant AND workflow = :workflow
