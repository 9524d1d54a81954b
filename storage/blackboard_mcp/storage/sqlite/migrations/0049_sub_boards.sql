-- What a task that a board below does gives to it and brings back, as JSON (see `SubBoard`). `since` is the sequence of the
-- board below when the task began there. The task's `worker` is `board:` with the id of the board below.
CREATE TABLE sub_board (
    board INTEGER NOT NULL,
    task INTEGER NOT NULL,
    spec TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (board, task),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE INDEX task_below ON task(board, number)
    WHERE substr(worker, 1, 6) = 'board:' AND state IN ('PENDING', 'RUNNING', 'WAITING');
