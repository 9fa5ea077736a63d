UPDATE weft.meta
SET incarnation = incarnation + 1
RETURNING incarnation
