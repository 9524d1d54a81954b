-- The columns of the primary key come first. Otherwise "PRAGMA integrity_check" of SQLite up to 3.40 finds values
-- missing that are there.
CREATE TABLE task_attempt_in_order (
    board INTEGER NOT NULL,
    task INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    at INTEGER NOT NULL,
    agent TEXT NOT NULL,
    how TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (board, task, lease, at),
    FOREIGN KEY (board, task) REFERENCES task(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
INSERT INTO task_attempt_in_order SELECT board, task, lease, at, agent, how, note FROM task_attempt;
DROP TABLE task_attempt;
ALTER TABLE task_attempt_in_order RENAME TO task_attempt;
