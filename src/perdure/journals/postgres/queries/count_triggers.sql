SELECT count(*) FROM perdure.triggers WHERE tenant = :tenant AND state <> 'deleted'
