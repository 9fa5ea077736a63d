DELETE FROM notices
WHERE notice_id = ? AND run_id = ?
