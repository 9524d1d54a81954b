-- The planned cost of a task, in millionths of the users' own unit.
ALTER TABLE task ADD COLUMN cost bigint NOT NULL DEFAULT 0;
-- The budget of a board's agenda: bounds (0 is none), what ended attempts used, who set it, and whether it was told that
-- something does not fit. Costs are in millionths, seconds in microseconds.
CREATE TABLE agenda_budget (
    board bigint PRIMARY KEY,
    steps bigint NOT NULL,
    tokens bigint NOT NULL,
    cost bigint NOT NULL,
    seconds bigint NOT NULL,
    used_steps bigint NOT NULL,
    used_tokens bigint NOT NULL,
    used_cost bigint NOT NULL,
    used_seconds bigint NOT NULL,
    set_by text COLLATE "C" NOT NULL,
    told bigint NOT NULL
);
