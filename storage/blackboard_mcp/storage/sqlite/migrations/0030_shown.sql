-- What each agent was shown of a board: all that is news to it up to a sequence, and sequences after it; and those that
-- footers gave it before it had been shown all up to them (JSON lists). Written behind the calls; the board does not
-- depend on it.
CREATE TABLE shown (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    above TEXT NOT NULL,
    told TEXT NOT NULL,
    PRIMARY KEY (board, agent)
) STRICT, WITHOUT ROWID;
