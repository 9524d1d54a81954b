-- That an item's author asks for agreement to it: how many owners suffice (0: all who were asked), and whether they
-- agreed. Who is asked stands in `obligation`, with the duty 'agree'.
CREATE TABLE agreement (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    asked_by TEXT NOT NULL,
    enough INTEGER NOT NULL,
    reached INTEGER NOT NULL,
    asked_at INTEGER NOT NULL,
    PRIMARY KEY (board, item),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX obligation_agreeing ON obligation(since) WHERE state = 'outstanding' AND duty = 'agree';
