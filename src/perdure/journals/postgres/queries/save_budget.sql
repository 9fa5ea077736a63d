INSERT INTO perdure.budgets (tenant, scope, usd, tokens, calls, per, share)
VALUES (:tenant, :scope, :usd, :tokens, :calls, :per, :share)
ON CONFLICT (tenant, scope) DO UPDATE
SET
    usd = excluded.usd,
    tokens = excluded.tokens,
    calls = excluded.calls,
    per = excluded.per,
    share = excluded.share
