-- What was used, by tenant, day (UTC), workflow and model. Rows change in the transaction of the append that brings what was used (B2), in
-- the order of their keys, so that appends of several coordinators wait for each other in one direction.

CREATE TABLE perdure.ledger (
    tenant          text COLLATE "C" NOT NULL,
    day             text COLLATE "C" NOT NULL,
    workflow        text COLLATE "C" NOT NULL,
    model           text COLLATE "C" NOT NULL,
    input           bigint NOT NULL,
    cached          bigint NOT NULL,
    written         bigint NOT NULL,
    output          bigint NOT NULL,
    reasoning       bigint NOT NULL,
    calls           bigint NOT NULL,
    usd             bigint NOT NULL,
    unpriced        bigint NOT NULL,
    unsettled_calls bigint NOT NULL,
    unsettled_usd   bigint NOT NULL,
    PRIMARY KEY (tenant, day, workflow, model)
);

CREATE FUNCTION perdure.write_ledger(
    accepted boolean[], commits integer[], tenants text[], days text[], workflows text[], models text[],
    input_sums bigint[], cached_sums bigint[], written_sums bigint[], output_sums bigint[], reasoning_sums bigint[], calls_sums bigint[], usd_sums bigint[], unpriced_sums bigint[], unsettled_calls_sums bigint[], unsettled_usd_sums bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.ledger AS l (tenant, day, workflow, model, input, cached, written, output, reasoning, calls, usd, unpriced, unsettled_calls, unsettled_usd)
    SELECT
        u.tenant, u.day, u.workflow, u.model,
        sum(u.input), sum(u.cached), sum(u.written), sum(u.output), sum(u.reasoning), sum(u.calls), sum(u.usd), sum(u.unpriced), sum(u.unsettled_calls), sum(u.unsettled_usd)
    FROM unnest(commits, tenants, days, workflows, models, input_sums, cached_sums, written_sums, output_sums, reasoning_sums, calls_sums, usd_sums, unpriced_sums, unsettled_calls_sums, unsettled_usd_sums)
        AS u (commit, tenant, day, workflow, model, input, cached, written, output, reasoning, calls, usd, unpriced, unsettled_calls, unsettled_usd)
    WHERE accepted[u.commit]
    GROUP BY u.tenant, u.day, u.workflow, u.model
    ORDER BY u.tenant COLLATE "C", u.day COLLATE "C", u.workflow COLLATE "C", u.model COLLATE "C"
    ON CONFLICT (tenant, day, workflow, model) DO UPDATE
    SET
        input = l.input + excluded.input,
        cached = l.cached + excluded.cached,
        written = l.written + excluded.written,
        output = l.output + excluded.output,
        reasoning = l.reasoning + excluded.reasoning,
        calls = l.calls + excluded.calls,
        usd = l.usd + excluded.usd,
        unpriced = l.unpriced + excluded.unpriced,
        unsettled_calls = l.unsettled_calls + excluded.unsettled_calls,
        unsettled_usd = l.unsettled_usd + excluded.unsettled_usd;
END $$;
