-- The planned cost of a task, in millionths of the users' own unit.
ALTER TABLE task ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
-- The budget of a board's agenda: bounds (0 is none), what ended attempts used, who set it, and whether it was told that
-- something does not fit. Costs are in millionths, seconds in microseconds.
CREATE TABLE agenda_budget (
    board INTEGER PRIMARY KEY,
    steps INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    seconds INTEGER NOT NULL,
    used_steps INTEGER NOT NULL,
    used_tokens INTEGER NOT NULL,
    used_cost INTEGER NOT NULL,
    used_seconds INTEGER NOT NULL,
    set_by TEXT NOT NULL,
    told INTEGER NOT NULL
) STRICT;
