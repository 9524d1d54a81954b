-- The first and the last time that an agent was shown an item, and in which kind of answer. Written behind the calls;
-- the board does not change by it.
CREATE TABLE sighting (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    agent TEXT NOT NULL,
    first_at INTEGER NOT NULL,
    first_way TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    last_way TEXT NOT NULL,
    PRIMARY KEY (board, item, agent)
) STRICT, WITHOUT ROWID;
