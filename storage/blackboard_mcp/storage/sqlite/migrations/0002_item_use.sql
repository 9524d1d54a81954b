-- How often an item was read and when last: for policies that go by use. Not part of the board's state.
CREATE TABLE item_use (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    reads INTEGER NOT NULL,
    last_read INTEGER NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
