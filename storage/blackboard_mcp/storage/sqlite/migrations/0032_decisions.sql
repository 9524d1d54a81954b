-- What an owner decided in a debate, given by one of its agents on one version, until another owner confirms it.
CREATE TABLE decision (
    board INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    version INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    amended_to INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, debate, owner)
) STRICT, WITHOUT ROWID;

ALTER TABLE debate ADD COLUMN confirmed_by TEXT NOT NULL DEFAULT '';
