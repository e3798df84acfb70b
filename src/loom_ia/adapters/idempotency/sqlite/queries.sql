-- name: schema
CREATE TABLE keys (
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    root TEXT NOT NULL,
    call TEXT NOT NULL,
    digest TEXT NOT NULL,
    token TEXT NOT NULL,
    result TEXT,
    PRIMARY KEY (tenant, tool, key)
) WITHOUT ROWID;

-- name: by_session
CREATE INDEX keys_by_session ON keys (tenant, session);

-- name: version
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM
pragma_user_version), (SELECT count(*) FROM sqlite_master);

-- name: find
SELECT session, run, root, call, digest, token, result FROM keys
WHERE tenant = ? AND tool = ? AND key = ?;

-- name: take
INSERT INTO keys (tenant, tool, key, session, run, root, call, digest, token, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, tool, key) DO UPDATE SET session = excluded.session, run = excluded.run,
root = excluded.root, call = excluded.call, digest = excluded.digest, token = excluded.token,
result = excluded.result;

-- name: keep
UPDATE keys SET result = ? WHERE tenant = ? AND tool = ? AND key = ? AND run = ? AND call = ?;

-- name: free
DELETE FROM keys WHERE tenant = ? AND tool = ? AND key = ? AND token = ? AND result IS NULL;

-- name: drop
DELETE FROM keys WHERE tenant = ? AND session = ?;
