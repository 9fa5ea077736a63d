SELECT
    name,
    sum(input)::bigint AS input,
    sum(cached)::bigint AS cached,
    sum(written)::bigint AS written,
    sum(output)::bigint AS output,
    sum(reasoning)::bigint AS reasoning,
    sum(calls)::bigint AS calls,
    sum(usd)::bigint AS usd,
    sum(unpriced)::bigint AS unpriced,
    sum(unsettled_calls)::bigint AS unsettled_calls,
    sum(unsettled_usd)::bigint AS unsettled_usd
FROM (
    SELECT
        CASE :grouping WHEN 'day' THEN day WHEN 'workflow' THEN workflow WHEN 'model' THEN model ELSE tenant END AS name,
        input, cached, written, output, reasoning, calls, usd, unpriced, unsettled_calls, unsettled_usd
    FROM perdure.ledger
    WHERE tenant = :tenant
      AND day >= :since
      AND day < :until
      AND (workflow = :workflow OR :workflow = '')
    ORDER BY day, workflow, model
    LIMIT 1000000
) AS counted
GROUP BY name
ORDER BY name
LIMIT :limit
