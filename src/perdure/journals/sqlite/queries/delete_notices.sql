DELETE FROM notices
WHERE notice_id = ?
