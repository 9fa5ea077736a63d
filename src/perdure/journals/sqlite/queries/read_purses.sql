WITH counted AS (
    SELECT b.scope, 0 AS spent_usd, 0 AS spent_tokens, 0 AS spent_calls, 0 AS held_usd, 0 AS held_tokens, 0 AS held_calls
    FROM budgets AS b
    WHERE b.tenant = :tenant
      AND (:workflow = '' OR b.scope IN ('tenant', 'workflow:' || :workflow))
    UNION ALL
    SELECT b.scope, l.usd, l.input + l.output, l.calls, 0, 0, 0
    FROM budgets AS b
    JOIN ledger AS l
      ON l.tenant = b.tenant
     AND l.day >= CASE b.per WHEN 'day' THEN :day ELSE :month END
    WHERE b.tenant = :tenant
      AND (:workflow = '' OR b.scope IN ('tenant', 'workflow:' || :workflow))
      AND (b.scope = 'tenant' OR b.scope = 'workflow:' || l.workflow)
    UNION ALL
    SELECT b.scope, 0, 0, 0, l.usd, l.input + l.output, l.calls
    FROM budgets AS b
    JOIN ledger AS l
      ON l.tenant = b.tenant
     AND l.day = ''
    WHERE b.tenant = :tenant
      AND (:workflow = '' OR b.scope IN ('tenant', 'workflow:' || :workflow))
      AND (b.scope = 'tenant' OR b.scope = 'workflow:' || l.workflow)
    LIMIT 1000000
)
SELECT
    b.tenant, b.scope, b.usd, b.tokens, b.calls, b.per, b.share,
    sum(counted.spent_usd) AS spent_usd,
    sum(counted.spent_tokens) AS spent_tokens,
    sum(counted.spent_calls) AS spent_calls,
    sum(counted.held_usd) AS held_usd,
    sum(counted.held_tokens) AS held_tokens,
    sum(counted.held_calls) AS held_calls
FROM counted
CROSS JOIN budgets AS b
  ON b.tenant = :tenant
 AND b.scope = counted.scope
GROUP BY b.tenant, b.scope
ORDER BY b.scope
LIMIT :limit
