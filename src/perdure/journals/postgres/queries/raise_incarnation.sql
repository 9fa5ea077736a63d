UPDATE perdure.meta
SET incarnation = incarnation + :by
RETURNING incarnation
