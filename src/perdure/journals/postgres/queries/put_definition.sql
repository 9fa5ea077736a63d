INSERT INTO perdure.definitions (hash, kind, body)
VALUES (:definition_hash, :kind, :body)
ON CONFLICT (hash) DO NOTHING
