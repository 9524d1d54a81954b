-- The last change of each rule: an item's number, or 0 for the constraints of the core. `mark` tells its version and
-- scope apart, and is empty when it is no longer in force; `revision` is the board's revision of the rules since then.
CREATE TABLE rule_change (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    mark TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (board, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX rule_revision ON rule_change(board, revision);

-- The revision of the rules that an agent was last shown.
CREATE TABLE rules_seen (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (board, agent)
) STRICT, WITHOUT ROWID;
