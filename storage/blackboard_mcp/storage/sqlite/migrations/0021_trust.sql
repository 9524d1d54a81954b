-- How far agents are relied on, and what they posted, where that is not as usual.
CREATE TABLE agent_trust (
    agent TEXT PRIMARY KEY,
    trust TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE item_trust (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    trust TEXT NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
