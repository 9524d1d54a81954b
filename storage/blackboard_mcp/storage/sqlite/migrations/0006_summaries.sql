-- Finished threads that agents are asked to summarise. `seen` is what each source stood at, `item` the first of them;
-- `lease` is the sequence of the last taking.
CREATE TABLE summary_request (
    board INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    item INTEGER NOT NULL,
    seen TEXT NOT NULL,
    seq INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    holder TEXT,
    held_until INTEGER,
    lease INTEGER NOT NULL,
    PRIMARY KEY (board, thread),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
