-- That an item supersedes or refutes another author's, agreed to by that author or by how a debate ended.
CREATE TABLE agreed_claim (
    board INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target INTEGER NOT NULL,
    agent TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, target, kind, source),
    FOREIGN KEY (board, source) REFERENCES item(board, number),
    FOREIGN KEY (board, target) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;

-- Decisions by who was no decider, where deciders were named.
CREATE TABLE undecided (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
