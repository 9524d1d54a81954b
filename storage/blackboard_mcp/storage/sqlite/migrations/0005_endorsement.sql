-- What findings say, in a form by which the same finding is recognised; filled in when an older file is opened.
CREATE TABLE finding (
    board INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, fingerprint, number)
) STRICT, WITHOUT ROWID;

-- Agents that said the same as an item, with the tags and metadata each gave.
CREATE TABLE endorsement (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    agent TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, item, agent),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;

-- Retraction notices: `item` rests on `source` by way of `via`, and `source` is no longer stood by.
CREATE TABLE retraction (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    via INTEGER NOT NULL,
    status TEXT NOT NULL,
    successor INTEGER,
    seq INTEGER NOT NULL,
    PRIMARY KEY (board, item, source),
    FOREIGN KEY (board, item) REFERENCES item(board, number),
    FOREIGN KEY (board, source) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;

-- Retractions that have not yet reached all that rests on `item`; `after` is the last number told.
CREATE TABLE spreading (
    board INTEGER NOT NULL,
    source INTEGER NOT NULL,
    item INTEGER NOT NULL,
    after INTEGER NOT NULL,
    status TEXT NOT NULL,
    successor INTEGER,
    agent TEXT NOT NULL,
    PRIMARY KEY (board, source, item)
) STRICT, WITHOUT ROWID;
