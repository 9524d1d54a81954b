-- The roles that a board itself gives agents, in the place of those of their credentials.
CREATE TABLE member (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (board, agent)
) STRICT, WITHOUT ROWID;
