SELECT
    name,
    sum(input) AS input,
    sum(cached) AS cached,
    sum(written) AS written,
    sum(output) AS output,
    sum(reasoning) AS reasoning,
    sum(calls) AS calls,
    sum(usd) AS usd,
    sum(unpriced) AS unpriced,
    sum(unsettled_calls) AS unsettled_calls,
    sum(unsettled_usd) AS unsettled_usd
FROM (
    SELECT
        CASE :grouping WHEN 'day' THEN day WHEN 'workflow' THEN workflow WHEN 'model' THEN model ELSE tenant END AS name,
        input, cached, written, output, reasoning, calls, usd, unpriced, unsettled_calls, unsettled_usd
    FROM ledger
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
