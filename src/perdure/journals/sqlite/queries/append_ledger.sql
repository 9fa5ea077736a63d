INSERT INTO ledger (tenant, day, workflow, model, input, cached, written, output, reasoning, calls, usd, unpriced, unsettled_calls, unsettled_usd)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, day, workflow, model) DO UPDATE
SET
    input = ledger.input + excluded.input,
    cached = ledger.cached + excluded.cached,
    written = ledger.written + excluded.written,
    output = ledger.output + excluded.output,
    reasoning = ledger.reasoning + excluded.reasoning,
    calls = ledger.calls + excluded.calls,
    usd = ledger.usd + excluded.usd,
    unpriced = ledger.unpriced + excluded.unpriced,
    unsettled_calls = ledger.unsettled_calls + excluded.unsettled_calls,
    unsettled_usd = ledger.unsettled_usd + excluded.unsettled_usd
