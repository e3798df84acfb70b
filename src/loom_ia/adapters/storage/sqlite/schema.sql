-- Instants are microseconds since 1970, in UTC.

CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- A row stays when its session is erased: it is the tombstone, `pending` while anything is left.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    erased_at INTEGER,
    erased_by TEXT NOT NULL DEFAULT '',
    pending INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant_id, session_id)
);
CREATE INDEX sessions_listed ON sessions (tenant_id, started_at, session_id)
WHERE erased_at IS NULL;
CREATE INDEX sessions_pending ON sessions (tenant_id) WHERE pending;

-- What the events of a run do not tell at a glance; `opened` is the sequence number of the event
-- that started it, or resumed it after an end.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (id),
    root_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    ended TEXT,
    cancel_requested INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    lease_until INTEGER,
    lease_holder TEXT NOT NULL,
    lease_process TEXT NOT NULL, waiting_until INTEGER,
    UNIQUE (tenant_id, run_id)
);
CREATE INDEX runs_listed ON runs (tenant_id, started_at, ordinal, run_id) WHERE root_id = run_id;
CREATE INDEX runs_of_session ON runs (session, started_at, ordinal, run_id)
WHERE root_id = run_id;
CREATE INDEX runs_open ON runs (tenant_id, session) WHERE ended IS NULL AND root_id = run_id;

-- `place` is session × 2^32 + sequence number, so that a session is one stretch of the file,
-- without a second index; `line` is the event in the JSON of every journal, less what its
-- other columns, its run and its session say.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (id),
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    line TEXT NOT NULL
);
CREATE UNIQUE INDEX events_of_run ON events (run, position);

-- Lines that `repair` set aside, under the place they had.
CREATE TABLE quarantine (place INTEGER NOT NULL, line BLOB NOT NULL);

-- `put_at` tells when a content was put last, within half of the time it is safe from a deletion.
CREATE TABLE blobs (
    tenant_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    put_at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (tenant_id, digest)
);

-- Contents that the events of a session name; of an erased session, those still to be dropped.
CREATE TABLE names (
    session INTEGER NOT NULL REFERENCES sessions (id),
    digest TEXT NOT NULL,
    PRIMARY KEY (session, digest)
) WITHOUT ROWID;
CREATE INDEX names_of_blob ON names (digest);

-- Parts of what can be made again from the events of a session.
CREATE TABLE snapshots (
    session INTEGER NOT NULL REFERENCES sessions (id),
    number INTEGER NOT NULL,
    part BLOB NOT NULL,
    PRIMARY KEY (session, number)
);

-- What was spent, by `scope`: of a `day` in UTC, of a `session`, of a `run` and its children; and
-- of a run what it reserved (`hold`). Costs are decimal numbers, in dollars, exact.
CREATE TABLE spending (
    tenant_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    cost TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, scope, name)
) WITHOUT ROWID;

-- Runs with their last event. An ordinary append writes events only: where a run is follows from
-- them.
CREATE VIEW entries AS
SELECT
    r.id, r.run_id, r.root_id, r.tenant_id, s.session_id, r.agent, r.ordinal, r.started_at,
    e.at AS updated_at, e.position, r.epoch, r.ended, r.cancel_requested, r.waiting,
    r.waiting_until, r.lease_until, r.lease_holder, r.lease_process, r.opened, r.session,
    (
        SELECT at FROM events
        WHERE place >= s.id << 32 AND place < (s.id + 1) << 32
        ORDER BY place DESC LIMIT 1
    ) AS session_at
FROM runs AS r
JOIN sessions AS s ON s.id = r.session
JOIN events AS e
    ON e.run = r.id AND e.position = (SELECT max(position) FROM events WHERE run = r.id);

-- Sessions with what their root runs make of them.
CREATE VIEW summaries AS
SELECT
    s.id, s.tenant_id, s.session_id, s.started_at,
    (
        SELECT e.at FROM events AS e JOIN runs AS r ON r.id = e.run
        WHERE e.place >= s.id << 32 AND e.place < (s.id + 1) << 32 AND r.root_id = r.run_id
        ORDER BY e.place DESC LIMIT 1
    ) AS updated_at,
    (SELECT count(*) FROM runs WHERE session = s.id AND root_id = run_id) AS runs,
    (
        SELECT count(*) FROM runs
        WHERE tenant_id = s.tenant_id AND session = s.id AND ended IS NULL AND root_id = run_id
    ) AS open
FROM sessions AS s
WHERE s.erased_at IS NULL;
