-- The function keeps the order of positions: migrations/0011_occurrences.sql.
SELECT place, kept, fresh
FROM perdure.put_occurrences(:tenants, :topics, :keys, :ids, :times, :bodies)
