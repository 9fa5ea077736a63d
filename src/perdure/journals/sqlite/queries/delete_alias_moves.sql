DELETE FROM alias_moves
WHERE tenant = :tenant AND workflow = :workflow
