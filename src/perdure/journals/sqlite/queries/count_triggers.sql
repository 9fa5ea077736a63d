SELECT count(*) FROM triggers WHERE tenant = :tenant AND state <> 'deleted'
