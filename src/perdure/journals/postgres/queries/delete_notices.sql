DELETE FROM perdure.notices
WHERE notice_id = ANY (:notice_ids)
RETURNING TRUE
