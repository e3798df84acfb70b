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
