-- Workers that share what matches a filter: all of it up to `cursor` was handed out.
CREATE TABLE consumer_group (
    board INTEGER NOT NULL,
    name TEXT NOT NULL,
    filter TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    cursor INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX consumer_group_used ON consumer_group(board, used_at);

-- What was handed out and not acknowledged: held until then, waiting to be handed out again since then, or dead.
-- `attempt` counts from the first, `tries` from the last retry by hand; `last` when there is no further one.
CREATE TABLE delivery (
    board INTEGER NOT NULL,
    consumers TEXT NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    last INTEGER NOT NULL,
    worker TEXT NOT NULL,
    until INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (board, consumers, seq),
    FOREIGN KEY (board, consumers) REFERENCES consumer_group(board, name) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_out ON delivery(board, consumers, until) WHERE dead = 0;
CREATE INDEX delivery_dead ON delivery(board, consumers, seq) WHERE dead = 1;
CREATE INDEX delivery_last ON delivery(until) WHERE dead = 0 AND last = 1;
