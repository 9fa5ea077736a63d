UPDATE perdure.meta
SET incarnation = incarnation
RETURNING incarnation
