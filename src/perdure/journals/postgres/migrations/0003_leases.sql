-- How coordinators share the partitions: the rules stand in perdure/leases.py. One at a time, by a lock of the transaction; the
-- clock is the database's.

CREATE FUNCTION perdure.lease(new_holder text, lease_seconds double precision)
RETURNS TABLE (share integer, partition_number integer, epoch_number bigint) LANGUAGE plpgsql AS $$
DECLARE
    total integer;
    alive integer;
    mine integer;
    rank integer;
    now timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(1346720324, 4);
    now := clock_timestamp();
    DELETE FROM perdure.coordinators c WHERE c.expires_at <= now AND c.holder <> new_holder;
    INSERT INTO perdure.coordinators AS c (holder, expires_at)
    VALUES (new_holder, now + make_interval(secs => lease_seconds))
    ON CONFLICT (holder) DO UPDATE SET expires_at = excluded.expires_at;
    SELECT m.partitions INTO total FROM perdure.meta m;
    SELECT count(*), count(*) FILTER (WHERE c.holder < new_holder) INTO alive, rank FROM perdure.coordinators c;
    share := total / alive + CASE WHEN rank < total % alive THEN 1 ELSE 0 END;
    SELECT count(*) INTO mine FROM perdure.partitions p WHERE p.holder = new_holder;
    IF mine < share THEN
        UPDATE perdure.partitions p
        SET holder = new_holder, epoch = p.epoch + 1
        WHERE p.partition IN (
            SELECT free.partition
            FROM perdure.partitions free
            WHERE free.holder IS NULL
               OR NOT EXISTS (SELECT FROM perdure.coordinators c WHERE c.holder = free.holder)
            ORDER BY free.partition
            LIMIT share - mine
        );
    END IF;
    -- One row at least, so that the share is told also to those who hold nothing.
    RETURN QUERY
    SELECT lease.share, p.partition, p.epoch
    FROM (VALUES (new_holder)) AS me (holder)
    LEFT JOIN perdure.partitions p ON p.holder = me.holder
    ORDER BY p.partition;
END $$;

CREATE FUNCTION perdure.give_back(old_holder text, partition_numbers integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1346720324, 4);
    UPDATE perdure.partitions p
    SET holder = NULL, epoch = p.epoch + 1
    WHERE p.holder = old_holder AND p.partition = ANY (partition_numbers);
END $$;

CREATE FUNCTION perdure.leave(old_holder text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1346720324, 4);
    UPDATE perdure.partitions p SET holder = NULL, epoch = p.epoch + 1 WHERE p.holder = old_holder;
    DELETE FROM perdure.coordinators c WHERE c.holder = old_holder;
END $$;
