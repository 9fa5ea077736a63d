DELETE FROM weft.notices
WHERE notice_id = ANY (:notice_ids)
RETURNING TRUE
