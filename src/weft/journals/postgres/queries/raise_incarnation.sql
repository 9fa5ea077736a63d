UPDATE weft.meta
SET incarnation = incarnation + :by
RETURNING incarnation
