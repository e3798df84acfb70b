ALTER TABLE runs ADD COLUMN waiting_until INTEGER;

DROP VIEW entries;

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
