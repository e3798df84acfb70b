-- name: version
SELECT
    (SELECT application_id FROM pragma_application_id),
    (SELECT user_version FROM pragma_user_version),
    (SELECT count(*) FROM sqlite_schema);

-- name: data_version
PRAGMA data_version;

-- name: rebuild
VACUUM;

-- name: empty_log
PRAGMA wal_checkpoint(TRUNCATE);

-- name: checkpoint
PRAGMA wal_checkpoint(PASSIVE);

-- name: secret
SELECT value FROM secrets WHERE name = ?;

-- name: add_secret
INSERT INTO secrets (name, value) VALUES (?, ?);

-- name: find_session
SELECT s.id, e.place, e.at, s.erased_at, s.erased_by, s.pending
FROM sessions AS s
LEFT JOIN events AS e ON e.place = (
    SELECT max(place) FROM events WHERE place >= s.id << 32 AND place < (s.id + 1) << 32
)
WHERE s.tenant_id = ? AND s.session_id = ?;

-- name: add_session
INSERT INTO sessions (tenant_id, session_id, started_at) VALUES (?, ?, ?);

-- name: find_run
SELECT * FROM entries WHERE tenant_id = ? AND run_id = ?;

-- name: open_runs
SELECT * FROM entries
WHERE tenant_id = ? AND session = ? AND ended IS NULL AND root_id = run_id
ORDER BY opened;

-- name: add_run
INSERT INTO runs (
    tenant_id, run_id, session, root_id, agent, ordinal, started_at,
    epoch, ended, cancel_requested, waiting, waiting_until,
    lease_until, lease_holder, lease_process, opened
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_run
UPDATE runs SET
    epoch = ?, ended = ?, cancel_requested = ?, waiting = ?, waiting_until = ?,
    lease_until = ?, lease_holder = ?, lease_process = ?, opened = ?
WHERE id = ?;

-- name: add_event
INSERT INTO events (place, run, position, at, line) VALUES (?, ?, ?, ?, CAST(? AS TEXT));

-- name: add_name
INSERT OR IGNORE INTO names (session, digest) VALUES (?, ?);

-- name: run_lines
SELECT e.place, e.position, e.at, r.run_id, CAST(e.line AS BLOB)
FROM sessions AS s
JOIN runs AS r ON r.tenant_id = s.tenant_id AND r.session = s.id
JOIN events AS e ON e.run = r.id
WHERE s.tenant_id = ? AND s.session_id = ? AND r.run_id = ? AND e.position > ?
ORDER BY e.position;

-- name: session_lines
SELECT e.place, e.position, e.at, r.run_id, CAST(e.line AS BLOB)
FROM sessions AS s
JOIN events AS e ON e.place > (s.id << 32) + ? AND e.place < (s.id + 1) << 32
JOIN runs AS r ON r.id = e.run
WHERE s.tenant_id = ? AND s.session_id = ?
ORDER BY e.place
LIMIT ?;

-- name: searched_sessions
SELECT id, started_at, session_id FROM sessions
WHERE tenant_id = ? AND erased_at IS NULL AND started_at < ?
ORDER BY started_at, session_id;

-- name: searched_session
SELECT id, started_at, session_id FROM sessions
WHERE tenant_id = ? AND erased_at IS NULL AND started_at < ? AND session_id = ?;

-- name: searched_lines
SELECT e.place, e.position, e.at, r.run_id, CAST(e.line AS BLOB)
FROM events AS e
JOIN runs AS r ON r.id = e.run
WHERE e.place >= ?1 << 32 AND e.place < (?1 + 1) << 32 AND e.at >= ?2 AND e.at < ?3
ORDER BY e.place;

-- name: runs
SELECT * FROM entries
WHERE tenant_id = ? AND root_id = run_id AND (started_at, ordinal, run_id) < (?, ?, ?)
ORDER BY started_at DESC, ordinal DESC, run_id DESC;

-- name: runs_of_session
SELECT * FROM entries
WHERE session = (SELECT id FROM sessions WHERE tenant_id = ? AND session_id = ?)
    AND root_id = run_id AND (started_at, ordinal, run_id) < (?, ?, ?)
ORDER BY started_at DESC, ordinal DESC, run_id DESC;

-- name: due
SELECT * FROM entries
WHERE tenant_id = ? AND ended IS NULL AND root_id = run_id
ORDER BY started_at, ordinal, run_id;

-- name: sessions
SELECT * FROM summaries
WHERE tenant_id = ? AND (started_at, session_id) < (?, ?)
ORDER BY started_at DESC, session_id DESC
LIMIT ?;

-- name: session
SELECT * FROM summaries WHERE tenant_id = ? AND session_id = ?;

-- name: pending
SELECT session_id, erased_at, erased_by, pending FROM sessions
WHERE tenant_id = ? AND pending
ORDER BY erased_at;

-- name: set_aside
INSERT INTO quarantine (place, line) VALUES (?, ?);

-- name: replace_line
UPDATE events SET line = CAST(? AS TEXT) WHERE place = ?;

-- name: bury
UPDATE sessions SET erased_at = ?, erased_by = ?, pending = 1 WHERE id = ?;

-- name: erase_runs
DELETE FROM runs
WHERE id IN (SELECT run FROM events WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32);

-- name: erase_events
DELETE FROM events WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32;

-- name: erase_quarantine
DELETE FROM quarantine WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32;

-- name: erase_snapshot
DELETE FROM snapshots WHERE session = ?;

-- name: keep_named
DELETE FROM names WHERE session = ? AND EXISTS (
    SELECT 1 FROM names AS n JOIN sessions AS s ON s.id = n.session
    WHERE n.digest = names.digest AND s.erased_at IS NULL
);

-- name: drop_blobs
DELETE FROM blobs
WHERE tenant_id = ? AND put_at <= ? AND digest IN (SELECT digest FROM names WHERE session = ?);

-- name: forget_dropped
DELETE FROM names
WHERE session = ? AND NOT EXISTS (
    SELECT 1 FROM blobs WHERE tenant_id = ? AND digest = names.digest
);

-- name: left
SELECT count(*) FROM names WHERE session = ?;

-- name: settle
UPDATE sessions SET pending = 0 WHERE tenant_id = ? AND session_id = ?;

-- name: put_blob
INSERT INTO blobs (tenant_id, digest, put_at, data) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET put_at = excluded.put_at;

-- name: blob_put_at
SELECT put_at FROM blobs WHERE tenant_id = ? AND digest = ?;

-- name: blob
SELECT data FROM blobs WHERE tenant_id = ? AND digest = ?;

-- name: add_part
INSERT INTO snapshots (session, number, part)
SELECT ?1, 1 + coalesce(max(number), 0), ?2 FROM snapshots WHERE session = ?1;

-- name: parts
SELECT p.part
FROM sessions AS s
JOIN snapshots AS p ON p.session = s.id
WHERE s.tenant_id = ? AND s.session_id = ?
ORDER BY p.number;

-- name: spent
SELECT cost, tokens FROM spending WHERE tenant_id = ? AND scope = ? AND name = ?;

-- name: spent_between
SELECT cost, tokens FROM spending
WHERE tenant_id = ? AND scope = 'day' AND name >= ? AND name < ?;

-- name: spend
INSERT INTO spending (tenant_id, scope, name, cost, tokens) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET cost = excluded.cost, tokens = excluded.tokens;

-- name: held
SELECT h.cost, coalesce(s.cost, '0')
FROM spending AS h
JOIN runs AS r ON r.tenant_id = h.tenant_id AND r.run_id = h.name
LEFT JOIN spending AS s
    ON s.tenant_id = h.tenant_id AND s.scope = 'run' AND s.name = h.name
WHERE h.tenant_id = ? AND h.scope = 'hold' AND h.name <> ? AND r.ended IS NULL AND NOT r.waiting;

-- name: starts
SELECT started_at FROM runs
WHERE tenant_id = ? AND started_at > ? AND root_id = run_id
ORDER BY started_at;

-- name: erase_spending
DELETE FROM spending
WHERE tenant_id = (SELECT tenant_id FROM sessions WHERE id = ?1) AND (
    (scope = 'session' AND name = (SELECT session_id FROM sessions WHERE id = ?1))
    OR (scope IN ('run', 'hold') AND name IN (SELECT run_id FROM runs WHERE session = ?1))
);
