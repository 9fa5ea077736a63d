SELECT a.application_name
FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
WHERE k.locktype = 'advisory' AND k.classid = 1346720324 AND k.objid = 5 AND k.granted
  AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
LIMIT 1
